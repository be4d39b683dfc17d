"""Plans for the estimates of each stratum: the accuracy at a given privacy cost, computed from public numbers only."""
