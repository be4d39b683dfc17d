"""This package checks that the files of a release are consistent with the measurements and with each other."""
