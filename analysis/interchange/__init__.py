"""Exports and metadata of a release in the formats of other programs and of catalogues."""
