"""Plans that predict the accuracy of an estimate for each stratum. They are computed from public numbers only."""
