"""Private estimates with intervals.

In all modules, a function raises InputError if a setting or an argument is out of its range.
"""
