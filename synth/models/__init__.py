"""Models that are estimated from measurements: graphical models on junction trees, mixtures and pools of rows.

This package also contains the estimation of models and the sampling of rows from models.
"""
