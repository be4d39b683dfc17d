"""Estimates over tables whose holders keep their rows."""
