"""The settings of flows and commands. They are validated once and cannot be changed."""
