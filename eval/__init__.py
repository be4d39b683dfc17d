"""How close a synthetic table is to the real one, and how fairly groups are served. Exact scores are internal."""
