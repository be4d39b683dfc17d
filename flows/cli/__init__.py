"""The command line of equistrata."""
