"""The steps of a release, free of any orchestrator: each reads and writes a private working folder."""
