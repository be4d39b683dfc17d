"""Code books that people read: tables, lists of columns with their values below them, and records of texts."""
