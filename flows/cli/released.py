"""The summary of a release on a terminal: price, notes, charges, means and the path of the scores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.markup import escape

from equistrata.eval.report.relations import unmeasured
from equistrata.flows.cli.console import SEEDED, note, out, print_lines, table
from equistrata.flows.release.inside import SCORES, is_terminal_output, private_folder


def print_release(folder: Path) -> None:
    """Print the summary of a release. Exact scores are only printed to a terminal and not to a file."""
    from equistrata.analysis.contents.card import read_card, read_means  # pandas

    card, means = read_card(folder), read_means(folder)
    out.print(f"[bold green]released[/] {escape(str(folder))}", soft_wrap=True, highlight=False)
    _print_price(card)
    for line in _notes(card, means):
        out.print(f"[bold yellow]note[/]: {escape(line)}", highlight=False)
    _print_weights(card["strata"])
    _print_charges(card)
    if not card["private"]:
        out.print(SEEDED)
    if means is not None:
        _print_means(means)
    scores = private_folder(folder) / SCORES
    if scores.exists():
        if is_terminal_output():
            from equistrata.flows.cli.score import score_table

            out.print(score_table(json.loads(scores.read_text("utf-8"))))
        print_lines(f"exact scores, not to be published: {scores}")
    elif card["config"].get("evaluate", "none") != "none":
        note("[bold yellow]note:[/]", "no exact scores are kept; equistrata audit computes exact numbers again")


def _print_price(card: Mapping[str, Any]) -> None:
    guarantee = card["guarantee"]
    out.print(
        f"{escape(card['name'])}: {card['rows']:,} rows, [bold]ε = {guarantee['epsilon']:g}, δ = "
        f"{guarantee['delta']:g}[/] (ρ = {guarantee['rho']:.6g}), "
        f"{card['strata']['count']} strat{'um' if card['strata']['count'] == 1 else 'a'}",
        highlight=False,
    )
    if above := _large_delta(guarantee["delta"], (card.get("config") or {}).get("units"), card["rows"]):
        out.print(f"[bold yellow]note[/]: {escape(above)}", highlight=False)
    if card.get("series"):
        series = card["series"]
        own, end = series["own"], series["at_its_end"]
        print_lines(
            f"month {series['month']} of {series['horizon']} of series {series['name']}: ε = {own['epsilon']:.4g} for "
            f"this month, at most {end['epsilon']:g} for the whole series (δ = {end['delta']:g})"
        )


def _notes(card: Mapping[str, Any], means: Mapping[str, Any] | None) -> list[str]:
    """Return notes about properties that the steward may want to change, one sentence each."""
    from equistrata.flows.release.card.means_apart import means_apart_notes, uninformative_notes
    from equistrata.flows.release.card.wide_bins import wide_bin_notes

    alone = (card.get("relations") or {}).get("alone")
    return [
        *([f"{unmeasured(alone)}; raise epsilon, or release fewer or coarser columns"] if alone else []),
        *wide_bin_notes(card.get("wide_bins", ())),
        *means_apart_notes(card.get("means_apart", ())),
        *uninformative_notes(means),
    ]


def _print_weights(strata: Mapping[str, Any], most: int = 8) -> None:
    """Print the shares of the first strata, if they are given by a file of weights."""
    if not (shares := strata.get("shares")):
        return
    print_lines(f"group weights: {strata['weights']}")
    grid = table("group weights", "stratum", ">share")
    for name, share in list(shares.items())[:most]:
        grid.add_row(escape(name), f"{100 * share:.4g} %")
    if len(shares) > most:
        grid.add_row(f"… and {len(shares) - most:,} more in card.json", "")
    out.print(grid)


def _print_charges(card: Mapping[str, Any]) -> None:
    if not isinstance(card["ledger"], dict):
        return
    charged, left = card["ledger"], card["ledger"]["left"]
    print_lines(
        f"charged to {charged['dataset']} as {charged['release_id']}; left: ρ = {left['rho']:.6g} "
        f"(ε = {left['epsilon']:.4g} at δ = {left['delta']:g})"
    )
    for charge in charged["charges"][1:]:
        out.print(
            f"[bold yellow]charged again[/]: ρ = {charge['rho']:.6g}, {escape(charge['reason'])}", highlight=False
        )


def _print_means(means: Mapping[str, Any]) -> None:
    level = next(each["level"] for estimates in means["outcomes"].values() for each in estimates.values())
    grid = table("private means", "column", "estimator", ">mean", f">{level:.0%} interval")
    for column, estimates in means["outcomes"].items():
        for kind, e in estimates.items():
            said = f"{e['lower']:.5g} to {e['upper']:.5g}" + ", uninformative" * bool(e.get("uninformative"))
            grid.add_row(escape(column), kind, f"{e['value']:.5g}", said)
    out.print(grid)


def _large_delta(delta: float, units: int | None, rows: int) -> str:
    """Return a warning if δ is too large.

    The limit is 1/n^1.5 for n declared units. If the number of units is not declared, the limit is 1/n for n released
    rows. A mechanism that publishes the rows of one person in n has δ = 1/n.

    >>> _large_delta(1e-6, 8000, 8003), _large_delta(1e-5, None, 8003)
    ('', '')
    >>> _large_delta(0.5, None, 8003)[:35]
    'δ = 0.5 is large for 8,003 rows, so'
    """
    many = f"{units:,} units" if units else f"{rows:,} rows"
    if delta <= (units**-1.5 * (1 + 1e-9) if units else 1 / max(rows, 1)):
        return ""
    from equistrata.flows.config.release import delta_for

    most = delta_for(units or max(rows, 1))
    return f"δ = {delta:g} is large for {many}, so that ε promises little: choose {most:g} or less (--delta)"
