"""Prefect flows and tasks, the configuration, and the command line."""
