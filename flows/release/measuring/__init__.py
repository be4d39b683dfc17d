"""Additional measurements of a release: means, values of open columns, and counts of units by their rows."""
