"""What a published release says: reading it, estimates with intervals, replicates, checks. No private row is read."""
