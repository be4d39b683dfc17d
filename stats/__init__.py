"""Statistical methods that do not depend on privacy or on rows: distributions, intervals and random effects.

A parameter that is out of its range raises InputError.
"""
