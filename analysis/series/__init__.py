"""A series of releases as a reader has it: from the folders of its months alone."""
