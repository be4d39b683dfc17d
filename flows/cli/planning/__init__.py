"""`equistrata plan`: of an estimate in each stratum, or of a synthesis."""
