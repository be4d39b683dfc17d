"""What a release card states: guarantee, price, content and method, for `card.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import PurePath
from typing import Any

from equistrata.data.schema import Schema
from equistrata.data.sources import FolktablesSource
from equistrata.data.texts.manifest import CARD_FORMAT
from equistrata.data.units.unit import Unit
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.card.groups import all_opened, group_table
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.price import FORMER_MONTHS, UNIT_SIZES
from equistrata.privacy.budget import ADD_REMOVE, REPLACE_ONE
from equistrata.privacy.noise import NoiseSource
from equistrata.synth.measurements import Columns, Measurement, measured_pairs

# Places are the steward's own; the texts of the page stand at the top of the card.
PRIVATE_SETTINGS = {"report", "output", "root_dir", "input", "ledger", "cluster", "scratch", "former"}

NAMED_FILES = ("schema", "means_schema", "weights")  # the name says which file it was; its folder is the steward's own

RELATIONS = {
    ADD_REMOVE: f"{ADD_REMOVE}: neighbouring tables, of at least one row each, differ by adding or removing one {{}}",
    "replace-one": "replace-one: neighbouring tables, of at least one row each, differ by another in place of one {}",
    REPLACE_ONE: f"{REPLACE_ONE}: neighbouring tables have the same number of rows in every stratum, which is taken to "
    "be public, and differ in one row; the price is stated for a row added or removed, and a row that is replaced is "
    "both",
}

# Measured on the person records of New York and Vermont, 2024: 81.0 % and 80.9 % (SERIALNO).
HOUSEHOLDS = (
    "Most ACS rows share a household with another row (81 % of New York's and of Vermont's in 2024): what a household "
    "pays is the price of a group, not that of one row"
)
NO_LEDGER = "none: no budget was charged, so the prices of all releases from these rows must be added up by hand"


@dataclass(frozen=True)
class RunRecord:
    """What a run drew and measured, as far as the card states it.

    Attributes:
        rows: the released rows.
        weights: where the strata's weights come from.
        begun_again: how often a stratum was, because its worker was lost.
        measured: all measurements; none where a foreign synthesizer keeps nothing.
        opened: what was found of each open column (`equistrata.flows.release.measuring.finding`).
        unit_sizes: what was counted of units by their rows (`equistrata.flows.release.measuring.unit_sizes`).
        shares: stratum → its share of the rows, where a file of weights was given.
    """

    rows: int
    weights: str
    begun_again: int = 0
    measured: Sequence[Measurement] = ()
    opened: Sequence[Mapping[str, Any]] = ()
    unit_sizes: Mapping[str, Any] | None = None
    shares: Mapping[str, float] | None = None


def release_card(
    plan: Plan, noise: NoiseSource, made: RunRecord, account: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The card: settings and paid-for numbers only.

    The account is `Undertaking.statement`; it has more charges than one if noise was drawn again after a crash.
    """
    config, price, unit = plan.config, plan.price, plan.unit
    parts = {"noisy counts": price.counts, f"synthesis ({plan.name})": price.synthesis, "means": price.means}
    parts |= {name: opening.rho for name, opening in plan.openings.items()}
    parts |= {f"δ of the {name}": opening.paid for name, opening in plan.openings.items()}
    parts |= {UNIT_SIZES: price.sizes}
    opened = [dict(each) | {"drawn": _times(f"values of {each['column']}", account)} for each in made.opened]
    again = {charge["reason"]: charge["rho"] for charge in account["charges"][1:]} if account else {}
    foreign = None if plan.mechanism.keeps_measurements else plan.mechanism
    relation = unit.relation if plan.mechanism.relation == ADD_REMOVE else plan.mechanism.relation
    own = account["rho"] if account else float(price.total)
    series = plan.month.statement(own, plan.modelled) if plan.month else None
    # A month's folder holds what it learned from former ones, so it costs what all of them cost.
    spent = series["so_far"] if series else {"rho": own, "epsilon": account["epsilon"] if account else config.epsilon}
    rho = spent["rho"]
    former = {FORMER_MONTHS: float(plan.month.standing.earlier)} if plan.month else {}
    each = plan.shared is None or any(measurement.where for measurement in made.measured)
    fixed = plan.strata.columns if plan.shared is None else ()
    together = {(*fixed, *dict(m.where), *m.columns) for m in made.measured}
    declared = [*(plan.means.columns if plan.means else ()), *plan.schema.columns]
    return {
        "format": CARD_FORMAT,
        "name": plan.name,
        "report": config.report.model_dump(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "software": f"equistrata {version('equistrata')}",
        "private": noise.private,
        "guarantee": {
            "epsilon": spent["epsilon"],
            "delta": config.delta,
            "rho": rho,
            "unit": unit.words,
            "relation": RELATIONS[relation].format("unit, wherever its rows fall" if unit.column else "row"),
            "delta_is": delta_words(config.units, config.delta),
            "split_of_rho": {name: float(part) for name, part in {**parts, **again, **former}.items() if part},
            "composition": composition_words(unit, each, any(former.values())),
            "noise_source": noise.name if foreign is None else f"{foreign.software}; counts and means: {noise.name}",
            "caveats": [] if foreign is None else list(foreign.caveats),
        },
        "unit": asdict(unit),
        "unit_sizes": None if made.unit_sizes is None else dict(made.unit_sizes),
        "relation": plan.relation,
        "groups": group_table(rho, config.delta, plan.relation, all_opened(opened, series), unit.at_most),
        "ledger": dict(account) if account else NO_LEDGER,
        "series": series,
        "source": plan.source.describe(),
        "households": HOUSEHOLDS if isinstance(plan.source, FolktablesSource) and unit.column is None else None,
        "mechanism": plan.mechanism.name,
        "shrinkage": config.shrinkage and foreign is None and len(plan.strata.keys) > 1,
        "selection": None if len(plan.strata.keys) < 2 else "per-stratum" if each else "shared",
        "levels": None if plan.shared is None else config.levels,
        "engine": config.engine if foreign is None else foreign.software,
        "strata": {
            "columns": list(plan.strata.columns),
            "count": len(plan.strata.keys),
            "weights": made.weights,
            "shares": None if made.shares is None else {name: round(share, 9) for name, share in made.shares.items()},
            "begun_again": made.begun_again,
        },
        "open": opened,
        "relations": _relations(plan.schema, together) if made.measured else None,
        "rows": made.rows,
        "columns": list(plan.schema.names),
        "called": {column.name: column.label for column in declared if column.label},
        "schema": {"name": plan.schema.name, "sha256": plan.schema.digest, "target": plan.schema.target},
        "held_out": plan.held_out,
        "not_covered": "the schema, the strata, public weights, and this configuration are taken to be public",
        "config": _public_settings(config),
    }


def _public_settings(config: ReleaseConfig) -> dict[str, Any]:
    found = {key: value for key, value in config.public().items() if key not in PRIVATE_SETTINGS}
    return found | {key: PurePath(found[key]).name for key in NAMED_FILES if found[key] is not None}


def _relations(schema: Schema, measured: Iterable[Columns]) -> dict[str, list[Any]]:
    """Pairs of columns that were measured together, and not; columns that were measured with no other. A column of one
    value has no relation."""
    names = [column.name for column in schema.columns if column.size > 1]
    together, apart = measured_pairs(names, measured)
    alone = sorted(set(names).difference(*together), key=list(names).index) if len(names) > 1 else []
    return {"measured": list(map(list, together)), "not_measured": list(map(list, apart)), "alone": alone}


def composition_words(unit: Unit, each: bool, former: bool = False) -> str:
    """How prices add up; `each` where some strata were measured each by itself, `former` where other months of a series
    were paid for. See docs/proofs/units.md."""
    if former:
        return f"{composition_words(unit, each)}; months of the series in sequence"
    if each:
        order = "counts, synthesis and means in sequence"
        several = "a unit's rows in several strata together at most as in one"
        return f"{several if unit.at_most > 1 else 'strata in parallel'}; {order}"
    inner = "a unit's rows within a marginal at most as in one cell" if unit.at_most > 1 else ""
    return f"choices, marginals, counts and means in sequence; {inner or 'strata within a marginal in parallel'}"


def _times(part: str, account: Mapping[str, Any] | None) -> int:
    """How often the noise of a part was paid for."""
    return sum(part in charge["parts"] for charge in account["charges"]) if account else 1


def delta_words(units: int | None, delta: float) -> str:
    """Why δ is what it is: how it compares with one for so many units, where their number is declared.

    >>> delta_words(None, 1e-9)
    'at most 1/n^1.5 for up to n = 1,000,000 units; how many there are was not declared'
    """
    if units is None:
        enough = f"{int(delta ** (-2 / 3) * (1 + 1e-9)):,}"
        return f"at most 1/n^1.5 for up to n = {enough} units; how many there are was not declared"
    most = units**-1.5
    holds = "at most" if delta <= most * (1 + 1e-9) else "**above**"
    return f"{holds} 1/n^1.5 = {most:.1e} for the n = {units:,} units that were declared"
