"""What a release says of its own errors: measurements, their least squares, the model's misfit, replicates."""
