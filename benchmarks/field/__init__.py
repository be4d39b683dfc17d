"""The field: our synthesizers beside other projects' on the same rows, at several ε (`make bench`)."""
