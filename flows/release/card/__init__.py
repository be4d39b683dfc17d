"""The release card: what it states, the notes that warn, and the page for people."""
