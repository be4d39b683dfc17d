"""This package contains the columns of a schema and the functions that read and write their cells."""
