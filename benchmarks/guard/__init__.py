"""This package compares two checkouts on the same tables and seeds before a simplification is merged."""
