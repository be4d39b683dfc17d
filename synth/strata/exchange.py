"""Changes to synthetic rows that violate a comparison of two columns, for example JAIL_IN <= JAIL_OUT.

A model represents columns with fine bins by merged bins, and noise adds rows where there are no people. Therefore, some
drawn rows have bins in which no numbers satisfy the comparison. Rows of a stratum first exchange the codes of the upper
column, so that its measured counts are preserved. If no exchange is possible, a row is moved to the nearest bin, or it
is replaced by a copy of another row. All changes are post-processing of drawn rows and have no privacy cost. See
docs/guide.md.
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

# The number of rows among which a row looks for a partner, and the number of additional rows if no row obeys the rules.
_PARTNERS = 1000


@dataclass(frozen=True)
class RuleChanges:
    """The numbers of drawn rows that were changed because they violated a rule.

    Parameters
    ----------
    exchanged : int, default=0
        The number of rows that exchanged the code of a column with another row of their stratum. Both rows are counted.
    moved : int, default=0
        The number of rows that were moved to the nearest code that satisfies the rule.
    replaced : int, default=0
        The number of rows that were replaced by copies of other rows of their stratum.
    """

    exchanged: int = 0
    moved: int = 0
    replaced: int = 0

    def __add__(self, other: RuleChanges) -> RuleChanges:
        return RuleChanges(self.exchanged + other.exchanged, self.moved + other.moved, self.replaced + other.replaced)


def enforce_rules(
    table: CodedTable,
    rng: np.random.Generator,
    more: Callable[[int], CodedTable],
    whole: Callable[[CodedTable], CodedTable] = lambda rows: rows,
) -> tuple[CodedTable, RuleChanges]:
    """Change the codes of the rows of one stratum so that every row satisfies its rules.

    Parameters
    ----------
    table : CodedTable
        The drawn rows.
    rng : numpy.random.Generator
        The random number generator.
    more : callable
        The function that draws more rows. It is called if no row of the stratum satisfies the rules.
    whole : callable, optional
        The function that adds the columns that define the strata, because rules can compare them with other columns.

    Returns
    -------
    table : CodedTable
        The changed rows.
    changed : Changed
        The numbers of changed rows.

    Raises
    ------
    InputError
        If none of the additional rows satisfies the rules.
    """
    schema = table.schema
    if not len(table):
        return table, RuleChanges()
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
    fits = satisfies_rules(whole(CodedTable(codes, schema)))
    replaced = np.flatnonzero(~fits)
    if len(replaced):
        donors = codes[fits] if fits.any() else _rows_satisfying_rules(more(_PARTNERS), whole)
        codes[replaced] = donors[rng.integers(len(donors), size=len(replaced))]
    exchanged[replaced] = moved[replaced] = False
    return CodedTable(codes, schema), RuleChanges(int(exchanged.sum()), int(moved.sum()), len(replaced))


def _exchange(own: Indices, needed: Indices, rng: np.random.Generator) -> Indices:
    """Exchange codes between rows so that more rows have a code that is large enough.

    After an exchange, the codes of both rows are large enough. Each row searches for a partner among `_PARTNERS` random
    rows. The search is repeated until no pair is found in a round.
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
            # Each row takes the first partner that fits, but rows with the same codes take different partners.
            turn = _times_before(own[short[some]] * (int(needed.max()) + 1) + needed[short[some]]) % often[some, -1]
            partner = np.zeros(len(short), dtype=np.intp)
            partner[some] = (often[some] > turn[:, None]).argmax(axis=1)
            _, first = np.unique(partner[some], return_index=True)  # each partner exchanges only once
            one, two = short[some[first]], near[partner[some[first]]]  # disjoint, because partners do not need a code
            own[one], own[two] = own[two], own[one]
            found += len(one)
        if not found:
            return own


def _times_before(values: Indices) -> Indices:
    """Count the previous occurrences of each value.

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
    """For each row, return the first bin of a column that satisfies all comparisons with lower columns.

    The result is the number of bins if there is no such bin. It is 0 if no rule applies to the row.
    """
    parts = CodedTable(codes, schema).compared()
    least, needed = reached(parts, schema, schema.ordered), np.zeros(len(codes), dtype=np.intp)
    for order in schema.ordered:
        if order.upper == name:
            bins = first_bins(schema[name], after(schema[name], least[order.lower], order.strict))
            needed = np.maximum(needed, np.where(order.concerns(parts, schema), bins, 0))
    return needed


def _alike(codes: Indices, schema: Schema, name: str) -> Iterator[Indices]:
    """Return groups of rows that can exchange the codes of a column.

    The rows have a number in the column. Their codes are in the same structural zeros and in the same exceptions to the
    rules.
    """
    free = [Impossible((each,), (own,)) for order in schema.ordered for each, own in order.unless]
    classes = zero_classes(schema.sizes, schema.names, [*schema.impossible, *free])[schema.index(name)]
    numbers = codes < schema[name].bins
    for kind in np.unique(classes[: schema[name].bins]).tolist():
        yield np.flatnonzero(numbers & (classes[codes] == kind))


def satisfies_rules(table: CodedTable) -> npt.NDArray[np.bool_]:
    """Check which rows satisfy all rules.

    Parameters
    ----------
    table : CodedTable
        The rows.

    Returns
    -------
    ndarray of bool, shape (rows,)
        True for each row that satisfies all rules.
    """
    found = ~table.ruled_out()
    return found & obeys(table.compared(), table.schema, table.schema.ordered) if table.schema.ordered else found


def _rows_satisfying_rules(
    table: CodedTable, whole: Callable[[CodedTable], CodedTable]
) -> npt.NDArray[np.unsignedinteger]:
    found = table.codes[satisfies_rules(whole(table))]
    if not len(found):
        rules = "; ".join(whole(table).schema.compared)
        raise InputError(
            f"none of {len(table):,} drawn rows of a stratum satisfies the rules {rules}; remove one of these rules"
        )
    return found
