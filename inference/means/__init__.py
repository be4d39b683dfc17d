"""Private means, which are estimated by Coinpress, by a hierarchical model or with Laplace noise."""
