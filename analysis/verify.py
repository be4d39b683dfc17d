"""Checks of the files, the rows and the privacy price of a release. They use only the folder, so no trust is needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from equistrata.analysis.checks.agreement import agreement_faults
from equistrata.analysis.checks.companions import (
    companion_faults,
    earlier_format,
    has_earlier_group_errors,
    kept_relation_faults,
    missing_part_faults,
)
from equistrata.analysis.checks.controlled import controls_faults
from equistrata.analysis.checks.drawn_rows import rows_faults, rows_unchecked
from equistrata.analysis.checks.method import method_faults, settings_faults
from equistrata.analysis.checks.price import COUNTS, means_price_faults, measured_price_faults, stated_price_faults
from equistrata.analysis.checks.statements import statement_faults
from equistrata.analysis.contents.models import models_faults
from equistrata.analysis.release import Release
from equistrata.analysis.uncertainty.least_squares import LeastSquares
from equistrata.data.sources import read_frame
from equistrata.data.table import CodedTable
from equistrata.data.texts.manifest import CARD_FORMAT, MANIFEST, MODELS, listed
from equistrata.data.units.unit import ROW
from equistrata.errors import InputError
from equistrata.privacy.budget import REPLACE_ONE, Rho, relation_of
from equistrata.synth.measurements import Measurement, Where, measured_pairs
from equistrata.synth.names import is_foreign
from equistrata.synth.series.state import STATE, State
from equistrata.synth.storage import ALL_ROWS_FILE

SAME = 1e-9  # relative tolerance
FAR = 6.0  # measurements of the same rows differ by less than this many standard deviations

_NOT_SEEN = (
    "whether the noise was drawn as stated, from a secure source",
    "whether the measurements were made from the rows that the card names",
    "whether there are other releases about the same people, with prices that add up (see the ledger)",
)
_Check = Callable[[Release], Iterable[str]]


def faults(release: Release) -> list[str]:
    """Check a release and describe each problem.

    The manifest is already checked when the release is opened.

    Parameters
    ----------
    release : Release
        The release.

    Returns
    -------
    list of str
        One sentence per problem. It is empty for an honest release.
    """
    checks = (stated_price_faults, _unit, _strata, settings_faults, statement_faults, means_price_faults, _state)
    found = _checked(release, *checks)
    tables: list[CodedTable] = []
    found += _checked(release, lambda each: _rows(each, tables), agreement_faults)
    for table in tables:
        found += _checked(release, lambda each, table=table: controls_faults(each, table))  # type: ignore[misc]
    if has_measurements(release):
        if unread := _checked(release, _unread):
            return [*found, *unread]
        found += _checked(release, _measurements, method_faults, measured_price_faults)
        found += _checked(release, companion_faults, missing_part_faults)
        found += _checked(
            release, lambda each: models_faults(each.folder, each.evidence, each.card["config"].get("replicates", 0))
        )
        for table in tables:
            for check in (rows_faults, kept_relation_faults):
                found += _checked(release, lambda each, check=check, table=table: check(each, table))  # type: ignore[misc]
    elif not _foreign(release):
        found.append("the measurements are missing, so the price cannot be checked")
    return list(dict.fromkeys(found))


def unchecked_properties(release: Release) -> list[str]:
    """Return the properties of a release that `faults` cannot check.

    Parameters
    ----------
    release : Release
        The release.

    Returns
    -------
    list of str
        One phrase per property.
    """
    found = [] if has_measurements(release) else ["what was measured, and therefore the price"]
    if has_earlier_group_errors(release):
        found.append("the expected errors of the groups, because an earlier version used another model for them")
    elif has_measurements(release) and rows_unchecked(release):
        found.append("whether the rows follow from the measurements")
    said = release.card.get("format")
    if has_measurements(release) and earlier_format(said):
        found.append(
            "cells.csv, and whether a part of the card was left out, because the card has no format or an earlier one"
        )
    elif isinstance(said, int) and said > CARD_FORMAT:
        found.append("parts of the card that were written by a later version")
    if (release.folder / MODELS).exists():
        found.append(f"all replicates in {MODELS}/ except the first")
    if (source := release.public_weights_source) is not None:
        found.append(f"whether the weights of the groups match {source}")
    if said := release.card.get("controls"):
        found.append(f"whether the totals of people match {said['source']}")
    return [*found, *_NOT_SEEN]


def price_faults(release: Release) -> list[str]:
    """Check the privacy price of a release, and describe each problem.

    Parameters
    ----------
    release : Release
        The release.

    Returns
    -------
    list of str
        One sentence per problem. It is a subset of `faults`.
    """
    found = _checked(release, stated_price_faults)
    if not has_measurements(release):
        return found
    if unread := _checked(release, _unread):
        return [*found, *unread]
    return [*found, *_checked(release, measured_price_faults, means_price_faults)]


def has_measurements(release: Release) -> bool:
    """Check whether the measurements of a release are published.

    Parameters
    ----------
    release : Release
        The release.

    Returns
    -------
    bool
        True if they are published. A foreign synthesizer does not publish its measurements, so its price cannot be
        checked.
    """
    return any((release.folder / "measurements").glob("*.json")) and not _foreign(release)


def _foreign(release: Release) -> bool:
    return is_foreign(str(release.card["config"]["synthesizer"]))


def _checked(release: Release, *checks: _Check) -> list[str]:
    """Run checks and return the problems that they find.

    If a check fails because of content that no release has, then this is reported as a problem.
    """
    found = list[str]()
    for check in checks:
        try:
            for fault in check(release):
                found.append(fault)  # keeps the problems that are found before an exception
        except InputError as error:
            found.append(str(error))
        except (AttributeError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
            found.append("a file has content that no release writes, so the release cannot be checked completely")
    return list(dict.fromkeys(found))


def _unread(release: Release) -> Iterator[str]:
    """Raise InputError if the measurements cannot be read. No sentence is yielded."""
    release.evidence  # noqa: B018
    yield from ()


def unlisted(folder: Path) -> list[str]:
    """Return the files in a folder that are not part of the release.

    Parameters
    ----------
    folder : Path
        The release folder.

    Returns
    -------
    list of str
        The files that the manifest does not list, in alphabetical order.
    """
    known = {*listed(folder, f"release {str(folder)!r}"), MANIFEST}
    there = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in there if name not in known)


def _unit(release: Release) -> Iterator[str]:
    """Check the unit of privacy and the price of groups on the card against the schema and the price."""
    card, guarantee, own = release.card, release.card["guarantee"], release.unit
    told = asdict(ROW) | card.get("unit", asdict(own)), guarantee.get("unit") if "unit" in card else own.words
    relation = guarantee["relation"]
    other = has_measurements(release) and not relation.startswith(own.relation)  # foreign synthesizers may differ
    if other or told != (asdict(own), own.words):
        yield "the unit or the relation on the card differs from schema.json, which is used to check the price"
    kept = relation_of(own.column, own.relation)  # as recorded in the ledger
    if not _foreign(release) and card.get("relation", kept) not in (kept, own.relation):
        yield "the card names another relation than schema.json"
    steps = 2 if relation.startswith(REPLACE_ONE) else 1
    if "groups" in card and not card["groups"]:
        yield "the card does not state the price of several units together"
    for each in card.get("groups", ()):
        price = Rho(guarantee["rho"]).group(steps * each["units"])
        least = price.epsilon(guarantee["delta"])
        stated = each["epsilon"] if "promise" not in guarantee else None  # a promise determines ε instead of ρ
        low = stated is not None and stated < least * (1 - 1e-6)  # discovered values have an additional cost
        if low or not math.isclose(each["rho"], float(price), rel_tol=SAME):
            yield f"the card's price of {each['units']} units together is not k²ρ, which has ε = {least:g}"


def _state(release: Release) -> Iterator[str]:
    """Check that the state of a month belongs to the month on the card.

    The next month uses this state. The checks of the series examine whether the state is consistent with the
    measurements.
    """
    path, said = release.folder / STATE, release.card.get("series")
    if path.exists() and said is None:
        yield f"there is a {STATE}, but the card does not belong to a series"
    elif said is not None and has_measurements(release) and State.load(path).month != said["month"]:
        yield f"{STATE} belongs to another month than the card"


def _strata(release: Release) -> Iterator[str]:
    """Check the strata and the synthesizer on the card, and check that all files of measurements are used."""
    card, config, guarantee = release.card, release.card["config"], release.card["guarantee"]
    if card["strata"].get("count", len(release.strata.keys)) != len(release.strata.keys):
        yield f"the card says that there are {card['strata']['count']} strata, but there are {len(release.strata.keys)}"
    if not _foreign(release):
        if guarantee.get("caveats"):
            yield "the card has caveats for a foreign synthesizer, but names a synthesizer of equistrata"
        if str(card.get("mechanism", config["synthesizer"])).lower() != str(config["synthesizer"]).lower():
            yield f"the card names the mechanism {card['mechanism']!r}, but its settings name {config['synthesizer']!r}"
    elif not guarantee.get("caveats"):
        yield "the card names a foreign synthesizer, but lists none of its caveats"
    if release.public_weights_source is not None:
        combined, counts = config.get("combine_weights", False), COUNTS in guarantee["split_of_rho"]
        if config.get("weights") == "noisy" or (counts and not combined):
            yield "the card says that weights are public, but its settings or its price say that they were counted"
    names = {path.name for path in (release.folder / "measurements").glob("*")}
    read = {f"{release.strata.file_name(key)}.json" for key in release.strata.keys}
    if names and not _foreign(release) and names != {ALL_ROWS_FILE} and names != read:
        yield "measurements/ has files that do not belong to a release, so more may have been measured"


def _rows(release: Release, tables: list[CodedTable]) -> Iterator[str]:
    """Check the rows, and append them to `tables` if they agree with the schema."""
    frame = release.rows(labels=False)
    if len(frame) != release.card["rows"]:
        yield f"synthetic.parquet has {len(frame):,} rows, but the card says {release.card['rows']:,}"
    try:
        tables.append(CodedTable.encode(frame, release.schema.coded()))
    except InputError as error:
        yield f"synthetic.parquet does not fit schema.json: {error}"
    if extra := [name for name in frame.columns if name not in {each.name for each in release.schema.published}]:
        yield f"synthetic.parquet has columns that schema.json does not declare: {', '.join(map(str, extra))}"
    for table in tables:
        for each in table.schema.derived:
            if not np.array_equal(frame[each.name].to_numpy(dtype=object), each.cells(table.column(each.source))):
                yield f"derived column {each.name!r} of the rows does not match its source {each.source!r}"
    path = release.folder / "synthetic.csv"
    if path.exists() and not _same(frame, read_frame(path, declared=release.schema.coded().published)):
        yield "synthetic.csv has other rows than synthetic.parquet"


def _same(frame: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Return True if the rows of a CSV file are the same.

    Texts must be identical, and values such as true, NA and 01 are treated as texts. Numbers are compared by value.
    """
    texts = {name for name in frame.columns if not is_numeric_dtype(frame[name])}
    if list(frame.columns) != list(other.columns) or len(frame) != len(other):
        return False
    return all(_same_cells_of(frame[name], other[name], name in texts) for name in frame.columns)


def _same_cells_of(one: pd.Series[Any], two: pd.Series[Any], texts: bool) -> bool:
    if texts:
        return bool((one.astype("string").fillna("") == two.astype("string").fillna("")).all())
    numbers = [pd.to_numeric(each, errors="coerce").to_numpy(dtype=float, na_value=np.nan) for each in (one, two)]
    return bool(np.isclose(numbers[0], numbers[1], equal_nan=True).all())


def _measurements(release: Release) -> Iterator[str]:
    found, names = release.measurements, release.schema.names
    together = {(*dict(each.where), *each.columns) for each in found}
    for name in names:
        if not any(name in columns for columns in together):
            yield f"column {name!r} was not measured"
    said, varying = release.card.get("relations"), [name for name in names if release.schema[name].size > 1]
    pairs = [tuple(pair) for pair in said["measured"] if set(pair) <= {*varying}] if said else []
    # A column with a single value has no relations, but earlier cards listed them.
    if said and sorted(pairs) != sorted(measured_pairs(varying, together)[0]):
        yield "the pairs of columns that the card lists as measured differ from the measurements"
    for name in names:
        yield from _apart(release, name)


def _apart(release: Release, name: str) -> Iterator[str]:
    """Check that the measurements of a column do not contradict each other.

    Measurements over all rows, and measurements of the same stratum, are compared.
    """
    by_place: dict[Where, list[Measurement]] = {}
    for each in release.measurements:
        if name in each.columns:
            by_place.setdefault(each.where, []).append(replace(each, where=()))
    for found in by_place.values():
        table = LeastSquares.of(release.schema, found, (name,))
        if table is None:
            continue
        counts = table.counts([each.values for each in found])
        for each in found:
            axis = each.columns.index(name)
            summed = each.values.sum(axis=tuple(other for other in range(each.values.ndim) if other != axis))
            spread = each.sigma * math.sqrt(each.values.size / summed.size)
            expected = Measurement((name,), summed, each.sigma, (each.groups[axis],)).merged(counts)
            if np.abs(summed - expected).max() > FAR * spread:
                yield f"measurements of column {name!r} contradict each other: they used other rows or larger noise"
                return
