"""What can be read in each stratum at which price, from public numbers alone."""
