"""Benchmarks of speed, memory, accuracy and coverage. See `python -m benchmarks --help`."""
