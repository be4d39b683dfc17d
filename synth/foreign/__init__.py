"""Synthesizers of other projects.

Each synthesizer runs in a separate Python environment.
"""
