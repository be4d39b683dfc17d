"""The audit flow."""
