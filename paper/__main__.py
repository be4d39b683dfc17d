"""`python -m paper`: the figures and tables of the papers, made again."""

import typer

from paper.cli import experiments_app
from paper.tables import simulate_app

app = typer.Typer(no_args_is_help=True)
app.add_typer(simulate_app, name="simulate")
app.add_typer(experiments_app, name="experiments")

if __name__ == "__main__":
    app()
