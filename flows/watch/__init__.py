"""What runs between releases: checks of the budget and of the deployments."""
