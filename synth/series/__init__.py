"""What the releases of a series know together: former measurements as observations that drift. Post-processing."""
