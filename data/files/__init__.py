"""Tables: their formats, how cells are written, and how a file is opened."""
