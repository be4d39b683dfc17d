"""The release card: guarantee, price, content and method of a release, as JSON and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

from equistrata.data.files.manifest import CARD_FORMAT
from equistrata.data.sources import FolktablesSource
from equistrata.data.units.unit import ROW, Unit
from equistrata.eval.report.relations import relations_measured
from equistrata.eval.report.templating import template
from equistrata.eval.report.words import groups_counted, percent
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.means_apart import means_apart_notes, uninformative_notes
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.price import TRANSITIONS, UNIT_SIZES
from equistrata.flows.release.wide_bins import wide_bin_notes
from equistrata.privacy.budget import ADD_REMOVE, REPLACE_ONE, Rho
from equistrata.privacy.noise import NoiseSource
from equistrata.privacy.thresholds import Threshold
from equistrata.synth.measurements import Columns, Measurement, measured_pairs
from equistrata.synth.mechanisms.base import penalty

# Places are the steward's own; the texts of the page stand at the top of the card.
PRIVATE_SETTINGS = {"report", "output", "root_dir", "input", "ledger", "cluster", "scratch", "former"}

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
GROUPS = (1, 2, 3, 5, 10)

NO_LEDGER = "none: no budget was charged, so the prices of all releases from these rows must be added up by hand"


def release_card(
    plan: Plan,
    noise: NoiseSource,
    rows: int,
    weights_source: str,
    account: Mapping[str, Any] | None = None,
    begun_again: int = 0,
    measured: Sequence[Measurement] = (),
    opened: Sequence[Mapping[str, Any]] = (),
    unit_sizes: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The card: settings and paid-for numbers only. The account is `Undertaking.statement`.

    `measured` is all that was, or none where a foreign synthesizer keeps nothing.
    `opened` is what was found of each open column (`equistrata.flows.release.measuring.finding`).
    `unit_sizes` is what was counted of units by their rows (`equistrata.flows.release.measuring.unit_sizes`).
    It has more charges than one if noise was drawn again after a crash. A stratum is begun again if its worker is lost.
    """
    config, price, unit = plan.config, plan.price, plan.unit
    parts = {"noisy counts": price.counts, f"synthesis ({plan.name})": price.synthesis, "means": price.means}
    parts |= {name: opening.rho for name, opening in plan.openings.items()}
    parts |= {f"δ of the {name}": opening.paid for name, opening in plan.openings.items()}
    parts |= {UNIT_SIZES: price.sizes, TRANSITIONS: price.transitions}
    opened = [dict(each) | {"drawn": _times(f"values of {each['column']}", account)} for each in opened]
    again = {charge["reason"]: charge["rho"] for charge in account["charges"][1:]} if account else {}
    foreign = None if plan.mechanism.keeps_measurements else plan.mechanism
    relation = unit.relation if plan.mechanism.relation == ADD_REMOVE else plan.mechanism.relation
    rho = account["rho"] if account else float(price.total)
    each = plan.shared is None or any(measurement.where for measurement in measured)
    fixed = plan.strata.columns if plan.shared is None else ()
    together = {(*fixed, *dict(m.where), *m.columns) for m in measured}
    declared = [*(plan.means.columns if plan.means else ()), *plan.schema.columns]
    return {
        "format": CARD_FORMAT,
        "name": plan.name,
        "report": config.report.model_dump(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "software": f"equistrata {version('equistrata')}",
        "private": noise.private,
        "guarantee": {
            "epsilon": account["epsilon"] if account else config.epsilon,
            "delta": config.delta,
            "rho": rho,
            "unit": unit.words,
            "relation": RELATIONS[relation].format("unit, wherever its rows fall" if unit.column else "row"),
            "delta_is": _delta_is(config),
            "split_of_rho": {**{name: float(part) for name, part in parts.items() if part}, **again},
            "composition": _composition(unit, each),
            "noise_source": noise.name if foreign is None else f"{foreign.software}; counts and means: {noise.name}",
            "caveats": [] if foreign is None else list(foreign.caveats),
        },
        "unit": asdict(unit),
        "unit_sizes": None if unit_sizes is None else dict(unit_sizes),
        "relation": plan.relation,
        "groups": group_table(rho, config.delta, plan.relation, opened, unit.at_most),
        "ledger": dict(account) if account else NO_LEDGER,
        "series": plan.month.statement(rho) if plan.month else None,
        "source": plan.source.describe(),
        "households": HOUSEHOLDS if isinstance(plan.source, FolktablesSource) and unit.column is None else None,
        "mechanism": plan.mechanism.name,
        "shrinkage": config.shrinkage and foreign is None and len(plan.strata.keys) > 1,
        "selection": None if len(plan.strata.keys) < 2 else "per-stratum" if each else "shared",
        "levels": None if plan.shared is None else config.levels,
        "engine": config.engine if foreign is None else foreign.software,
        "penalty": penalty(plan.mechanism),
        "strata": {
            "columns": list(plan.strata.columns),
            "count": len(plan.strata.keys),
            "weights": weights_source,
            "begun_again": begun_again,
        },
        "open": opened,
        "relations": _relations(plan.schema.names, together) if measured else None,
        "rows": rows,
        "columns": list(plan.schema.names),
        "called": {column.name: column.label for column in declared if column.label},
        "schema": {"name": plan.schema.name, "sha256": plan.schema.digest, "target": plan.schema.target},
        "held_out": plan.held_out,
        "not_covered": "the schema, the strata, public weights, and this configuration are taken to be public",
        "config": _public_settings(config),
    }


def _public_settings(config: ReleaseConfig) -> dict[str, Any]:
    found = {key: value for key, value in config.public().items() if key not in PRIVATE_SETTINGS}
    panel = found.pop("panel")
    if config.panel.id is None:  # as before there were panels
        return found
    return found | {"panel": {key: value for key, value in panel.items() if key not in PRIVATE_SETTINGS}}


def _relations(names: Sequence[str], measured: Iterable[Columns]) -> dict[str, list[Any]]:
    """Pairs of columns that were measured together, and not; columns that were measured with no other."""
    together, apart = measured_pairs(names, measured)
    alone = sorted(set(names).difference(*together), key=list(names).index) if len(names) > 1 else []
    return {"measured": list(map(list, together)), "not_measured": list(map(list, apart)), "alone": alone}


def _composition(unit: Unit, each: bool) -> str:
    """How prices add up; `each` where some strata were measured each by itself. See docs/proofs/units.md."""
    if each:
        order = "counts, synthesis and means in sequence"
        several = "a unit's rows in several strata together at most as in one"
        return f"{several if unit.at_most > 1 else 'strata in parallel'}; {order}"
    inner = "a unit's rows within a marginal at most as in one cell" if unit.at_most > 1 else ""
    return f"choices, marginals, counts and means in sequence; {inner or 'strata within a marginal in parallel'}"


def _times(part: str, account: Mapping[str, Any] | None) -> int:
    """How often the noise of a part was paid for."""
    return sum(part in charge["parts"] for charge in account["charges"]) if account else 1


def _delta_is(config: ReleaseConfig) -> str:
    """Why δ is what it is."""
    most = config.units and config.units**-1.5
    if most is None:
        enough = f"{int(config.delta ** (-2 / 3) * (1 + 1e-9)):,}"
        return f"at most 1/n^1.5 for up to n = {enough} units; how many there are was not declared"
    holds = "at most" if config.delta <= most * (1 + 1e-9) else "**above**"
    return f"{holds} 1/n^1.5 = {most:.1e} for the n = {config.units:,} units that were declared"


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


def unit_of(card: Mapping[str, Any]) -> Unit:
    """The unit of a card; one row on those of earlier versions. Raises KeyError where it has another form."""
    said = card.get("unit", {"column": None, "at_most": 1})
    later = {name: said[name] for name in ("unique", "weights", "relation") if name in said}
    return Unit(said["column"], said["at_most"], **later)


def groups_of(card: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The table of groups on a card, of this or an earlier version. Raises KeyError where there is none."""
    if "groups" in card:
        return list(card["groups"])
    guarantee = card["guarantee"]
    # Cards made before 2026-11-22 have no such table, and those before 2026-11-24 have it for rows.
    given = guarantee["rho"], guarantee["delta"], guarantee["relation"]
    found = guarantee.get("group") or group_table(*given, card.get("open", ()))
    return [{"units": each.get("units", each.get("rows")), **each} for each in found]


_HOW = {
    None: "one synthesizer for each of",
    "auto": "one choice of marginals, over all rows and within strata, for all of",
    "strata": "one choice of marginals within strata, for all of",
    "none": "one synthesizer for all rows, cut into",
}


def how_made(card: Mapping[str, Any], words: Mapping[str, str] = MappingProxyType({})) -> str:
    """Whether strata share a choice of marginals, by a card; columns by these words, where there are any.

    Raises KeyError where the card is of another version.
    """
    strata = card["strata"]
    if not strata["columns"]:
        return "one synthesizer for all rows"
    how = _HOW[card["levels"] if card["selection"] == "shared" else None]
    columns = " × ".join(words.get(name, name) for name in strata["columns"])
    return f"{how} {strata['count']} declared strata of {columns}"


def title_of(card: Mapping[str, Any]) -> str:
    """Of a release, by its card: the steward's, else made of data set and release, or of the schema's name.

    Raises KeyError where the card is of another version.
    """
    title, ledger = card.get("report", {}).get("title"), card["ledger"]
    named = f"{ledger['dataset']}: {ledger['release_id']}" if isinstance(ledger, Mapping) else card["schema"]["name"]
    return str(title or named)


def weights_apart_notes(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence about the farthest of `equistrata.analysis.uncertainty.weights_apart`; none if there is none.

    >>> (note,) = weights_apart_notes([{"stratum": "SEX=1", "words": "Male", "weight": 0.8, "measured": 0.5}])
    >>> note[:58].replace(chr(160), " ")
    'group weights: Male has 80 % of the weight, and about 50 %'
    """
    if not found:
        return []
    first, more = found[0], len(found) - 1
    others = f" ({more} other group{'s differ' if more > 1 else ' differs'} as clearly)" if more else ""
    return [
        f"group weights: {first['words']} has {percent(first['weight'])} of the weight, and about "
        f"{percent(first['measured'])} of the rows as measured{others}; the released rows follow the weights, and "
        "estimates what was measured. If the file is of other people by mistake, correct it, or use --combine-weights"
    ]


def noisy_rows_notes(found: Mapping[str, Any] | None, rows: int) -> list[str]:
    """A sentence on a number of rows that is noise (`equistrata.analysis.uncertainty.noisy_rows`); none if it is not.

    >>> noisy_rows_notes({"estimate": 5100000, "lower": 0, "upper": 12600000, "level": 0.95}, 5131945)[0][:79]
    'the number of rows is noise: 5,131,945 were drawn, and by what was measured the'
    """
    if not found:
        return []
    return [
        f"the number of rows is noise: {rows:,} were drawn, and by what was measured the table has between "
        f"{found['lower']:,} and {found['upper']:,} ({percent(found['level'])}). Little else than noise is in "
        "them at this ε; raise epsilon, and where the number of rows is public, give it (--rows)"
    ]


def card_markdown(card: Mapping[str, Any], means: Mapping[str, Any] | None) -> str:
    """The card for people: price, content, method, and limits. Raises KeyError where the card is of another version."""
    from jinja2 import UndefinedError

    guarantee = card["guarantee"]
    older = {
        "unit": {"column": None, "at_most": 1},
        "unit_sizes": None,
        "audits": (),
        "households": None,
        "open": (),
        "relations": None,
        "served": None,
        "called": {},
        "wide_bins": (),
        "means_apart": (),
        "weights_apart": (),
        "noisy_rows": None,
        "raked": {},
        "rounded": {},
        "series": None,
        "panel": None,
        "report": {"agency": None, "contact": None},
    }
    shown = older | dict(card)
    served = shown["served"] or {"groups": []}
    named = {group["label"]: group["words"] for group in served["groups"] if group["covered"]}

    def of_groups(errors: Mapping[str, float] | None) -> dict[str, float]:
        """Errors of groups that are large enough to count, by what these are called."""
        errors = errors or {}
        return {named[group]: error for group, error in errors.items() if group in named} if named else dict(errors)

    try:
        page = template(Path(__file__).with_name("card.md.j2"))
        return page.render(
            card=shown,
            means=means,
            group=groups_of(card),
            title=title_of(card),
            unit=guarantee.get("unit", ROW.words),
            how=how_made(card, shown["called"]),
            relations_measured=relations_measured,
            called=lambda name: shown["called"].get(name, name),
            of_groups=of_groups,
            part=percent,
            groups_counted=groups_counted,
            wide_bins=wide_bin_notes(shown["wide_bins"]),
            means_apart=means_apart_notes(shown["means_apart"]),
            weights_apart=weights_apart_notes(shown["weights_apart"]),
            noisy_rows=noisy_rows_notes(shown["noisy_rows"], shown["rows"]),
            uninformative=uninformative_notes(means),
        )
    except UndefinedError as error:
        raise KeyError(str(error)) from None
