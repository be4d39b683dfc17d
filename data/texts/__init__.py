"""YAML and JSON files: settings, schemas, cards, and the manifest of a folder."""
