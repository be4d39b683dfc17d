"""Tests of rules for which no row is allowed. The result is compared with a check of all possible rows."""

from itertools import product

import numpy as np
import pytest

from equistrata.data.rules.possible import any_row_possible
from equistrata.data.schema import Schema
from equistrata.errors import InputError


@pytest.mark.parametrize("seed", range(60))
def test_it_is_what_trying_every_row_finds(seed):
    rng = np.random.default_rng(seed)
    sizes = {name: int(rng.integers(1, 4)) for name in "ABC"}
    rules = []
    for _ in range(int(rng.integers(1, 9))):
        names = rng.choice(list(sizes), int(rng.integers(1, 4)), replace=False)
        rules.append(
            {str(n): set(rng.integers(0, sizes[n], int(rng.integers(1, sizes[n] + 1))).tolist()) for n in names}
        )
    rows = [dict(zip(sizes, row, strict=True)) for row in product(*map(range, sizes.values()))]
    possible = any(not any(all(row[n] in codes for n, codes in rule.items()) for rule in rules) for row in rows)
    assert any_row_possible(sizes, rules) == possible


def schema(impossible):
    columns = {"A": {"values": [1, 2]}, "AGE": {"lower": 0, "upper": 99, "integer": True}}
    return Schema.from_dict({"columns": columns, "impossible": impossible})


def test_a_schema_whose_rules_leave_nothing_is_refused():
    assert schema([{"A": 1, "AGE": "<15"}, {"A": 2, "AGE": ">20"}])
    for rules in ([{"A": 1}, {"A": 2}], [{"A": 1, "AGE": "<15"}, {"A": 1, "AGE": ">=15"}, {"A": 2}]):
        with pytest.raises(InputError, match="together rule out every row"):
            schema(rules)


@pytest.mark.parametrize(
    ("bounds", "fault"), [((0.2, 0.8), "no whole number"), ((0, 1e16), "not exact"), ((-1e300, 1e300), "not exact")]
)
def test_whole_numbers_need_bounds_that_hold_some_and_tell_them_apart(bounds, fault):
    spec = {"lower": bounds[0], "upper": bounds[1], "integer": True}
    with pytest.raises(InputError, match=fault):
        Schema.from_dict({"columns": {"X": spec}})
