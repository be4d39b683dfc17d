"""Check whether the rules allow any row.

The check is done before the rows are read, because a model cannot be fitted if no row is possible.

>>> any_row_possible({"A": 2, "B": 2}, [{"A": {0}}, {"A": {1}, "B": {1}}])
True
>>> any_row_possible({"A": 2, "B": 2}, [{"A": {0}}, {"A": {1}, "B": {1}}, {"B": {0}}])
False
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

Rule = Mapping[str, Collection[int]]  # the codes of each column that are excluded together

_MOST_STEPS = 100_000


def any_row_possible(sizes: Mapping[str, int], rules: Sequence[Rule]) -> bool:
    """Return True if a row is possible.

    The function uses backtracking, where codes that appear in the same rules are treated as one. If the search takes
    too many steps, the result is True.

    Parameters
    ----------
    sizes : mapping of str to int
        The number of codes of each column in a rule.
    rules : sequence of mapping
        The rules. A row violates a rule if, for each column of the rule, it has one of the listed codes.

    Returns
    -------
    bool
        False if no row is possible.
    """
    steps = [_MOST_STEPS]
    return _some(sizes, [dict(rule) for rule in rules], steps)


def _some(sizes: Mapping[str, int], rules: Sequence[Rule], steps: list[int]) -> bool:
    steps[0] -= 1
    if not rules or steps[0] < 0:
        return True
    if not all(rules):  # a rule without columns is always violated
        return False
    name = min((len(rule), place, next(iter(rule))) for place, rule in enumerate(rules))[2]
    own, others = [rule for rule in rules if name in rule], [rule for rule in rules if name not in rule]
    kinds = {frozenset(place for place, rule in enumerate(own) if code in rule[name]) for code in range(sizes[name])}
    for kind in kinds:
        rest = [{key: codes for key, codes in own[place].items() if key != name} for place in kind]
        if _some(sizes, [*others, *rest], steps):
            return True
    return False
