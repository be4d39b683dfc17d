"""This package contains the sources of rows, the schema, the tables of codes, the strata and the public weights.

It does not import any other package of equistrata.
"""
