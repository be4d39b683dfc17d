"""Exact scores: the parity error, the marginal error and the downstream utility of synthetic rows.

The scores are exact queries on private rows, which are not charged to a budget. Therefore they are internal and must
not be published.
"""
