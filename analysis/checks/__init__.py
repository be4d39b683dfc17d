"""Whether what a release's folder holds beside its measurements agrees with them, and with itself."""
