"""Single columns: what they were measured to hold, and which of their codes are merged."""
