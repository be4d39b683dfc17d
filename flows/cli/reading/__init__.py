"""Commands for the recipients of releases and series of releases."""
