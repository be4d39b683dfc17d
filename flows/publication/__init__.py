"""Reading, extending and publishing a complete release."""
