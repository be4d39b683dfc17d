"""Checks of a release by who trusts no one: its files, its rows, and its price, from the folder alone.

The price is computed again: a Gaussian measurement of sensitivity 1 and standard deviation σ costs 1/(2σ²) in zCDP (Bun
and Steinke, arXiv:1605.02065, Proposition 1.6), measurements add up, and each stratum that was measured by itself costs
the same (parallel composition). What choices cost is published with the measurements. A unit of up to k rows pays k²
times what one row does.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from equistrata.analysis.checks.agreement import agreement_faults, rows_faults, rows_unseen
from equistrata.analysis.checks.companions import companion_faults, served_earlier, served_unsampled
from equistrata.analysis.panel import people_faults, price_fault
from equistrata.analysis.release import Release
from equistrata.analysis.uncertainty.least_squares import LeastSquares
from equistrata.data.files.manifest import MANIFEST, listed
from equistrata.data.sources import read_frame
from equistrata.data.table import CodedTable
from equistrata.data.units.unit import ROW
from equistrata.errors import InputError
from equistrata.privacy.budget import REPLACE_ONE, Rho
from equistrata.synth.measurements import Measurement, Where, measured_pairs

SAME = 1e-9  # relative
LEAST_MEASURED = 0.85  # of ρ, where the price of choices was not published
FAR = 6.0  # standard deviations that measurements of the same rows are never apart

_NOT_SEEN = (
    "that the noise was drawn as stated, from a secure source",
    "that the measurements are of the rows that the card names",
    "other releases about the same people: their prices add up (the ledger's keeper knows them)",
)


def faults(release: Release) -> list[str]:
    """A sentence for each thing that does not hold; none for an honest release. The manifest was checked on opening."""
    of_rows, table = _rows(release)
    found = [*_card(release), *_unit(release), *of_rows, *_people(release), *agreement_faults(release)]
    if has_measurements(release):
        try:
            release.evidence  # noqa: B018
        except InputError as error:
            return [*found, str(error)]
        found += [*_measurements(release), *_price(release), *companion_faults(release)]
        found += [] if table is None else rows_faults(release, table)
    elif not release.card["guarantee"].get("caveats"):
        found.append("the measurements are missing, so the price cannot be checked")
    return found


def unseen(release: Release) -> list[str]:
    """What `faults` cannot say anything of."""
    found = [] if has_measurements(release) else ["what was measured, so the price is not checked"]
    if served_earlier(release) or (has_measurements(release) and served_unsampled(release)):
        found.append("how groups are served, as the card expects it: an earlier version modelled them otherwise")
    elif has_measurements(release) and rows_unseen(release):
        found.append("whether the rows follow from the measurements")
    return [*found, *_NOT_SEEN]


def price_faults(release: Release) -> list[str]:
    """Of `faults`, those of the price."""
    if not has_measurements(release):
        return list(_card(release))
    try:
        release.evidence  # noqa: B018
    except InputError as error:
        return [str(error)]
    return [*_card(release), *_price(release)]


def has_measurements(release: Release) -> bool:
    """Whether what was measured is published; a foreign synthesizer keeps it, and its price has to be believed."""
    return any((release.folder / "measurements").glob("*.json")) and not release.card["guarantee"].get("caveats")


def unlisted(folder: Path) -> list[str]:
    """Files in the folder that the manifest does not list: no part of the release."""
    known = {*listed(folder, f"release {str(folder)!r}"), MANIFEST}
    there = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in there if name not in known)


def _people(release: Release) -> Iterator[str]:
    try:
        yield from people_faults(release)
    except InputError as error:
        yield str(error)


def _card(release: Release) -> Iterator[str]:
    for place, part in _prices(release.card):
        try:
            epsilon = Rho(part["rho"]).epsilon(part["delta"])
        except (KeyError, TypeError, ValueError, InputError):
            yield f"the card's {place} has no ε, δ and ρ"
            continue
        rounded_up = 1.001 if place == "guarantee" and "release" in part else 1.0
        if not epsilon * (1 - 1e-6) <= part["epsilon"] <= epsilon * rounded_up * (1 + 1e-6):
            yield f"the card's {place} says ε = {part['epsilon']:g}, but its ρ and δ make it {epsilon:g}"
    if not release.card.get("private", False):
        yield "the noise was seeded, so the release is not private"


def _unit(release: Release) -> Iterator[str]:
    """Who is protected, and what groups pay, as the card says it: by the schema's unit, and by the price."""
    card, guarantee, own = release.card, release.card["guarantee"], release.unit
    told = asdict(ROW) | card.get("unit", asdict(own)), guarantee.get("unit") if "unit" in card else own.words
    relation = guarantee["relation"]
    other = has_measurements(release) and not relation.startswith(own.relation)  # a foreign synthesizer has its own
    if other or told != (asdict(own), own.words):
        yield "the unit or the relation on the card is not that of schema.json, by which the price is checked"
    steps = 2 if relation.startswith(REPLACE_ONE) else 1
    for each in card.get("groups", ()):
        price = Rho(guarantee["rho"]).group(steps * each["units"])
        least = price.epsilon(guarantee["delta"])
        low = each["epsilon"] is not None and each["epsilon"] < least * (1 - 1e-6)  # values that are found cost more
        if low or not math.isclose(each["rho"], float(price), rel_tol=SAME):
            yield f"the card's price of {each['units']} units together is not k²ρ, which has ε = {least:g}"


def _prices(card: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "guarantee", card["guarantee"]
    if "release" in card["guarantee"]:
        yield "own price", {"delta": card["guarantee"]["delta"], **card["guarantee"]["release"]}


def _rows(release: Release) -> tuple[list[str], CodedTable | None]:
    """A sentence for each thing that does not hold, and the rows; None if they do not fit the schema."""
    frame, found, table = release.rows(labels=False), list[str](), None
    if len(frame) != release.card["rows"]:
        found.append(f"synthetic.parquet has {len(frame):,} rows, but the card says {release.card['rows']:,}")
    try:
        table = CodedTable.encode(frame, release.schema.coded())
    except InputError as error:
        found.append(f"synthetic.parquet does not fit schema.json: {error}")
    path = release.folder / "synthetic.csv"
    if path.exists() and not _same(frame, path):
        found.append("synthetic.csv holds other rows than synthetic.parquet")
    return found, table


def _same(frame: pd.DataFrame, csv: Path) -> bool:
    """Whether a CSV file has these rows: texts unchanged (true, NA and 01 are texts), numbers by value."""
    texts = {name: str for name in frame.columns if not is_numeric_dtype(frame[name])}
    other = read_frame(csv, dtype=texts, keep_default_na=False, na_values={name: [""] for name in frame.columns})
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
            yield f"nothing was measured of column {name!r}"
    said = release.card.get("relations")
    if said and sorted(map(tuple, said["measured"])) != sorted(measured_pairs(names, together)[0]):
        yield "the pairs of columns that the card calls measured are not those of the measurements"
    for name in names:
        yield from _apart(release, name)


def _apart(release: Release, name: str) -> Iterator[str]:
    """Measurements of a column, over all rows or of one stratum, that cannot be of the same rows."""
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
                yield f"measurements of column {name!r} contradict each other: of other rows, or with more noise than σ"
                return


def _price(release: Release) -> Iterator[str]:
    guarantee = release.card["guarantee"]
    split = dict(guarantee["split_of_rho"])
    if not math.isclose(sum(split.values()), guarantee["rho"], rel_tol=SAME):
        yield f"the parts of ρ on the card add up to {sum(split.values()):.6g}, not to {guarantee['rho']:.6g}"
    said = sum(part for name, part in split.items() if name.startswith(("synthesis", "noisy counts")))
    times = release.unit.synthesis_cost
    for row_measured, row_choices in zip(*_spent(release), strict=True):
        measured, choices = times * row_measured, times * row_choices
        if math.isnan(choices):
            if not LEAST_MEASURED * said <= measured <= said * (1 + SAME):
                yield f"the measurements cost ρ = {measured:.6g}, which does not fit the {said:.6g} on the card"
                break
        elif not math.isclose(measured + choices, said, rel_tol=SAME):
            yield (
                f"measurements and choices cost ρ = {measured + choices:.6g}, but the card says {said:.6g}: a σ, a "
                "choice or the price was changed, or a measurement is missing"
            )
            break
    sizes = release.card.get("unit_sizes")
    if sizes is not None:
        cost = release.unit.histogram_cost / (2 * sizes["sigma"] ** 2)
        if not math.isclose(cost, split.get("counts of units by their rows", 0.0), rel_tol=SAME):
            yield f"counts of units by their rows cost ρ = {cost:.6g} at their σ, which is not what the card says"
    try:
        yield from price_fault(release)
    except InputError as error:
        yield str(error)
    means = _means(release)
    if means and not math.isclose(means, split.get("means", 0.0), rel_tol=1e-6):
        yield f"means.json says ρ = {means:.6g}, but the card {split.get('means', 0.0):.6g}"


def _spent(release: Release) -> tuple[list[float], list[float]]:
    """ρ of measurements and of choices, over all rows and of one stratum together; a number for each stratum that was
    measured by itself, and one where none was. NaN where the price of choices is unknown."""
    totals: dict[Where, list[float]] = {(): [0.0, 0.0]}
    for each in release.measurements:
        part = totals.setdefault(each.where, [0.0, 0.0])
        part[0] += 1 / (2 * each.sigma**2)
        part[1] += each.choices
    whole = totals.pop(())
    parts = list(totals.values()) or [[0.0, 0.0]]
    return [whole[0] + part[0] for part in parts], [whole[1] + part[1] for part in parts]


def _means(release: Release) -> float:
    path = release.folder / "means.json"
    return float(json.loads(path.read_text("utf-8"))["rho"]) if path.exists() else 0.0
