"""Scores and audits of synthetic tables.

The scores measure how close a synthetic table is to the real one, overall and in each stratum. Exact scores are
internal: they are computed from private rows and must not be published.
"""
