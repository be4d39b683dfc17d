"""What a release measures besides marginals and means: open columns' values, units by their rows, people of a panel."""
