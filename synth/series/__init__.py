"""Estimates from all releases of a series, in which former measurements are observations of counts that drift.

All estimates are post-processing.
"""
