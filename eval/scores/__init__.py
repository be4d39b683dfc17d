"""Exact scores: parity error, marginal error, downstream utility.

EXACT: queries on private rows at no privacy cost, so they are internal, and must not be published.
"""
