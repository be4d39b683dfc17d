"""Settings: checked once, never changed."""
