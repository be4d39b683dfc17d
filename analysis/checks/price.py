"""Checks that the privacy price of a release follows from the files in its folder.

A Gaussian measurement with sensitivity 1 and standard deviation σ costs 1/(2σ²) in zCDP [1]_. The costs of measurements
are added, and separately measured strata all have the same cost by parallel composition. The cost of choices is
published with the measurements. If a unit has up to k rows, its cost is k² times the cost of one row. No part of the
cost can be negative.

References
----------
.. [1] Bun and Steinke (2016), arXiv:1605.02065, Proposition 1.6.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from equistrata.analysis.means import PRIVATE as MEANS
from equistrata.analysis.release import Release
from equistrata.errors import InputError
from equistrata.privacy.budget import Rho
from equistrata.synth.foreign.promise import Promise
from equistrata.synth.measurements import Where

SAME = 1e-9  # relative tolerance
LEAST_MEASURED = 0.85  # the minimum share of ρ for measurements if the price of choices was not published
COUNTS = "noisy counts"  # the part of ρ for the sizes of strata
_SIZES = "counts of units by their rows"


def stated_price_faults(release: Release) -> Iterator[str]:
    """Check that ε, δ and ρ on the card are consistent, and that the parts of ρ add up to the total."""
    guarantee = release.card["guarantee"]
    for place, part in _prices(release.card):
        try:
            epsilon = _epsilon(part, guarantee.get("promise"))
            rounded_up = 1.001 if place == "guarantee" and "release" in part else 1.0
            holds = epsilon * (1 - 1e-6) <= part["epsilon"] <= epsilon * rounded_up * (1 + 1e-6)
        except (KeyError, TypeError, ValueError, InputError):
            yield f"the card's {place} has no ε, δ and ρ"
            continue
        if not holds:
            yield f"the card's {place} says ε = {part['epsilon']:g}, but its ρ and δ give {epsilon:g}"
    split = dict(guarantee["split_of_rho"])
    if not all(part >= 0 for part in split.values()):  # this is also False for NaN
        yield "a part of ρ on the card is negative"
    if not math.isclose(math.fsum(split.values()), guarantee["rho"], rel_tol=SAME):
        yield f"the parts of ρ on the card add up to {math.fsum(split.values()):.6g}, not to {guarantee['rho']:.6g}"
    series, own = release.card.get("series"), guarantee.get("release", guarantee)
    if series is not None and not math.isclose(own["rho"], series["so_far"]["rho"], rel_tol=SAME):
        yield "the price on the card is not the total cost of its series so far"
    if release.card.get("private", False) is not True:
        yield "the noise was seeded, so the release is not private"


def measured_price_faults(release: Release) -> Iterator[str]:
    """Check that the parts of ρ are equal to the costs of measurements, choices and sizes of units."""
    split = dict(release.card["guarantee"]["split_of_rho"])
    said = math.fsum(part for name, part in split.items() if name.startswith(("synthesis", COUNTS)))
    times = release.unit.synthesis_cost
    priced = [each.choices for each in release.measurements if not math.isnan(each.choices)]
    if not all(each >= 0 for each in priced):
        yield "the cost of a selection is negative"
    if 0 < len(priced) < len(release.measurements):
        yield "the cost of selections is published for some measurements, but not for others"
    for row_measured, row_choices in zip(*_spent(release), strict=True):
        measured, choices = times * row_measured, times * row_choices
        if math.isnan(choices):
            if not LEAST_MEASURED * said <= measured <= said * (1 + SAME):
                yield f"the measurements cost ρ = {measured:.6g}, which does not fit the {said:.6g} on the card"
                break
        elif not math.isclose(measured + choices, said, rel_tol=SAME):
            yield (
                f"measurements and selections cost ρ = {measured + choices:.6g}, but the card says {said:.6g}: a σ, a "
                "selection or the price was changed, or a measurement is missing"
            )
            break
    sizes = release.card.get("unit_sizes")
    if sizes is not None:
        cost = release.unit.histogram_cost / (2 * sizes["sigma"] ** 2)
        if not math.isclose(cost, split.get(_SIZES, 0.0), rel_tol=SAME):
            yield f"counts of units by their rows cost ρ = {cost:.6g} at their σ, but the card states another cost"


def means_price_faults(release: Release) -> Iterator[str]:
    """Check that `means.json` exists if the card has a price for it, and that the prices are equal."""
    said, document = release.card["guarantee"]["split_of_rho"].get("means", 0.0), release.private_means
    means = 0.0 if document is None else float(document["rho"])
    if not math.isclose(means, said, rel_tol=1e-6):
        yield (
            f"{MEANS} says ρ = {means:.6g}, but the card says {said:.6g}"
            if means
            else f"{MEANS} is missing, although its price was paid"
        )


def _epsilon(part: Mapping[str, Any], promised: Mapping[str, Any] | None) -> float:
    """Return the ε that a price implies.

    If a synthesizer only guarantees (ε, δ), then ε is computed from this guarantee.
    """
    if promised is None:
        return Rho(part["rho"]).epsilon(part["delta"])
    promise = Promise(promised["epsilon"], promised["delta"], promised["count"], promised["bought"])
    found = promise.group(1, promise.aside(part["rho"], promised["times"]), part["delta"], promised["times"])
    return math.inf if found is None else found


def _prices(card: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "guarantee", card["guarantee"]
    if "release" in card["guarantee"]:
        yield "own price", {"delta": card["guarantee"]["delta"], **card["guarantee"]["release"]}


def _spent(release: Release) -> tuple[list[float], list[float]]:
    """Return the total ρ of the measurements and the total ρ of the choices.

    Both are lists with one number for each separately measured stratum, which includes the cost over all rows. If no
    stratum was measured separately, there is only one number. The ρ of the choices is NaN if it was not published.
    """
    totals: dict[Where, list[float]] = {(): [0.0, 0.0]}
    for each in release.measurements:
        part = totals.setdefault(each.where, [0.0, 0.0])
        part[0] += 1 / (2 * each.sigma**2)
        part[1] += each.choices
    whole = totals.pop(())
    parts = list(totals.values()) or [[0.0, 0.0]]
    return [whole[0] + part[0] for part in parts], [whole[1] + part[1] for part in parts]
