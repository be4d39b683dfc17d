"""The release card, with its warnings and its page for readers."""
