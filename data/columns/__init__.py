"""A column: what a schema declares of it, its values, bins and dates, and how its cells are read."""
