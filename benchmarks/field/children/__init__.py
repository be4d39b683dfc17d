"""Other synthesizers, a file each, run by other interpreters (see `benchmarks.field.child`)."""
