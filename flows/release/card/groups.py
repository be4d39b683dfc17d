"""The privacy cost for several units together, as stated on the release card."""

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
    """Return the price for k units together, for each k in GROUPS.

    The price is k²ρ. The corresponding ε is computed with the δ of the card.

    Parameters
    ----------
    rho : float
        The price for one unit.
    delta : float
        The value of δ on the card.
    relation : str, default="add-remove"
        The neighbouring relation, or the sentence of the card about it. If units are replaced, k units are a group of
        2k units.
    opened : iterable of mapping, default=()
        The open columns of the card.
    unit_rows : int, default=1
        The largest number of rows of a unit.

    Returns
    -------
    list of dict
        The entries `units`, `rho` and `epsilon`. The value of `epsilon` is None if it is too large for a float. It is
        also None if the probability of finding a value that occurs only in the k units is larger than δ.
    """
    steps = 2 if relation.startswith(REPLACE_ONE) else 1
    table = []
    for units in GROUPS:
        price = Rho(rho).group(steps * units)
        found = math.fsum(
            Threshold(each["sigma"], each["least"], each["delta"]).chance(steps * units * unit_rows) * each["drawn"]
            for each in opened
            if steps * units > 1  # the δ of a single unit is already paid for
        )
        epsilon = price.epsilon(delta - found) if found < delta else math.inf
        table.append({"units": units, "rho": float(price), "epsilon": epsilon if math.isfinite(epsilon) else None})
    return table


def promised_groups(promise: Promise, rho: float, delta: float, relation: str, times: int) -> list[dict[str, Any]]:
    """Return the same table as `group_table` for a synthesizer that only guarantees (ε, δ).

    Parameters
    ----------
    promise : Promise
        The guarantee (see `Promise.group`).
    rho : float
        The price for one unit.
    delta : float
        The δ of the card.
    relation : str
        The neighbouring relation.
    times : int
        The number of times that the synthesizer was fitted.

    Returns
    -------
    list of dict
        The entries `units`, `rho` and `epsilon`.
    """
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


def all_thresholds(opened: Sequence[Mapping[str, Any]], series: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """Return the thresholds for the values of open columns, in a release and in all months from which it learned."""
    return [*opened, *((series or {}).get("opened", ()))]


def unit_of(card: Mapping[str, Any]) -> Unit:
    """Return the unit of a card. Early cards do not have one, and their unit is a single row.

    Raises
    ------
    TypeError
        If the unit has another form.
    """
    return Unit(**card["unit"]) if "unit" in card else ROW
