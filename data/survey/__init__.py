"""Survey weights and control totals, which relate the rows to the population."""
