"""What it costs: budgets in zCDP, noise and private selection. This room knows no other room."""
