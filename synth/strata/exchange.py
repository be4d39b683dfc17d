"""Rows that contradict a comparison of two columns, as JAIL_IN <= JAIL_OUT, are made to obey it.

A model knows columns of fine bins through merged ones, and noise puts rows where nobody is, so that some drawn rows
have bins of which no numbers are in order. Rows of a stratum exchange the codes of the upper column, so that its counts
stay as they were measured. What no exchange mends is moved to the nearest bin, or becomes a copy of another row. All of
it is post-processing of drawn rows, and costs no privacy. See docs/guide.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Indices
from equistrata.data.rules.ordered import after, by_order, first_bins, obeys, reached
from equistrata.data.schema import Impossible, Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.synth.models.possible import zero_classes

_PARTNERS = 1000  # rows among which a row looks for a partner; and rows that are drawn more where none obeys


@dataclass(frozen=True)
class Changed:
    """How many drawn rows contradicted a rule, and what became of them.

    Attributes:
        exchanged: rows that have the code of another row of their stratum in one column, partners included.
        moved: rows with the nearest code that fits.
        replaced: rows that are now as another row of their stratum.
    """

    exchanged: int = 0
    moved: int = 0
    replaced: int = 0

    def __add__(self, other: Changed) -> Changed:
        return Changed(self.exchanged + other.exchanged, self.moved + other.moved, self.replaced + other.replaced)


def put_in_order(
    table: CodedTable,
    rng: np.random.Generator,
    more: Callable[[int], CodedTable],
    whole: Callable[[CodedTable], CodedTable] = lambda rows: rows,
) -> tuple[CodedTable, Changed]:
    """The rows of one stratum with codes by which every row can obey its rules.

    Args:
        table: drawn rows.
        more: draws more of them, for a stratum in which no row obeys.
        whole: adds the columns that cut strata, since rules may compare others with these.

    Raises InputError if none of those does either.
    """
    schema = table.schema
    if not len(table):
        return table, Changed()
    codes = table.codes.copy(order="F")
    exchanged, moved = np.zeros((2, len(table)), dtype=np.bool_)
    uppers = {order.upper for order in schema.ordered}
    for name in filter(uppers.__contains__, by_order(schema.ordered)):
        place, needed = schema.index(name), _needed(codes, schema, name)
        own = codes[:, place].astype(np.intp)
        for rows in _alike(own, schema, name):
            swapped = _exchange(own[rows], needed[rows], rng)
            exchanged[rows] |= swapped != own[rows]
            own[rows] = swapped
        codes[:, place] = own
        short = (own < needed) & (needed < schema[name].bins)
        nearest = codes.copy(order="F")
        nearest[short, place] = needed[short]
        short &= ~CodedTable(nearest, schema).ruled_out()
        codes[short, place] = needed[short]
        moved |= short
    fits = obey_rules(whole(CodedTable(codes, schema)))
    replaced = np.flatnonzero(~fits)
    if len(replaced):
        donors = codes[fits] if fits.any() else _obeying(more(_PARTNERS), whole)
        codes[replaced] = donors[rng.integers(len(donors), size=len(replaced))]
    exchanged[replaced] = moved[replaced] = False
    return CodedTable(codes, schema), Changed(int(exchanged.sum()), int(moved.sum()), len(replaced))


def _exchange(own: Indices, needed: Indices, rng: np.random.Generator) -> Indices:
    """The same codes, exchanged between rows, so that more rows have the code they need, or a larger one.

    A row and its partner both have what they need after it. Rows look for a partner among _PARTNERS rows drawn at
    random, and again, until a round finds no pair.
    """
    own = own.copy()
    while True:
        order, found = rng.permutation(len(own)), 0
        for start in np.unique(np.flatnonzero(own[order] < needed[order]) // _PARTNERS * _PARTNERS).tolist():
            near = order[start : start + _PARTNERS]
            short = near[own[near] < needed[near]]
            fits = (own[near] >= needed[short, None]) & (needed[near] <= own[short, None])
            often = np.cumsum(fits, axis=1, dtype=np.int32)
            some = np.flatnonzero(often[:, -1])
            # The first that fits; of rows with the same codes each takes another one.
            turn = _times_before(own[short[some]] * (int(needed.max()) + 1) + needed[short[some]]) % often[some, -1]
            partner = np.zeros(len(short), dtype=np.intp)
            partner[some] = (often[some] > turn[:, None]).argmax(axis=1)
            _, first = np.unique(partner[some], return_index=True)  # a partner exchanges once
            one, two = short[some[first]], near[partner[some[first]]]  # no row is both: partners are not short
            own[one], own[two] = own[two], own[one]
            found += len(one)
        if not found:
            return own


def _times_before(values: Indices) -> Indices:
    """How often each value occurred before.

    >>> _times_before(np.array([7, 5, 7, 7, 5]))
    array([0, 0, 1, 2, 1])
    """
    order = np.argsort(values, kind="stable")
    new = np.diff(values[order], prepend=values[order][:1] - 1) != 0
    starts = np.maximum.accumulate(np.where(new, np.arange(len(values)), 0))
    times = np.empty(len(values), dtype=np.intp)
    times[order] = np.arange(len(values)) - starts
    return times


def _needed(codes: npt.NDArray[np.unsignedinteger], schema: Schema, name: str) -> Indices:
    """For each row, the first bin of a column with a number that no lower column is beyond.

    As many as it has bins where there is none; 0 where nothing is asked of the row.
    """
    parts = CodedTable(codes, schema).compared()
    least, needed = reached(parts, schema, schema.ordered), np.zeros(len(codes), dtype=np.intp)
    for order in schema.ordered:
        if order.upper == name:
            bins = first_bins(schema[name], after(schema[name], least[order.lower], order.strict))
            needed = np.maximum(needed, np.where(order.concerns(parts, schema), bins, 0))
    return needed


def _alike(codes: Indices, schema: Schema, name: str) -> Iterator[Indices]:
    """The rows with a number in a column, by the class of their code: codes of one class are alike to all structural
    zeros, and to what frees a row from a rule, so that rows may exchange them."""
    free = [Impossible((each,), (own,)) for order in schema.ordered for each, own in order.unless]
    classes = zero_classes(schema.sizes, schema.names, [*schema.impossible, *free])[schema.index(name)]
    numbers = codes < schema[name].bins
    for kind in np.unique(classes[: schema[name].bins]).tolist():
        yield np.flatnonzero(numbers & (classes[codes] == kind))


def obey_rules(table: CodedTable) -> npt.NDArray[np.bool_]:
    """Which rows obey all rules, shape (n,)."""
    return obeys(table.compared(), table.schema, table.schema.ordered) & ~table.ruled_out()


def _obeying(table: CodedTable, whole: Callable[[CodedTable], CodedTable]) -> npt.NDArray[np.unsignedinteger]:
    found = table.codes[obey_rules(whole(table))]
    if not len(found):
        rules = "; ".join(whole(table).schema.compared)
        raise InputError(f"of {len(table):,} drawn rows of a stratum none obeys {rules}; take one of these rules out")
    return found
