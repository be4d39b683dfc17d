"""One table cut into strata: shared selection, shrinkage, weights, fitting."""
