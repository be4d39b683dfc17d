"""What a series knows of each marginal that it ever measured: its state after a month, kept in that month's folder.

A state is made of published numbers alone (noisy measurements, and the state of the month before), so it costs nothing.

>>> import numpy as np
>>> state = State.of(1, [Measurement(("SEX",), np.array([60.0, 50.0]), 2.0)])
>>> state.known[0].values.tolist(), state.known[0].sigmas.tolist()
([60.0, 50.0], [2.0, 2.0])
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Key, Strata
from equistrata.data.texts.json_documents import MOST_BYTES_OF_NUMBERS, read_json
from equistrata.errors import InputError
from equistrata.synth.measurements import (
    Columns,
    Former,
    Measurement,
    Merging,
    Where,
    given,
    root_mean_square,
    tells_apart,
)
from equistrata.synth.storage import MARGINAL, marginal_in, shaped

STATE = "series.json"
STATE_FORMAT = "equistrata series 3"
EARLIER_FORMATS = ("equistrata series 1", "equistrata series 2")  # as readable, but made by another filter

_SHAPE = {"format": str, "month": int, "drift": {str: [float]}, "known": [{**MARGINAL, "sigmas": [float]}]}
_MOST, _LEAST = 1e15, 1e-9  # of a number of rows, and of a σ: their squares, and squares over them, stay finite

# A marginal: its columns, the groups of their codes, and the stratum that it is of by itself.
Marginal = tuple[Columns, tuple[Merging, ...], Where]
# Sums of the moments by which a drift is estimated, and of their weights.
Moments = tuple[float, float]


@dataclass(frozen=True, eq=False)
class State:
    """What a series knows after one of its months.

    Attributes:
        month: which, from 1.
        known: of each marginal the expected counts and their standard deviations, at that month.
        moments: of the drift, by kind of marginal (`equistrata.synth.series.drift`).
        earlier: whether another version made it, so that this one cannot make it again.
    """

    month: int
    known: tuple[Former, ...]
    moments: Mapping[str, Moments]
    earlier: bool = False

    @classmethod
    def of(cls, month: int, measured: Iterable[Measurement]) -> State:
        """The state of a series that begins with these measurements."""
        return cls(month, tuple(former(each) for each in pooled(measured).values()), {})

    def fitting(self, strata: Strata, before: Schema) -> State:
        """The state without marginals of columns that a schema lacks or codes otherwise than the one before.

        Marginals of a stratum that is none now are left out, too.

        A changed questionnaire is so believed at once.
        """
        schema, every = strata.schema, [{}, *map(strata.codes_of, strata.keys)]
        places = {frozenset(codes.items()): tuple(codes.items()) for codes in every}
        same = set(self.alike(schema, before))
        kept = (
            replace(each, where=places[frozenset(each.where)])  # stratum columns may come in another order
            for each in self.known
            if each.involved <= same and _fits(schema, each) and frozenset(each.where) in places
        )
        return replace(self, known=tuple(kept))

    def alike(self, schema: Schema, before: Schema) -> list[str]:
        """Of the columns that mean the same in a schema as in the state's own, those that the state has as it says.

        Another version may have cut other bins of the same declaration: then its counts are of as many codes.
        """
        otherwise = {name for each in self.known for name in _misread(before, each)}
        return [name for name in alike(schema, before) if name not in otherwise]

    @property
    def plain(self) -> dict[str, Any]:
        """It as plain values."""
        return {
            "format": STATE_FORMAT,
            "month": self.month,
            "drift": {kind: list(moments) for kind, moments in self.moments.items()},
            "known": [
                {
                    "columns": list(each.columns),
                    "groups": [None if g is None else list(g) for g in each.groups],
                    "where": dict(each.where),
                    "shape": list(each.values.shape),
                    "values": each.values.ravel().tolist(),
                    "sigmas": each.sigmas.ravel().tolist(),
                }
                for each in self.known
            ],
        }

    @classmethod
    def of_plain(cls, document: Any) -> State:
        """What `plain` gave. Raises ValueError if no filter can have made it."""
        month, known = document["month"], [_read(entry) for entry in document["known"]]
        drift = {kind: (float(one), float(two)) for kind, (one, two) in document["drift"].items()}
        _require(document["format"] in (STATE_FORMAT, *EARLIER_FORMATS))
        _require(month >= 1)
        _require(all(abs(one) <= _MOST and 0 <= two <= _MOST for one, two in drift.values()))
        _require(len(set(map(marginal_of, known))) == len(known))
        return cls(month, tuple(known), drift, document["format"] != STATE_FORMAT)

    def save(self, path: Path) -> None:
        """Write it as JSON: readable by people and by any language, no code inside."""
        path.write_text(json.dumps(self.plain, separators=(",", ":")), "utf-8")

    @classmethod
    def load(cls, path: Path) -> State:
        """Read what `save` wrote. Raises InputError if the file is not that."""
        document = read_json(path, f"folder {str(path.parent)!r}", _SHAPE, MOST_BYTES_OF_NUMBERS)
        try:
            return cls.of_plain(document)
        except ValueError:
            raise InputError(
                f"{str(path)!r} is no state of a series of this version; give the folder of a release of the series"
            ) from None


def marginal_of(measurement: Measurement) -> Marginal:
    """Which marginal a measurement is of."""
    return measurement.columns, measurement.groups, measurement.where


def pooled(measured: Iterable[Measurement]) -> dict[Marginal, Measurement]:
    """Each marginal once: those that were measured several times are joined by inverse variance."""
    found: dict[Marginal, Measurement] = {}
    for each in measured:
        name = marginal_of(each)
        if name in found:
            one, two = found[name].sigma ** -2, each.sigma**-2
            values = (one * found[name].values + two * each.values) / (one + two)
            each = replace(each, values=values, sigma=(one + two) ** -0.5)
        found[name] = replace(each, choices=0.0)
    return found


def former(measurement: Measurement) -> Former:
    """A measurement as what is known of its marginal."""
    return known(measurement, measurement.values, measurement.cell_sigma**2)


def known(marginal: Measurement, values: Any, variances: Any) -> Former:
    """These expected counts of a marginal, and their variances."""
    sigmas = np.sqrt(variances)
    typical = root_mean_square(sigmas)
    return Former(marginal.columns, values, typical, marginal.groups, marginal.where, sigmas=sigmas)


def of_strata(strata: Strata, measured: Mapping[Key, Sequence[Measurement]]) -> list[Measurement]:
    """Measurements by stratum, as they are kept, as one list: those of a stratum by itself with `where`."""
    return [
        replace(each, where=(*strata.codes_of(key).items(), *each.where)) if key else each
        for key, measurements in measured.items()
        for each in measurements
    ]


def by_strata(strata: Strata, measured: Iterable[Measurement], keys: Iterable[Key]) -> dict[Key, list[Measurement]]:
    """The way back from `of_strata`, for these keys.

    Where strata are fitted one by one, marginals within all of them are cut, and those over all rows left out.
    """
    found: dict[Key, list[Measurement]] = {key: [] for key in keys}
    places = {tuple(strata.codes_of(key).items()): key for key in found if key}
    for each in measured:
        if () in found:
            found[()].append(each)
        elif each.where:
            found[places[each.where]].append(replace(each, where=()))
        elif len(each.columns) > len(strata.columns) and tells_apart(each, strata.columns):
            for key, own in found.items():
                own.append(given(each, strata.codes_of(key)))
    return found


def _read(entry: Mapping[str, Any]) -> Former:
    (columns, values, groups, where), sigmas = marginal_in(entry), shaped(entry, "sigmas")
    _require(bool((np.abs(values) <= _MOST).all() and ((sigmas >= _LEAST) & (sigmas <= _MOST)).all()))
    return Former(columns, values, root_mean_square(sigmas), groups, where, sigmas=sigmas)


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError


def alike(schema: Schema, before: Schema) -> list[str]:
    """The columns of a schema that mean the same in another one, code by code."""
    there = [name for name in schema.names if name in before.names]
    return [name for name in there if _meaning(schema[name]) == _meaning(before[name])]


def _meaning(column: Column) -> Any:
    """What each of its codes stands for. Other bins may be as many, as those of releases before 2026-11-26 are."""
    return column.keys, column.cuts, [raw for raw, _ in column.codes]


def _fits(schema: Schema, measurement: Measurement) -> bool:
    if not measurement.involved <= set(schema.names) or _misread(schema, measurement):
        return False
    parts = zip(measurement.groups, measurement.values.shape, strict=True)
    whole = all(groups is None or max(groups) + 1 == cells for groups, cells in parts)
    return whole and all(0 <= code < schema[name].size for name, code in measurement.where)


def _misread(schema: Schema, measurement: Measurement) -> list[str]:
    """The columns of a schema of which a marginal has another number of codes."""
    parts = zip(measurement.columns, measurement.groups, measurement.values.shape, strict=True)
    codes = {name: cells if groups is None else len(groups) for name, groups, cells in parts}
    return [name for name, count in codes.items() if name in schema.names and schema[name].size != count]
