"""The contents of a release folder as data frames, and replicate tables."""
