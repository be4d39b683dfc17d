"""The numbers of an audit, exact and noisy."""
