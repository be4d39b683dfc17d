"""Dictionaries in rows and columns: a row for each column or value, lists of codes that columns name, and forms."""
