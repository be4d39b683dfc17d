"""The unit of privacy, which is protected as a whole, and the selection of a bounded number of rows per unit."""
