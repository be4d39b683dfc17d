"""This package compares our synthesizers with those of other projects on the same rows (`make bench`)."""
