"""The release flow: its plan, its charge, its steps, and what it writes."""
