"""Releases and audits as flows and commands, from a configuration to the published files."""
