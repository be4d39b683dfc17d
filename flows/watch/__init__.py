"""Programs that run between releases and check the budget and the deployments."""
