"""Rules that all rows satisfy, which are impossible combinations and comparisons of two columns."""
