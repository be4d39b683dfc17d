"""The possible combinations of codes in a factorised form.

Columns are divided into groups that are connected by structural zeros. A column without structural zeros is a separate
group. Within a group, the codes of a column that are in the same structural zeros form a class, and only the
combinations of classes are listed. A product distribution that is conditioned on the possible combinations then has two
parts: a table over the class combinations of each group, and a distribution over the codes within each class. This form
is exact and as cheap as a product distribution.

>>> possible = FeasibleCodes.of(Schema.load("acs_employment").select(["AGEP", "SCHL", "MIL", "ESR"]))
>>> [group.columns for group in possible.groups]
[(0, 2, 3), (1,)]
>>> possible.groups[0].cells.shape[0], 5 * 5 * 2
(8, 50)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from equistrata.arrays import Indices
from equistrata.data.schema import Impossible, Schema
from equistrata.errors import InputError

MOST_COMBINATIONS = 20_000  # the maximum number of class combinations of a group; each needs a number per component


@dataclass(frozen=True, eq=False)
class Group:
    """Columns that are connected by structural zeros.

    Parameters
    ----------
    columns : tuple of int
        The positions of the columns in the schema, in ascending order.
    cells : ndarray of int, shape (combinations, columns)
        The possible combinations of classes, with one class per column.
    """

    columns: tuple[int, ...]
    cells: Indices


@dataclass(frozen=True, eq=False)
class FeasibleCodes:
    """The possible combinations of the codes of a schema.

    Parameters
    ----------
    sizes : tuple of int
        The number of codes of each column.
    classes : tuple of ndarray of int
        For each column, the class of each code. Classes are numbered from 0.
    groups : tuple of Group
        The groups, which are a partition of the columns.
    """

    sizes: tuple[int, ...]
    classes: tuple[Indices, ...]
    groups: tuple[Group, ...]

    @classmethod
    def of(cls, schema: Schema) -> FeasibleCodes:
        """Find the possible combinations of a schema from its structural zeros.

        The result is cached because rounds share schemas.

        Parameters
        ----------
        schema : Schema
            The schema.

        Returns
        -------
        Possible
            The possible combinations.

        Raises
        ------
        InputError
            If a group has too many combinations to list, or no possible combination.
        """
        return _possible(schema.sizes, schema.names, schema.impossible)

    def class_count(self, column: int) -> int:
        """Return the number of classes of a column."""
        return int(self.classes[column].max()) + 1

    def group_of(self, column: int) -> int:
        """Return the index of the group that contains a column."""
        return next(g for g, group in enumerate(self.groups) if column in group.columns)


@lru_cache(maxsize=256)
def _possible(sizes: tuple[int, ...], names: tuple[str, ...], zeros: tuple[Impossible, ...]) -> FeasibleCodes:
    place = {name: j for j, name in enumerate(names)}
    classes = zero_classes(sizes, names, zeros)
    groups = []
    for columns in _tied(len(names), [[place[name] for name in zero.columns] for zero in zeros]):
        inside = [zero for zero in zeros if place[zero.columns[0]] in columns]
        groups.append(Group(columns, _combinations(columns, classes, inside, place, names)))
    return FeasibleCodes(sizes, classes, tuple(groups))


def zero_classes(sizes: Sequence[int], names: Sequence[str], zeros: Sequence[Impossible]) -> tuple[Indices, ...]:
    """For each column, return the class of each code.

    Two codes are in the same class if they are in the same structural zeros.
    """
    classes = []
    for name, size in zip(names, sizes, strict=True):
        listed = [zero.codes[zero.columns.index(name)] for zero in zeros if name in zero.columns]
        member = [tuple(code in codes for codes in listed) for code in range(size)]
        first = {pattern: n for n, pattern in enumerate(dict.fromkeys(member))}  # in the order of their first codes
        classes.append(np.array([first[pattern] for pattern in member], dtype=np.intp))
    return tuple(classes)


def _tied(count: int, links: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return the connected components of the columns 0 to count − 1, ordered by their first column."""
    part = list(range(count))
    for link in links:
        roots = {part[j] for j in link}
        part = [min(roots) if root in roots else root for root in part]
    return [tuple(j for j in range(count) if part[j] == root) for root in sorted(set(part))]


def _combinations(
    columns: tuple[int, ...],
    classes: tuple[Indices, ...],
    zeros: Sequence[Impossible],
    place: dict[str, int],
    names: tuple[str, ...],
) -> Indices:
    """List the possible combinations of classes, column by column.

    A combination is dropped as soon as all columns of a structural zero that excludes it are present.
    """
    tied = ", ".join(names[j] for j in columns)
    cells = np.zeros((1, 0), dtype=np.intp)
    for depth, column in enumerate(columns):
        width = int(classes[column].max()) + 1
        cells = np.column_stack([np.repeat(cells, width, axis=0), np.tile(np.arange(width), len(cells))])
        for zero in zeros:
            spots = [columns.index(place[name]) for name in zero.columns]
            if max(spots) != depth:
                continue
            hit = np.ones(len(cells), dtype=bool)
            for spot, codes in zip(spots, zero.codes, strict=True):
                hit &= np.isin(cells[:, spot], classes[columns[spot]][list(codes)])
            cells = cells[~hit]
        if len(cells) > MOST_COMBINATIONS:
            raise InputError(
                f"impossible combinations connect {tied}, which leaves more than {MOST_COMBINATIONS:,} possible "
                "combinations; use fewer of these columns, or declare fewer impossible combinations"
            )
    if not len(cells):
        raise InputError(f"the schema leaves no possible combination of {tied}; correct 'impossible'")
    return cells
