"""Private means by Coinpress, by a hierarchical model and by Laplace noise."""
