"""Mixtures of products: models that no clique makes large, and their fit to noisy marginals."""
