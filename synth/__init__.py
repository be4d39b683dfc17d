"""Synthesizers: measurements, estimation on the junction tree, MST, and the stratified synthesizer."""
