"""Timed and scored comparisons. `python -m benchmarks --help`."""
