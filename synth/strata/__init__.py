"""One table cut into strata: shared selection, fitting, shrinkage, weights, and the model of all strata."""
