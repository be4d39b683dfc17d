"""Rules that rows obey: combinations that cannot occur, and comparisons of two columns."""
