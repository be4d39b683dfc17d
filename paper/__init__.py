"""Reproduction of the figures and tables of the papers by `python -m paper`. It is not part of the wheel."""
