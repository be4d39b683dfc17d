"""Mechanisms that select and measure marginals: MST, AIM and GEM, with the levels and the session that they share."""
