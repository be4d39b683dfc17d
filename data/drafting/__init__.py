"""From a code book, or a look at the rows, to a draft of a schema."""
