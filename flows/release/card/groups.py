"""What a release costs several units together, as its card says it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from equistrata.data.units.unit import ROW, Unit
from equistrata.privacy.budget import ADD_REMOVE, REPLACE_ONE, Rho
from equistrata.privacy.thresholds import Threshold
from equistrata.synth.foreign.promise import Promise

GROUPS = (1, 2, 3, 5, 10)


def group_table(
    rho: float,
    delta: float,
    relation: str = ADD_REMOVE,
    opened: Iterable[Mapping[str, Any]] = (),
    unit_rows: int = 1,
) -> list[dict[str, Any]]:
    """The price for k of GROUPS units together: k²ρ, and its ε at the card's δ.

    Under replacement (a relation, or the card's sentence), k units are a group of 2k. `epsilon` is None beyond floats,
    and where the values that k units alone hold in the `opened` columns of the card are found with a chance above δ.
    """
    steps = 2 if relation.startswith(REPLACE_ONE) else 1
    table = []
    for units in GROUPS:
        price = Rho(rho).group(steps * units)
        found = math.fsum(
            Threshold(each["sigma"], each["least"], each["delta"]).chance(steps * units * unit_rows) * each["drawn"]
            for each in opened
            if steps * units > 1  # the δ of one unit is paid for
        )
        epsilon = price.epsilon(delta - found) if found < delta else math.inf
        table.append({"units": units, "rho": float(price), "epsilon": epsilon if math.isfinite(epsilon) else None})
    return table


def promised_groups(promise: Promise, rho: float, delta: float, relation: str, times: int) -> list[dict[str, Any]]:
    """As `group_table`, of a synthesizer that promises (ε, δ) only and was fitted so often (`Promise.group`)."""
    steps = 2 if relation.startswith(REPLACE_ONE) else 1
    aside = promise.aside(rho, times)
    return [
        {
            "units": units,
            "rho": float(Rho(rho).group(steps * units)),
            "epsilon": promise.group(steps * units, aside, delta, times),
        }
        for units in GROUPS
    ]


def all_opened(opened: Sequence[Mapping[str, Any]], series: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """By which thresholds values were found, as a card has it: in a release, and in the months that it learned from."""
    return [*opened, *((series or {}).get("opened", ()))]


def unit_of(card: Mapping[str, Any]) -> Unit:
    """The unit of a card; one row where it names none, as early ones. Raises TypeError where it has another form."""
    return Unit(**card["unit"]) if "unit" in card else ROW
