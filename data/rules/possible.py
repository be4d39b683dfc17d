"""Whether rules leave any row possible: refused before rows are read, since no model could be made of none.

>>> some_row({"A": 2, "B": 2}, [{"A": {0}}, {"A": {1}, "B": {1}}])
True
>>> some_row({"A": 2, "B": 2}, [{"A": {0}}, {"A": {1}, "B": {1}}, {"B": {0}}])
False
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

Rule = Mapping[str, Collection[int]]  # column → codes that are ruled out together

_MOST_STEPS = 100_000


def some_row(sizes: Mapping[str, int], rules: Sequence[Rule]) -> bool:
    """Whether a row is possible, found by backtracking over codes that differ to the rules.

    True where that takes too long to tell.

    Args:
        sizes: the number of codes of each column in a rule.
        rules: of which a row breaks one if each of its columns has one of the codes listed.
    """
    steps = [_MOST_STEPS]
    return _some(sizes, [dict(rule) for rule in rules], steps)


def _some(sizes: Mapping[str, int], rules: Sequence[Rule], steps: list[int]) -> bool:
    steps[0] -= 1
    if not rules or steps[0] < 0:
        return True
    if not all(rules):  # nothing is left that could save the row
        return False
    name = min((len(rule), place, next(iter(rule))) for place, rule in enumerate(rules))[2]
    own, others = [rule for rule in rules if name in rule], [rule for rule in rules if name not in rule]
    kinds = {frozenset(place for place, rule in enumerate(own) if code in rule[name]) for code in range(sizes[name])}
    for kind in kinds:
        rest = [{key: codes for key, codes in own[place].items() if key != name} for place in kind]
        if _some(sizes, [*others, *rest], steps):
            return True
    return False
