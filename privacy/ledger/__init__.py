"""The ledger of privacy budgets, which records reservations, charges, leases and the fingerprints of rows."""
