"""Private ratios of sums and of counts."""
