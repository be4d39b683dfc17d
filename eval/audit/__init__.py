"""Audits of a release, with exact numbers or with noisy ones."""
