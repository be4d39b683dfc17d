"""What every run keeps on disk: working folder, claims, journal, places of output."""
