"""Exact scores: parity error, marginal error, downstream utility."""
