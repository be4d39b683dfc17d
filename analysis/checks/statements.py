"""Checks of the ledger, columns, groups and rules on the card against the schema and the price of the release."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from equistrata.analysis.release import Release
from equistrata.privacy.budget import Rho

SAME = 1e-9  # relative tolerance
_UNITS = [1, 2, 3, 5, 10]  # the numbers of units for which a card with a format states the price of a group


def statement_faults(release: Release) -> Iterator[str]:
    """Yield a sentence for each contradiction. An honest release has none."""
    card, schema = release.card, release.schema
    if list(card.get("columns", schema.names)) != list(schema.names):
        yield "the card lists other columns than schema.json"
    called = card.get("called")
    if called is not None and any(called.get(each.name, "") != each.label for each in schema.columns):
        yield "the card and schema.json have different labels for a column"
    if card.get("format") is not None and [each["units"] for each in card.get("groups", ())] != _UNITS:
        yield "the card does not state the price of several units together, unlike each card of its format"
    if rules := card.get("rules"):
        if rules["in_order"] != schema.compared:
            yield "the card lists other rules than schema.json"
        if not all(0 <= rules[name] <= card["rows"] for name in ("exchanged", "moved", "replaced")):
            yield "the card says that rules changed more rows than there are"
    if isinstance(card.get("ledger"), Mapping):
        yield from _ledger(card["ledger"], own_price(card))


def own_price(card: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the price of a release as ε, δ and ρ, according to its card.

    The price does not include audits that were added to the folder, or the other months of a series.
    """
    guarantee = card["guarantee"]
    price: Mapping[str, Any] = (card.get("series") or {}).get("own") or guarantee.get("release", guarantee)
    return price


def _ledger(said: Mapping[str, Any], own: Mapping[str, Any]) -> Iterator[str]:
    """Check that the charges, the price and the remaining budget are consistent. Only the ledger can confirm them."""
    charged = math.fsum(each["rho"] for each in said["charges"])
    if not all(math.isclose(each, own["rho"], rel_tol=SAME) for each in (charged, said["rho"])):
        yield f"the card says that ρ = {charged:.6g} was charged, but the release costs {own['rho']:.6g}"
    if not math.isclose(said["epsilon"], own["epsilon"], rel_tol=1e-6):
        yield f"the card says that ε = {said['epsilon']:g} was charged, but the release has {own['epsilon']:g}"
    budget, left = said["budget"], said["left"]
    if not left["rho"] <= (budget["rho"] - said["rho"]) * (1 + SAME) + SAME * budget["rho"]:
        yield "the card states a remaining budget that is larger than the budget before this release"
    for what, each in (("budget", budget), ("rest", left)):
        epsilon = Rho(each["rho"]).epsilon(each["delta"])
        if not math.isclose(epsilon, each["epsilon"], rel_tol=1e-3, abs_tol=1e-6):
            yield f"the card says ε = {each['epsilon']:g} for the {what} of a ledger, but its ρ and δ give {epsilon:g}"
