"""Privacy accounting: zCDP budgets, calibrated noise, private selection and the budget ledger.

This package does not import any other package of equistrata.
"""
