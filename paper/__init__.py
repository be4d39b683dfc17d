"""The figures and tables of the papers, made again: `python -m paper`. In no wheel."""
