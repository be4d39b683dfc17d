"""On what an answer rests: measurements of its own, or the model and how far that may be off."""
