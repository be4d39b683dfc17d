"""This package contains the file formats of tables and the functions that read them."""
