"""This package computes answers from measurements, or from the model with an estimate of its error."""
