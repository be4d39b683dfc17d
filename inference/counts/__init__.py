"""Private counts, tests of proportions and of independence."""
