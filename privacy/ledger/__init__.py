"""Durable accounts of privacy budget: reservations, charges, their hash chain, leases and whose rows they are."""
