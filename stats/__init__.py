"""Statistics that know nothing of privacy or of rows: laws, intervals, random effects, checks of arguments.

A parameter out of its range raises InputError.
"""
