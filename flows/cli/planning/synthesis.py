"""The plan of a synthesis, which shows its noise and the ε from which the relations of columns are readable."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from equistrata.errors import InputError
from equistrata.flows.cli.console import out, table
from equistrata.privacy.conversion import round_up

if TYPE_CHECKING:
    from rich.table import Table

    from equistrata.data.strata import Key, Strata
    from equistrata.data.units.unit import Weights
    from equistrata.flows.cli.planning.settings import PlanSettings
    from equistrata.synth.noise_plan import NoisePlan

BOUNDS = range(1, 9)  # the bounds on the rows of a unit that are compared
_FORMS: tuple[Weights, Weights] = ("rows", "units")
PAIRS_LISTED = 6  # the largest number of pairs of columns that are named in a line


def synthesis_document(
    settings: PlanSettings, strata: Strata, sizes: Mapping[Key, float], source: str
) -> dict[str, Any]:
    """Return the plan of a synthesis as plain values. There is no privacy cost, because all inputs are public.

    As in a release, a part of ρ is spent on noisy sizes of the strata.

    Parameters
    ----------
    settings : PlanSettings
        The settings.
    strata : Strata
        The strata.
    sizes : mapping of Key to float
        The expected number of rows of each stratum, which is public.
    source : str
        The source of the sizes.

    Returns
    -------
    dict
        The plan. A value is None if it is not measured, or if no ε is sufficient.

    Raises
    ------
    InputError
        If a setting is out of its range.
    """
    from equistrata.data.strata import Strata
    from equistrata.data.units.unit import Unit, better_weights, unit_sizes_of
    from equistrata.privacy.budget import Rho
    from equistrata.synth.noise_plan import NoisePlan, planned_mechanism
    from equistrata.synth.registry import mechanism
    from equistrata.synth.synthesizer import DEFAULT_COUNT_SHARE

    assert settings.synthesizer is not None
    epsilon, delta, part = settings.epsilon, settings.delta, settings.part
    at_most, relation = settings.rows_of_unit(strata.schema), settings.relation
    unit_sizes = unit_sizes_of(settings.unit_sizes)
    if not DEFAULT_COUNT_SHARE < part <= 1:
        raise InputError(f"setting 'part' is {part:g}, but must be above {DEFAULT_COUNT_SHARE} and at most 1")
    total = Rho.from_epsilon_delta(epsilon, delta)
    own, used = mechanism(settings.synthesizer), 1.0
    if unit_sizes:
        used = rows_kept(unit_sizes, at_most)
    sizes = {key: used * size for key, size in sizes.items()}

    def planned(rows: int, weights: Weights = "rows") -> NoisePlan:
        shares = unit_sizes or [1.0] * rows  # the assumption of `noise_ratio`
        counts = rows_kept(shares, rows, weights) / (used if unit_sizes else rows_kept(shares, rows))
        unit = Unit("unit" if rows > 1 else None, rows, weights=weights, relation=relation)
        wide = Strata.over(replace(strata.schema, unit=unit).modelled, strata.columns)
        of, price = {key: size * counts for key, size in sizes.items()}, total * part * Fraction(1, unit.synthesis_cost)
        return NoisePlan(planned_mechanism(own, wide), wide, of, price, DEFAULT_COUNT_SHARE / part)

    whole, columns, rho = math.fsum(sizes.values()), len(strata.schema.names), float(total * part)

    def default(rows: int) -> Weights:
        return better_weights(rows, columns, rho, whole * rows_kept(unit_sizes, rows) / used, unit_sizes)

    counted = settings.unit_weights or (
        default(at_most) if unit_sizes else better_weights(at_most, columns, rho, whole)
    )
    plan, bounds = planned(at_most, counted), BOUNDS if unit_sizes else ()
    least = {
        pair: None
        if rho is None
        else round_up((rho * (1 / part) * plan.strata.schema.unit.synthesis_cost).epsilon(delta), digits=2)
        for pair, rho in plan.smallest_rho().items()
    }
    return {
        "quantity": "synthesis",
        "mechanism": plan.mechanism.name,
        "columns": list(strata.schema.names),
        "selection": plan.selection,
        "levels": [_label(level) for level in plan.mechanism.levels.offered],
        "epsilon": epsilon,
        "delta": delta,
        "rho": float(total),
        "part": part,
        "relation": relation if at_most == 1 else f"{relation} of units of up to {at_most} rows",
        "at_most": at_most,
        "epsilon_of_a_row": total.per_row(at_most).epsilon(delta),
        "units": [
            _of_units({each: planned(rows, each) for each in _FORMS[:rows]}, rows, unit_sizes)
            | {"default": default(rows)}
            for rows in bounds
        ],
        "unit_weights": counted,
        "sizes": {"source": source, "rows": math.fsum(sizes.values())},
        "readable_noise": plan.limit,
        "choices": plan.choices,
        "strata": [
            {"stratum": strata.label(key), "key": dict(zip(strata.columns, key, strict=True)), "rows": sizes[key]}
            | {"one_way": _errors(plan, plan.one_way(key), key), "two_way": _errors(plan, plan.two_way(key), key)}
            for key in strata.keys
        ],
        "pairs": [
            {"columns": list(pair), "readable": pair in plan.readable_pairs}
            | {
                "smallest_epsilon": min(least[pair] or math.inf, epsilon)
                if pair in plan.readable_pairs
                else least[pair]
            }
            for pair in combinations(strata.schema.names, 2)
        ],
    }


def rows_kept(unit_sizes: Sequence[float], at_most: int, weights: Weights = "rows") -> float:
    """Return the share of rows that are used if the number of rows of each unit is bounded.

    Parameters
    ----------
    unit_sizes : sequence of float
        The shares of units with 1, 2, … rows, from `unit_sizes_of`.
    at_most : int
        The bound.
    weights : {"rows", "units"}, default="rows"
        If "units", return the number of units as a share of the rows.

    Returns
    -------
    float
        The share.
    """
    whole = math.fsum(share * size for size, share in enumerate(unit_sizes, start=1))
    most = at_most if weights == "rows" else 1
    return math.fsum(share * min(size, most) for size, share in enumerate(unit_sizes, start=1)) / whole


def _of_units(plans: Mapping[Weights, NoisePlan], rows: int, unit_sizes: Sequence[float]) -> dict[str, Any]:
    """Return the noise and the loss for a bound on the rows of a unit, as total variation distances.

    The noise of a column is its error in a stratum at the level with the least noise, averaged over rows. The noise of
    a pair of columns is its error over all rows. The entry `weights` is the form with the least noise. The loss is an
    upper bound for the error that is caused by leaving rows out.
    """
    kept = rows_kept(unit_sizes, rows)
    one = {weights: _column_noise(plan) for weights, plan in plans.items()}
    two = {weights: _pair_noise(plan) for weights, plan in plans.items()}
    best = min(one, key=lambda weights: one[weights])
    found = {"at_most": rows, "rows_kept": kept, "one_way": one, "two_way": two, "left_out": 1 - kept}
    return found | {"weights": best, "one_way_at_most": one[best] + 1 - kept}


def _column_noise(plan: NoisePlan) -> float:
    found = {key: min(plan.errors(plan.one_way(key), key).values(), default=1.0) for key in plan.sizes}
    whole = math.fsum(plan.sizes.values())
    return math.fsum(min(found[key], 1.0) * size for key, size in plan.sizes.items()) / whole


def _pair_noise(plan: NoisePlan) -> float | None:
    found = [error for key in plan.sizes for error in plan.errors(plan.two_way(key), key).values()]
    return min(found, default=None)


def _errors(plan: NoisePlan, floors: Mapping[tuple[str, ...], float], key: Key) -> dict[str, Any]:
    """Return the errors at each level, and the error at the finest readable level."""
    errors = plan.errors(floors, key)
    level = plan.finest(errors)
    return {
        "level": None if level is None else _label(level),
        "error": None if level is None else errors[level],
        "errors": {_label(each): error for each, error in errors.items()},
    }


def _label(level: tuple[str, ...]) -> str:
    return ",".join(level) or "all"


def print_synthesis(plan: Mapping[str, Any]) -> None:
    """Print the assumptions of the plan, a table by stratum, and the pairs of columns."""
    said = (
        f"[bold]synthesis[/] by {plan['mechanism']} of {len(plan['columns'])} columns. The table shows the noise of "
        "marginals, as an expected total variation distance. The model reduces the noise, but it adds its own error",
        f"ε = {plan['epsilon']:g}, δ = {plan['delta']:g} (ρ = {plan['rho']:.6g})"
        + (f", of which the share {plan['part']:.3g} is for this synthesis" if plan["part"] != 1 else "")
        + f"; {plan['relation']}; the plan has no privacy cost",
        f"sizes: {plan['sizes']['rows']:,.0f} rows, {escape(plan['sizes']['source'])}",
    )
    grid = table(None, "stratum", ">rows", ">1-way", "level", ">2-way", "level")
    finest = plan["levels"][-1]
    for each in plan["strata"]:
        cells = [cell for kind in ("one_way", "two_way") for cell in _cells(each[kind], finest)]
        grid.add_row(escape(each["stratum"]), f"{each['rows']:,.0f}", *cells)
    readable = sum(pair["readable"] for pair in plan["pairs"])
    foot = [
        f"Noise of at most {plan['readable_noise']:g} is readable, and the table shows the finest readable level. At a "
        "coarser level than the stratum, the differences between the stratum and its group are lost",
        f"readable relations: {readable} of {len(plan['pairs'])} pairs of columns; "
        + (
            f"at most {plan['choices']} pairs are selected"
            if plan["choices"]
            else "no pair is selected, because the noise is too large at this ε"
        )
        + (", separately in each stratum" if plan["selection"] == "per-stratum" else ""),
    ]
    dear = sorted((p for p in plan["pairs"] if not p["readable"]), key=lambda p: p["smallest_epsilon"] or math.inf)
    if dear:
        listed = "; ".join(_pair(pair) for pair in dear[:PAIRS_LISTED])
        more = f"; and {len(dear) - PAIRS_LISTED} more (--json)" if len(dear) > PAIRS_LISTED else ""
        foot.append(f"[yellow]not readable at this ε:[/] {escape(listed)}{more}")
    for line in (*said, grid, *foot, *_about_units(plan)):
        out.print(line, highlight=False)


def _about_units(plan: Mapping[str, Any]) -> list[Table | str]:
    """Describe the effect of a bound on the rows of a unit."""
    if plan["at_most"] == 1 and not plan["units"]:
        return []
    said = (
        f"units of up to {plan['at_most']} rows; {plan['unit_weights']} are counted; for one row, ε = "
        f"{plan['epsilon_of_a_row']:.3g}"
    )
    if not plan["units"]:
        return [f"{said}; to compare other bounds, use --unit-sizes"]
    grid = table(
        None, ">at most", ">used", ">noise, rows count", ">units count", ">left out", ">both, at most",
        caption="The noise is the total variation distance of a column in the strata. The error from the rows left out "
        "is smaller if they are similar to the other rows.",
    )  # fmt: skip
    for each in plan["units"]:
        noise = [each["one_way"].get(weights) for weights in ("rows", "units")]
        cells = ["—" if error is None else f"{error:.2g}" for error in noise]
        left = f"{each['left_out']:.2g}", f"{each['one_way_at_most']:.2g}"
        grid.add_row(str(each["at_most"]), f"{each['rows_kept']:.1%}", *cells, *left)
    best = min(plan["units"], key=lambda each: each["one_way_at_most"])
    counted = [f"{each['default']} at {each['at_most']}" for each in plan["units"]]
    default = f"counted by default: {', '.join(counted)}"
    least = f"smallest error of columns in the worst case: {best['at_most']} rows of a unit, counting {best['weights']}"
    return [said, grid, default, least]


def _cells(found: Mapping[str, Any], finest: str) -> tuple[str, str]:
    if not found["errors"]:
        return "—", "not measured"
    if found["level"] is None:
        return f"{min(found['errors'].values()):.2g}", "[yellow]not readable[/]"
    return f"{found['error']:.2g}", {"all": "all rows", finest: "stratum"}.get(found["level"], found["level"])


def _pair(pair: Mapping[str, Any]) -> str:
    least = pair["smallest_epsilon"]
    return f"{' × '.join(pair['columns'])} ({'at no ε' if least is None else f'from ε = {least:g}'})"
