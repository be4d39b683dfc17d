"""What releases say to who received their folders: of one release, and of a series of them."""
