"""Cells of a code book: what one lists, how a list is cut, what is no list, and values with words in JSON."""
