"""Estimates of single columns, and the merging of their codes."""
