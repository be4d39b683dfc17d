"""A finished release: read, added to, handed out."""
