"""What a release measures besides marginals: means, open columns' values, units by their rows, people of a panel."""
