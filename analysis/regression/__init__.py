"""Linear and logistic regression. The coefficients are computed from measurements if this is possible."""
