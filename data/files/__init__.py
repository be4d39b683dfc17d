"""Files: how they are written, what kind they are, and hashes of what a folder holds."""
