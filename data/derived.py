"""Derived columns, which are computed from another column after the rows are drawn.

An example is the age group, which is derived from the age. Derived columns are never measured or modelled.

>>> ages = Column("AGE", lower=0, upper=99, integer=True, release="draw")
>>> declared = {"from": "AGE", "bins": [0, 14, 64, 99], "labels": ["child", "adult", "old"]}
>>> groups = Derived.read("GROUP", declared, ages, "")
>>> [groups.keys[groups.groups[age]] for age in (14, 15, 99)]
['child', 'adult', 'old']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from equistrata.data.columns import dates
from equistrata.data.columns.column import Column, plain_text, writable
from equistrata.data.columns.declared import is_number, need, refuse_unknown, text_of
from equistrata.data.columns.drawn import released_ends
from equistrata.data.columns.naming import CodeNames
from equistrata.data.rules.ranges import Range

if TYPE_CHECKING:
    from equistrata.data.schema import Schema

FROM = "from"
_KEYS = {FROM, "bins", "labels", "groups", "label"}


@dataclass(frozen=True)
class Derived:
    """A column in which each value stands for a group of codes of another column.

    Parameters
    ----------
    name : str
        The name of the column.
    source : str
        The name of the column from which it is derived.
    label : str
        A description of the column.
    keys : tuple of str
        The values of the column.
    groups : tuple of int
        The index of the value for each code of the source.
    """

    name: str
    source: str
    label: str
    keys: tuple[str, ...]
    groups: tuple[int, ...]

    @property
    def column(self) -> Column:
        """The column that describes the released cells."""
        return Column(self.name, self.label, self.keys)

    def cells(self, codes: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.object_]:
        """Return the released cells of rows, given their codes of the source column.

        Parameters
        ----------
        codes : ndarray of int
            The codes of the source column, shape (n,).

        Returns
        -------
        ndarray of str
            The released cells, shape (n,).
        """
        found: npt.NDArray[np.object_] = np.array(self.keys, dtype=object)[np.array(self.groups)[codes]]
        return found

    @property
    def known(self) -> CodeNames:
        """The names of the values in questions."""
        return CodeNames(self.name, {key: place for place, key in enumerate(self.keys)})

    @classmethod
    def read(cls, name: str, spec: Any, source: Column, here: str) -> Derived:
        """Return the derived column that a schema file declares.

        The bins of the source must already end at the edges of the groups (see `ends_of`).

        Parameters
        ----------
        name : str
            The name of the column.
        spec : mapping
            The declaration of the column.
        source : Column
            The column from which it is derived.
        here : str
            The start of the error message.

        Returns
        -------
        Derived
            The derived column.

        Raises
        ------
        InputError
            If the declaration is not valid.
        """
        if "groups" in spec:
            return _of_values(name, spec, source, here)
        edges = _edges(spec, source, here)
        own = map(source.words, source.keys[source.bins :])  # the labels of codes and of absent cells
        keys = spec.get("labels", [_words(source, *pair, place == 0) for place, pair in enumerate(pairwise(edges))])
        need(here, isinstance(keys, list) and len(keys) == len(edges) - 1, "needs as many 'labels' as it has bins")
        # The groups are closed on the right, like the bins.
        inside = np.searchsorted(np.array(edges[1:-1]), released_ends(source)[0])
        groups = [*inside.tolist(), *range(len(keys), len(keys) + source.size - source.bins)]
        return _checked(cls(name, source.name, text_of(spec, "label", here), (*keys, *own), tuple(groups)), here)


def ends_of(spec: Any, source: Column, here: str) -> list[Range]:
    """Return the ranges of numbers up to each inner edge, at which the bins of the source must end.

    Raises
    ------
    InputError
        If the declaration is not valid.
    """
    refuse_unknown(spec, _KEYS, here)
    need(here, not source.open, f"is derived from {source.name!r}, which has 'values: open'; list its values")
    kinds = "needs 'bins' if its source has numbers or dates, and 'groups' if its source has listed values"
    need(here, ("bins" in spec) == source.numeric and ("groups" in spec) != source.numeric, kinds)
    return [] if "groups" in spec else [(-np.inf, edge) for edge in _edges(spec, source, here)[1:-1]]


def _edges(spec: Mapping[str, Any], source: Column, here: str) -> list[float]:
    listed = spec["bins"] if isinstance(spec["bins"], list) else []
    given = [dates.day_in(each) for each in listed] if source.layout else listed
    kind = 'dates, such as "2024-12-31"' if source.layout else "numbers"
    need(here, all(map(is_number, given)), f"needs 'bins' to be edges that are {kind}")
    edges = [float(edge) for edge in given if edge is not None]
    ascending = len(edges) > 1 and sorted(set(edges)) == edges
    need(here, ascending, "needs 'bins' to be two or more ascending edges (closed on the right): [0, 14, 64, 99]")
    (lower, upper), shown = source.bounds, [source.shown(bound) for bound in source.bounds]
    reach = edges[0] <= lower and upper <= edges[-1]
    need(here, reach, f"has 'bins' that do not reach from {shown[0]} to {shown[1]}, the bounds of {source.name!r}")
    inside = edges[1] >= lower and edges[-2] < upper
    need(here, inside, f"has a bin outside the bounds of {source.name!r}, {shown[0]} to {shown[1]}; remove its edge")
    return edges


def _words(source: Column, low: float, high: float, first: bool) -> str:
    """Return a label for the numbers in a bin."""
    least, high = max(low, source.bounds[0]) if first else low, min(high, source.bounds[1])
    if source.integer:
        least, high = float(np.ceil(least) if first else np.floor(low) + 1), float(np.floor(high))
    start, end = (dates.iso(number) if source.layout else plain_text(number) for number in (least, high))
    return f"{start} to {end}" if first or source.integer else f"over {start} to {end}"


def _of_values(name: str, spec: Mapping[str, Any], source: Column, here: str) -> Derived:
    groups: Any = spec["groups"]
    need(here, "labels" not in spec, "has both 'labels' and 'groups', which both name its values; remove 'labels'")
    mapping = isinstance(groups, dict) and groups and all(isinstance(each, list) and each for each in groups.values())
    need(here, mapping, "needs 'groups' to map each of its values to a list of values")
    place = {value: code for code, value in enumerate(source.values)}
    found = dict[int, int]()
    for number, (key, values) in enumerate(groups.items()):
        for value in values:
            known = isinstance(value, str | int | float) and not isinstance(value, bool) and value in place
            need(here, known, f"has {value!r} in the group {key!r}, which is not a value of {source.name!r}")
            need(here, place[value] not in found, f"has {value!r} in two groups; keep it in one")
            found[place[value]] = number
    left = next((repr(value) for value, code in place.items() if code not in found), "")
    need(here, not left, f"has no group for the value {left} of {source.name!r}; put it into a group")
    label = text_of(spec, "label", here)
    return _checked(
        Derived(name, source.name, label, tuple(groups), tuple(found[code] for code in sorted(found))), here
    )


def _checked(made: Derived, here: str) -> Derived:
    for key in made.keys:
        text = isinstance(key, str) and writable(key)
        need(
            here,
            text,
            f"has the value {key!r}, which is not a short text, or would be read back as something else; rename it",
        )
    need(here, len(set(made.keys)) == len(made.keys), "has two values with the same name; rename one of them")
    return made


def check_derived(derived: Sequence[Derived], schema: Schema, here: str) -> None:
    """Check the derived columns of a `schema.json`.

    Parameters
    ----------
    derived : sequence of Derived
        The derived columns.
    schema : Schema
        The schema.
    here : str
        The start of the error message.

    Raises
    ------
    InputError
        If a derived column does not have a value for each code of its source, or if a name or a value is not valid.
    """
    names = [each.name for each in derived]
    apart = len(set(names)) == len(names) and not set(names) & {*schema.cells}
    need(here, apart, "has a derived column with the name of another column; rename it")
    for each in derived:
        fits = len(each.groups) == schema[each.source].size and set(each.groups) <= set(range(len(each.keys)))
        need(here, fits, f"has a derived column {each.name!r} that does not match its source {each.source!r}")
        _checked(each, f"column {each.name!r} of {here}")


def derived_and_declared(declared: Mapping[Any, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the columns of a schema file into derived columns and declared columns."""
    derives = {name: spec for name, spec in declared.items() if isinstance(spec, dict) and FROM in spec}
    return derives, {name: spec for name, spec in declared.items() if name not in derives}


def refuse_derived(name: Any, derives: Mapping[str, Any], here: str) -> None:
    """Raise an InputError if a name is that of a derived column, where only a declared column is allowed."""
    of = derives[name][FROM] if isinstance(name, str) and name in derives else None
    need(here, of is None, f"names {name!r}, which is derived from {of!r} after drawing; name {of!r} instead")


def check_source(name: str, spec: Mapping[str, Any], schema: Schema, here: str) -> None:
    """Raise an InputError if the source of a derived column is not declared, or if the derived column has the name of
    another.
    """
    known = isinstance(spec[FROM], str) and spec[FROM] in schema.names
    need(here, known, f"is derived from {spec[FROM]!r}, which is not a declared column; name a declared column")
    need(here, name not in schema.cells, "has the name of another column; rename it")
