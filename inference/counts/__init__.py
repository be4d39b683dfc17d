"""Private counts, with tests for proportions and for independence."""
