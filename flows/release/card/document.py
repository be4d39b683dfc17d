"""The content of a release card in `card.json`: guarantee, price, content and method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from equistrata.data.schema import Schema
from equistrata.data.sources import FolktablesSource
from equistrata.data.texts.manifest import CARD_FORMAT
from equistrata.data.units.unit import Unit
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.card.groups import all_thresholds, group_table, promised_groups
from equistrata.flows.release.price import FORMER_MONTHS, SYNTHESIS, UNIT_SIZES
from equistrata.privacy.budget import ADD_REMOVE, REPLACE_ONE
from equistrata.privacy.noise import NoiseSource
from equistrata.synth.measurements import Columns, Measurement, measured_pairs
from equistrata.synth.names import public_name

if TYPE_CHECKING:
    from equistrata.flows.release.plan import Plan
    from equistrata.synth.mechanisms.base import Mechanism

# Paths are private to the steward. The texts of the page are at the top of the card.
PRIVATE_SETTINGS = {
    "report", "output", "root_dir", "input", "ledger", "cluster", "scratch", "former", "synthesizer_python",
}  # fmt: skip

# The card contains the name of each file, but not its folder, which is private to the steward.
NAMED_FILES = ("schema", "means_schema", "weights", "controls")

RELATIONS = {
    ADD_REMOVE: f"{ADD_REMOVE}: neighbouring tables, of at least one row each, differ by adding or removing one {{}}",
    "replace-one": "replace-one: neighbouring tables, of at least one row each, differ by replacing one {}",
    REPLACE_ONE: f"{REPLACE_ONE}: neighbouring tables have the same number of rows in every stratum, which is taken to "
    "be public, and differ in one row; the cost is stated for a row that is added or removed, and a replaced row "
    "counts as both",
}

# Measured on the person records of New York and Vermont in 2024, which gave 81.0 % and 80.9 % (SERIALNO).
HOUSEHOLDS = (
    "Most rows of the ACS share a household with another row (81 % in New York and in Vermont in 2024), so the privacy "
    "cost for a household is that of several rows"
)
NO_LEDGER = "none. No budget was charged, so add up the privacy costs of all releases from these rows by hand"


@dataclass(frozen=True)
class RunRecord:
    """The results of a run that are stated on the card.

    Attributes
    ----------
    rows : int
        The number of released rows.
    weights : str
        The source of the weights of the strata.
    begun_again : int
        The number of times that a stratum was started again because its worker was lost.
    measured : sequence of Measurement
        All measurements. It is empty if a foreign synthesizer does not keep them.
    opened : sequence of mapping
        The values of each open column (see `equistrata.flows.release.measuring.finding`).
    unit_sizes : mapping or None
        The noisy counts of units by their rows (see `equistrata.flows.release.measuring.unit_sizes`).
    shares : mapping of str to float, or None
        The share of the rows in each stratum, if a file of weights was given.
    """

    rows: int
    weights: str
    begun_again: int = 0
    measured: Sequence[Measurement] = ()
    opened: Sequence[Mapping[str, Any]] = ()
    unit_sizes: Mapping[str, Any] | None = None
    shares: Mapping[str, float] | None = None


@dataclass(frozen=True)
class CardFacts:
    """The data from which the sections of a card are written.

    They only contain settings and numbers that were paid for.

    Attributes
    ----------
    plan : Plan
        The plan of the release.
    noise : NoiseSource
        The source of the noise.
    made : RunRecord
        The results of the run.
    account : mapping or None
        The result of `ReleaseRun.statement`. If noise was drawn again after a crash, it has more than one charge.
    """

    plan: Plan
    noise: NoiseSource
    made: RunRecord
    account: Mapping[str, Any] | None = None

    @cached_property
    def own(self) -> float:
        """The cost of this release in ρ. The months from which it learned are not included."""
        return float(self.account["rho"] if self.account else self.plan.price.total)

    @cached_property
    def series(self) -> dict[str, Any] | None:
        """The statement about the series, or None."""
        return self.plan.month.statement(self.own, self.plan.modelled) if self.plan.month else None

    @cached_property
    def spent(self) -> Mapping[str, Any]:
        """The values of ρ and ε for the release folder.

        In a series, they include all months from which the release learned.
        """
        epsilon = self.account["epsilon"] if self.account else self.plan.config.epsilon
        return self.series["so_far"] if self.series else {"rho": self.own, "epsilon": epsilon}

    @cached_property
    def former(self) -> float:
        """The cost of the former months of the series in ρ."""
        return float(self.plan.month.standing.earlier) if self.plan.month else 0.0

    @cached_property
    def opened(self) -> list[dict[str, Any]]:
        """The values of each open column, with the number of times that their noise was paid for."""
        return [
            dict(each) | {"drawn": _times(f"values of {each['column']}", self.account)} for each in self.made.opened
        ]

    @property
    def times(self) -> int:
        """The number of times that the synthesis was paid for."""
        return _times(SYNTHESIS, self.account)

    @property
    def each(self) -> bool:
        """True if one or more strata were measured separately."""
        return self.plan.shared is None or any(measurement.where for measurement in self.made.measured)

    @property
    def foreign(self) -> Mechanism | None:
        """The mechanism, if it is a foreign synthesizer that does not keep measurements."""
        return None if self.plan.mechanism.keeps_measurements else self.plan.mechanism


def release_card(
    plan: Plan, noise: NoiseSource, made: RunRecord, account: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the card, which consists of the `SECTIONS`.

    Parameters
    ----------
    plan, noise, made, account
        Attributes of `CardFacts`.

    Returns
    -------
    dict
        The content of `card.json`.
    """
    facts = CardFacts(plan, noise, made, account)
    return {key: value for section in SECTIONS for key, value in section(facts).items()}


def _identity(facts: CardFacts) -> dict[str, Any]:
    return {
        "format": CARD_FORMAT,
        "name": facts.plan.name,
        "report": facts.plan.config.report.model_dump(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "software": f"equistrata {version('equistrata')}",
        "private": facts.noise.private,
    }


def _guarantee(facts: CardFacts) -> dict[str, Any]:
    plan, foreign, noise = facts.plan, facts.foreign, facts.noise.name
    config, price, unit = plan.config, plan.price, plan.unit
    parts = {"noisy counts": price.counts, f"synthesis ({plan.name})": price.synthesis, "means": price.means}
    parts |= {name: opening.rho for name, opening in plan.openings.items()}
    parts |= {f"δ of the {name}": opening.paid for name, opening in plan.openings.items()}
    parts |= {UNIT_SIZES: price.sizes}
    again = {charge["reason"]: charge["rho"] for charge in facts.account["charges"][1:]} if facts.account else {}
    relation = unit.relation if plan.mechanism.relation == ADD_REMOVE else plan.mechanism.relation
    split = {**parts, **again, FORMER_MONTHS: facts.former}
    guarantee = {
        "epsilon": facts.spent["epsilon"],
        "delta": config.delta,
        "rho": facts.spent["rho"],
        "unit": unit.words,
        "relation": RELATIONS[relation].format("unit, wherever its rows fall" if unit.column else "row"),
        "delta_is": delta_words(config.units, config.delta),
        "split_of_rho": {name: float(part) for name, part in split.items() if part},
        "composition": composition_words(unit, facts.each, bool(facts.former)),
        "noise_source": noise if foreign is None else f"{foreign.software}; counts and means: {noise}",
        "caveats": [] if foreign is None else list(foreign.caveats),
    }
    if plan.promise is not None:
        guarantee["promise"] = asdict(plan.promise) | {"times": facts.times}
    return {"guarantee": guarantee}


def _units(facts: CardFacts) -> dict[str, Any]:
    plan, sizes = facts.plan, facts.made.unit_sizes
    opened = all_thresholds(facts.opened, facts.series)
    return {
        "unit": asdict(plan.unit),
        "unit_sizes": None if sizes is None else dict(sizes),
        "relation": plan.relation,
        "groups": group_table(facts.spent["rho"], plan.config.delta, plan.relation, opened, plan.unit.at_most)
        if plan.promise is None
        else promised_groups(plan.promise, facts.spent["rho"], plan.config.delta, plan.relation, facts.times),
    }


def _accounts(facts: CardFacts) -> dict[str, Any]:
    return {"ledger": dict(facts.account) if facts.account else NO_LEDGER, "series": facts.series}


def _method(facts: CardFacts) -> dict[str, Any]:
    plan, config, foreign = facts.plan, facts.plan.config, facts.foreign
    several = len(plan.strata.keys) > 1
    return {
        "source": plan.source.describe(),
        "households": HOUSEHOLDS if isinstance(plan.source, FolktablesSource) and plan.unit.column is None else None,
        "mechanism": plan.mechanism.name,
        "shrinkage": config.shrinkage and foreign is None and several,
        "selection": ("per-stratum" if facts.each else "shared") if several else None,
        "levels": None if plan.shared is None else config.levels,
        "engine": config.engine if foreign is None else foreign.software,
    }


def _content(facts: CardFacts) -> dict[str, Any]:
    plan, made = facts.plan, facts.made
    fixed = plan.strata.columns if plan.shared is None else ()
    together = {(*fixed, *dict(m.where), *m.columns) for m in made.measured}
    declared = [*(plan.means.columns if plan.means else ()), *plan.schema.columns]
    return {
        "strata": {
            "columns": list(plan.strata.columns),
            "count": len(plan.strata.keys),
            "weights": made.weights,
            "shares": None if made.shares is None else {name: round(share, 9) for name, share in made.shares.items()},
            "begun_again": made.begun_again,
        },
        "open": facts.opened,
        "relations": _relations(plan.schema, together) if made.measured else None,
        "rows": made.rows,
        "columns": list(plan.schema.names),
        "survey_weight": plan.modelled.survey_weight,
        "called": {column.name: column.label for column in declared if column.label},
        "schema": {"name": plan.schema.name, "sha256": plan.schema.digest, "target": plan.schema.target},
        "held_out": plan.held_out,
        "not_covered": "the schema, the strata, public weights, public totals and this configuration are assumed to be "
        "public, so the guarantee does not cover them",
        "config": _public_settings(plan.config),
    }


SECTIONS: tuple[Callable[[CardFacts], dict[str, Any]], ...] = (
    _identity, _guarantee, _units, _accounts, _method, _content,
)  # fmt: skip


def _public_settings(config: ReleaseConfig) -> dict[str, Any]:
    found = {key: value for key, value in config.public().items() if key not in PRIVATE_SETTINGS}
    found["synthesizer"] = public_name(found["synthesizer"])
    return found | {key: PurePath(found[key]).name for key in NAMED_FILES if found[key] is not None}


def _relations(schema: Schema, measured: Iterable[Columns]) -> dict[str, list[Any]]:
    """Return the pairs of columns that were measured together, all other pairs, and the columns without measured pairs.

    Columns with a single value are ignored, because they do not have any relation.
    """
    names = [column.name for column in schema.columns if column.size > 1]
    together, apart = measured_pairs(names, measured)
    alone = sorted(set(names).difference(*together), key=list(names).index) if len(names) > 1 else []
    return {"measured": list(map(list, together)), "not_measured": list(map(list, apart)), "alone": alone}


def composition_words(unit: Unit, each: bool, former: bool = False) -> str:
    """Describe in words how the prices compose. See docs/proofs/units.md.

    Parameters
    ----------
    unit : Unit
        The unit of privacy.
    each : bool
        True if some strata were measured separately.
    former : bool, default=False
        True if other months of a series were paid for.

    Returns
    -------
    str
        The description.
    """
    if former:
        return f"{composition_words(unit, each)}; months of the series in sequence"
    if each:
        order = "counts, synthesis and means in sequence"
        several = "a unit with rows in several strata costs at most as much as in one stratum"
        return f"{several if unit.at_most > 1 else 'strata in parallel'}; {order}"
    inner = "a unit with rows in several cells of a marginal costs at most as much as in one cell"
    parallel = "strata within a marginal in parallel"
    return f"selections, marginals, counts and means in sequence; {inner if unit.at_most > 1 else parallel}"


def _times(part: str, account: Mapping[str, Any] | None) -> int:
    """Return the number of times that the noise of a part was paid for."""
    return sum(part in charge["parts"] for charge in account["charges"]) if account else 1


def delta_words(units: int | None, delta: float) -> str:
    """Describe how δ compares with 1/n^1.5, where n is the declared number of units.

    >>> delta_words(None, 1e-9)
    'at most 1/n^1.5 for up to n = 1,000,000 units (the number of units was not declared)'
    """
    if units is None:
        enough = f"{int(delta ** (-2 / 3) * (1 + 1e-9)):,}"
        return f"at most 1/n^1.5 for up to n = {enough} units (the number of units was not declared)"
    most = units**-1.5
    holds = "at most" if delta <= most * (1 + 1e-9) else "**above**"
    return f"{holds} 1/n^1.5 = {most:.1e} for the declared number of n = {units:,} units"
