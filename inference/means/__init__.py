"""Coinpress and hierarchical means."""
