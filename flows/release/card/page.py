"""The release card as a Markdown page, with price, content, method and limits."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Any

from equistrata.eval.report.relations import HOW_KEPT, relations_kept, relations_measured
from equistrata.eval.report.templating import template
from equistrata.eval.report.words import groups_counted, percent, rows_in_words, two_digits
from equistrata.flows.release.card.groups import unit_of
from equistrata.flows.release.card.means_apart import means_apart_notes, uninformative_notes
from equistrata.flows.release.card.wide_bins import wide_bin_notes

_HOW = {
    None: "one synthesizer for each of the",
    "auto": "one selection of marginals, over all rows and within strata, for all",
    "strata": "one selection of marginals within strata, for all",
    "none": "one synthesizer for all rows, divided into the",
}


def how_made(card: Mapping[str, Any], words: Mapping[str, str] = MappingProxyType({})) -> str:
    """Describe whether the strata share a selection of marginals.

    Parameters
    ----------
    card : mapping
        The card.
    words : mapping of str to str, default={}
        Labels of the columns.

    Returns
    -------
    str
        The description.

    Raises
    ------
    KeyError
        If the card was written by another version.
    """
    strata = card["strata"]
    if not strata["columns"]:
        return "one synthesizer for all rows"
    how = _HOW[card["levels"] if card["selection"] == "shared" else None]
    columns = " × ".join(words.get(name, name) for name in strata["columns"])
    return f"{how} {strata['count']} declared strata of {columns}"


def title_of(card: Mapping[str, Any]) -> str:
    """Return the title of a release.

    It is the title that the steward has given. If there is none, it consists of the data set and the release, or of the
    name of the schema.

    Raises
    ------
    KeyError
        If the card was written by another version.
    """
    title, ledger = card.get("report", {}).get("title"), card["ledger"]
    named = f"{ledger['dataset']}: {ledger['release_id']}" if isinstance(ledger, Mapping) else card["schema"]["name"]
    return str(title or named)


def card_markdown(card: Mapping[str, Any], means: Mapping[str, Any] | None) -> str:
    """Return the card as Markdown.

    Parameters
    ----------
    card : mapping
        The content of `card.json`.
    means : mapping or None
        The content of `means.json`.

    Returns
    -------
    str
        The page.

    Raises
    ------
    KeyError
        If the card was written by another version.
    """
    from jinja2 import UndefinedError

    shown: dict[str, Any] = dict.fromkeys(("served", "rules", "controls", "survey_weight"))
    shown |= {"wide_bins": (), "means_apart": (), "raked": {}, "audits": (), **card}
    try:
        page = template(Path(__file__).with_name("card.md.j2"))
        text = page.render(
            card=shown,
            means=means,
            group=card["groups"],
            title=title_of(card),
            unit=card["guarantee"]["unit"],
            bound=unit_of(card).left_out_words(shown["unit_sizes"]),
            how=how_made(card, shown["called"]),
            relations_measured=relations_measured,
            called=lambda name: shown["called"].get(name, name),
            relations_kept=relations_kept,
            how_kept=HOW_KEPT,
            rows_of=_rows_of,
            part=percent,
            groups_counted=groups_counted,
            two_digits=two_digits,
            wide_bins=wide_bin_notes(shown["wide_bins"]),
            means_apart=means_apart_notes(shown["means_apart"]),
            shares=_shares_line(card["strata"]["shares"] or {}),
            uninformative=uninformative_notes(means),
        )
        return f"{text.rstrip()}\n"
    except UndefinedError as error:
        raise KeyError(str(error)) from None


def _rows_of(group: Mapping[str, Any]) -> str:
    """Return the interval for the number of rows of a group in words."""
    lower, upper = (inf if end is None else float(end) for end in (group["lower"], group["upper"]))
    return rows_in_words(lower, upper)


def _shares_line(shares: Mapping[str, float], most: int = 6) -> str:
    """Return the shares of the first strata in one line."""
    shown = [f"{name}: {percent(share)}" for name, share in list(shares.items())[:most]]
    return ", ".join([*shown, *([f"and {len(shares) - most:,} more in card.json"] if len(shares) > most else [])])
