"""This package estimates the errors of a release from its measurements, the misfit of the model, and replicates."""
