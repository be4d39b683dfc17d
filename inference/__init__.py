"""Private estimates with intervals. Everywhere, a setting or argument out of its range raises InputError."""
