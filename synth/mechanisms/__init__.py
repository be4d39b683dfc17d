"""Which marginals are measured: MST, AIM, GEM, the levels that they share, and the account of one run."""
