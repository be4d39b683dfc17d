"""YAML and JSON files, which are used for settings, schemas, cards and the manifest of a folder."""
