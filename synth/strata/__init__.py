"""Stratified fitting: shared selection, fitting, shrinkage, weights, and the model of all strata."""
