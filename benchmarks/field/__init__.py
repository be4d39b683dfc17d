"""Comparison with the synthesizers of other projects.

All synthesizers are fitted to the same rows for several values of ε. The command is `make bench`.
"""
