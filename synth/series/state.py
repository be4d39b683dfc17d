"""The state of a series after a month, which has the estimates of each marginal that was ever measured.

The state is stored in the folder of the month. It is computed only from published numbers, which are noisy measurements
and the former state. Therefore, it has no privacy cost.

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
    FormerEstimate,
    Measurement,
    Merging,
    Where,
    given,
    has_all_codes,
    root_mean_square,
)
from equistrata.synth.storage import MARGINAL, marginal_in, shaped

STATE = "series.json"
STATE_FORMAT = "equistrata series 3"
EARLIER_FORMATS = ("equistrata series 1", "equistrata series 2")  # these can be read, but were made by another filter

_SHAPE = {"format": str, "month": int, "drift": {str: [float]}, "known": [{**MARGINAL, "sigmas": [float]}]}
# The maximum number of rows and the minimum σ, so that their squares and the ratios of these squares remain finite.
_MOST, _LEAST = 1e15, 1e-9

# A marginal is identified by its columns, the groups of their codes, and the stratum if only one stratum was measured.
Marginal = tuple[Columns, tuple[Merging, ...], Where]
# The sums of the moments from which a drift is estimated, and of their weights.
Moments = tuple[float, float]


@dataclass(frozen=True, eq=False)
class State:
    """The estimates of a series after one of its months.

    Parameters
    ----------
    month : int
        The number of the month, which starts at 1.
    known : tuple of Former
        For each marginal, the expected counts and their standard deviations at this month.
    moments : mapping of str to (float, float)
        The moments of the drift of each kind of marginal (`equistrata.synth.series.drift`).
    earlier : bool, default=False
        If True, the state was made by another version and cannot be reproduced by this version.
    """

    month: int
    known: tuple[FormerEstimate, ...]
    moments: Mapping[str, Moments]
    earlier: bool = False

    @classmethod
    def of(cls, month: int, measured: Iterable[Measurement]) -> State:
        """Create the state of a series that starts with these measurements.

        Parameters
        ----------
        month : int
            The number of the month.
        measured : iterable of Measurement
            The measurements of the month.

        Returns
        -------
        State
            The state.
        """
        return cls(month, tuple(former(each) for each in pooled(measured).values()), {})

    def fitting(self, strata: Strata, before: Schema) -> State:
        """Return a copy of the state without marginals that do not match a new schema.

        Marginals are removed if the new schema does not have one of their columns, or if it has other codes for the
        column. Marginals of strata that no longer exist are also removed. Therefore, changes of a questionnaire take
        effect immediately.

        Parameters
        ----------
        strata : Strata
            The strata and the new schema.
        before : Schema
            The schema of the state.

        Returns
        -------
        State
            The copy of the state.
        """
        schema, every = strata.schema, [{}, *map(strata.codes_of, strata.keys)]
        places = {frozenset(codes.items()): tuple(codes.items()) for codes in every}
        same = set(self.alike(schema, before))
        kept = (
            replace(each, where=places[frozenset(each.where)])  # the stratum columns may have another order
            for each in self.known
            if each.involved <= same and _fits(schema, each) and frozenset(each.where) in places
        )
        return replace(self, known=tuple(kept))

    def alike(self, schema: Schema, before: Schema) -> list[str]:
        """Return the columns that have the same meaning in a schema and in the state.

        A column is also omitted if the counts of the state do not have the number of codes in the former schema. This
        can happen if another version created different bins from the same declaration.

        Parameters
        ----------
        schema : Schema
            The new schema.
        before : Schema
            The schema of the state.

        Returns
        -------
        list of str
            The columns.
        """
        otherwise = {name for each in self.known for name in _misread(before, each)}
        return [name for name in alike(schema, before) if name not in otherwise]

    @property
    def plain(self) -> dict[str, Any]:
        """The state as a dictionary of plain values."""
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
        """Create the state from the result of `plain`.

        Parameters
        ----------
        document : dict
            The plain values.

        Returns
        -------
        State
            The state.

        Raises
        ------
        ValueError
            If no filter can have created these values.
        """
        month, known = document["month"], [_read(entry) for entry in document["known"]]
        drift = {kind: (float(one), float(two)) for kind, (one, two) in document["drift"].items()}
        _require(document["format"] in (STATE_FORMAT, *EARLIER_FORMATS))
        _require(month >= 1)
        _require(all(abs(one) <= _MOST and 0 <= two <= _MOST for one, two in drift.values()))
        _require(len(set(map(marginal_of, known))) == len(known))
        return cls(month, tuple(known), drift, document["format"] != STATE_FORMAT)

    def save(self, path: Path) -> None:
        """Write the state to a JSON file, which people and programs in any language can read.

        Parameters
        ----------
        path : Path
            The file to write.
        """
        path.write_text(json.dumps(self.plain, separators=(",", ":")), "utf-8")

    @classmethod
    def load(cls, path: Path) -> State:
        """Read the state that `save` wrote.

        Parameters
        ----------
        path : Path
            The file to read.

        Returns
        -------
        State
            The state.

        Raises
        ------
        InputError
            If the file is not a state of a series of this version.
        """
        document = read_json(path, f"folder {str(path.parent)!r}", _SHAPE, MOST_BYTES_OF_NUMBERS)
        try:
            return cls.of_plain(document)
        except ValueError:
            raise InputError(
                f"{str(path)!r} is not the state of a series of this version; give a release of the series"
            ) from None


def marginal_of(measurement: Measurement) -> Marginal:
    """Return the marginal of a measurement: its columns, the groups of their codes, and its stratum."""
    return measurement.columns, measurement.groups, measurement.where


def pooled(measured: Iterable[Measurement]) -> dict[Marginal, Measurement]:
    """Combine repeated measurements of the same marginal by inverse variance.

    Parameters
    ----------
    measured : iterable of Measurement
        The measurements.

    Returns
    -------
    dict of tuple to Measurement
        One measurement per marginal.
    """
    found: dict[Marginal, Measurement] = {}
    for each in measured:
        name = marginal_of(each)
        if name in found:
            one, two = found[name].sigma ** -2, each.sigma**-2
            values = (one * found[name].values + two * each.values) / (one + two)
            each = replace(each, values=values, sigma=(one + two) ** -0.5)
        found[name] = replace(each, choices=0.0)
    return found


def former(measurement: Measurement) -> FormerEstimate:
    """Convert a measurement to the estimate of its marginal."""
    return known(measurement, measurement.values, measurement.cell_sigma**2)


def known(marginal: Measurement, values: Any, variances: Any) -> FormerEstimate:
    """Create the estimate of a marginal from its expected counts and their variances."""
    sigmas = np.sqrt(variances)
    typical = root_mean_square(sigmas)
    return FormerEstimate(marginal.columns, values, typical, marginal.groups, marginal.where, sigmas=sigmas)


def combine_strata(strata: Strata, measured: Mapping[Key, Sequence[Measurement]]) -> list[Measurement]:
    """Combine the measurements of all strata into one list.

    Parameters
    ----------
    strata : Strata
        The strata.
    measured : mapping of tuple to sequence of Measurement
        The measurements of each stratum. The key `()` stands for all rows.

    Returns
    -------
    list of Measurement
        The measurements. A measurement of a single stratum has the codes of the stratum in `where`.
    """
    return [
        replace(each, where=(*strata.codes_of(key).items(), *each.where)) if key else each
        for key, measurements in measured.items()
        for each in measurements
    ]


def by_strata(strata: Strata, measured: Iterable[Measurement], keys: Iterable[Key]) -> dict[Key, list[Measurement]]:
    """Divide a list of measurements by strata, which is the inverse of `combine_strata`.

    If the strata are fitted separately, marginals within all strata are divided into one marginal per stratum, and
    marginals over all rows are omitted.

    Parameters
    ----------
    strata : Strata
        The strata.
    measured : iterable of Measurement
        The measurements.
    keys : iterable of tuple
        The strata of the result. The key `()` stands for all rows.

    Returns
    -------
    dict of tuple to list of Measurement
        The measurements of each stratum.
    """
    found: dict[Key, list[Measurement]] = {key: [] for key in keys}
    places = {tuple(strata.codes_of(key).items()): key for key in found if key}
    for each in measured:
        if () in found:
            found[()].append(each)
        elif each.where:
            found[places[each.where]].append(replace(each, where=()))
        elif len(each.columns) > len(strata.columns) and has_all_codes(each, strata.columns):
            for key, own in found.items():
                own.append(given(each, strata.codes_of(key)))
    return found


def _read(entry: Mapping[str, Any]) -> FormerEstimate:
    (columns, values, groups, where), sigmas = marginal_in(entry), shaped(entry, "sigmas")
    _require(bool((np.abs(values) <= _MOST).all() and ((sigmas >= _LEAST) & (sigmas <= _MOST)).all()))
    return FormerEstimate(columns, values, root_mean_square(sigmas), groups, where, sigmas=sigmas)


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError


def alike(schema: Schema, before: Schema) -> list[str]:
    """Return the columns of a schema that have the same meaning in another schema, code by code.

    Parameters
    ----------
    schema : Schema
        The schema.
    before : Schema
        The other schema.

    Returns
    -------
    list of str
        The columns.
    """
    there = [name for name in schema.names if name in before.names]
    return [name for name in there if _meaning(schema[name]) == _meaning(before[name])]


def _meaning(column: Column) -> Any:
    """Return the meaning of each code of a column.

    The cuts are included because different bins can have the same number of codes, as in releases before 2026-11-26.
    """
    return column.keys, column.cuts, [raw for raw, _ in column.codes]


def _fits(schema: Schema, measurement: Measurement) -> bool:
    if not measurement.involved <= set(schema.names) or _misread(schema, measurement):
        return False
    parts = zip(measurement.groups, measurement.values.shape, strict=True)
    whole = all(groups is None or max(groups) + 1 == cells for groups, cells in parts)
    return whole and all(0 <= code < schema[name].size for name, code in measurement.where)


def _misread(schema: Schema, measurement: Measurement) -> list[str]:
    """Return the columns of a schema for which a marginal has a different number of codes."""
    parts = zip(measurement.columns, measurement.groups, measurement.values.shape, strict=True)
    codes = {name: cells if groups is None else len(groups) for name, groups, cells in parts}
    return [name for name, count in codes.items() if name in schema.names and schema[name].size != count]
