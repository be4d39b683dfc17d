"""Which marginals are chosen and measured: MST, AIM, GEM, the levels that they share, and the session that charges."""
