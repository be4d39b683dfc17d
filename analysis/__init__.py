"""Tools for readers of a published release: estimates with intervals, replicates and checks. No private row is read."""
