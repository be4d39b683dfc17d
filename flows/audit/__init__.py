"""The audit flow, its plan and its steps."""
