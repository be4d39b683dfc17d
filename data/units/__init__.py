"""The unit of privacy: whom the guarantee protects, and how many rows of each are used."""
