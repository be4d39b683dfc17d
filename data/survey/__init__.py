"""Rows that stand for people: survey weights, and public totals of the population."""
