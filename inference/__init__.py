"""Private estimates with intervals."""
