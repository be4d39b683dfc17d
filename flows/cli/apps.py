"""The groups of commands, which the modules of this room add themselves to."""

from __future__ import annotations

import typer

app = typer.Typer(
    help="Private, fair releases of synthetic microdata, with an account of their privacy cost.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
schema_app = typer.Typer(help="Look at schemas.", no_args_is_help=True)
budget_app = typer.Typer(help="Lifetime budgets, and what every release has cost.", no_args_is_help=True)
app.add_typer(schema_app, name="schema")
app.add_typer(budget_app, name="budget")
