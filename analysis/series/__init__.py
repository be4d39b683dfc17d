"""Tools for readers of a series of releases, which only use the folders of its months."""
