"""Estimates from tables of several holders. The rows remain with the holders."""
