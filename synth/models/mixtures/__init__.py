"""Mixtures of product distributions, and their estimation from noisy marginals.

The size of a mixture does not depend on the measured marginals.
"""
