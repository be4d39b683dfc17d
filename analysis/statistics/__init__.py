"""The names of the statistics of `Release.estimate`, and the statistics of two columns, one module each."""
