"""The files that a run keeps on disk: the working folder, locks, the journal and the output folder."""
