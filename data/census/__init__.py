"""Schemas for the American Community Survey from the dictionaries of the Census Bureau, and the tasks of folktables."""
