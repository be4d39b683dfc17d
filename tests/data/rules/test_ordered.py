"""Tests of numbers that are sampled in order: each row satisfies the rule, and the distribution is uniform."""

import json
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from equistrata.data.rules.ordered import obeys, out_of_order
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError

BOUNDS = st.tuples(st.sampled_from([-5, 0, 3]), st.sampled_from([6, 40, 3000]))
KINDS = st.sampled_from([{"integer": True}, {"decimals": 1}, {"decimals": 2}, {}, {"edges": True}])
MORE = st.sampled_from([{}, {"missing": "own"}, {"codes": {"N": "none"}}, {"codes": {-99: "x"}, "missing": "own"}])
NUMBERS = st.builds(lambda bounds, kind, more: of_numbers(*bounds, kind) | more, BOUNDS, KINDS, MORE)
DATES = st.builds(
    lambda upper, every, more: {"type": "date", "lower": "2020-01-01", "upper": upper} | every | more,
    st.sampled_from(["2020-03-01", "2024-12-31"]),
    st.sampled_from([{}, {"every": "month"}]),
    st.sampled_from([{}, {"missing": "own"}, {"codes": {"N": "none"}}]),
)
SIGNS = st.sampled_from(["<", "<=", ">", ">="])
PAIRS = st.sampled_from([("A", "B"), ("B", "C"), ("A", "C"), ("C", "A"), ("B", "A")])
UNLESS = st.sampled_from(["", " or S == 'a'", " or T >= 2", " or A >= 4.5"])
RULES = st.lists(st.tuples(PAIRS, SIGNS, UNLESS), min_size=1, max_size=3)


def of_numbers(lower, width, kind):
    upper = lower + width
    if "edges" in kind:
        return {"lower": lower, "upper": upper, "edges": [lower, lower + 2.5, lower + 4, upper]}
    return {"lower": lower, "upper": upper} | kind


def schema_of(columns, rules):
    """Return a schema with the given columns and rules. Contradictory rules are skipped by hypothesis."""
    named = dict(zip("ABC", columns, strict=True)) | {"S": {"values": ["a", "b"]}, "T": {"values": [1, 2, 3]}}
    named["T"]["type"] = "ordinal"
    texts = [f"{one} {sign} {two}{unless}" for (one, two), sign, unless in rules]
    try:
        return Schema.from_dict({"columns": named, "rules": texts})
    except InputError:
        assume(False)


@settings(deadline=None, max_examples=150)
@given(st.one_of(*(st.tuples(kind, kind, kind) for kind in (NUMBERS, DATES))), RULES, st.integers(0, 2**32))
def test_rows_that_can_obey_do_and_keep_their_codes(columns, rules, seed):
    schema = schema_of(columns, rules)
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, column.size, 300) for column in schema.columns]).astype(np.uint16)
    table = CodedTable(codes, schema)
    parts = {name: table.column(name) for order in schema.ordered for name in order.columns}
    kept = obeys(parts, schema, schema.ordered)
    for zero in schema.impossible:
        kept &= ~schema.zero_mask(zero).ravel()[table.index_of(zero.columns)]
    table = table.take(kept)
    again = CodedTable.encode(table.decode(rng), schema.coded())
    assert np.array_equal(again.codes, table.codes)


@settings(deadline=None, max_examples=6)
@given(st.tuples(NUMBERS, NUMBERS, NUMBERS), st.booleans())
def test_bins_that_are_ruled_out_have_no_numbers_in_order(columns, strict):
    schema = schema_of(columns, [(("A", "B"), "<" if strict else "<=", "")])
    low, high = schema["A"], schema["B"]
    rng = np.random.default_rng(0)
    for code in rng.integers(0, low.bins, 3).tolist():
        for other in rng.integers(0, high.bins, 3).tolist():
            part = CodedTable(np.array([[code, other]]), Schema((s := schema).name, s.columns[:2]))
            drawn = [part.decode(rng).astype(str).astype(float).iloc[0] for _ in range(5)]
            ruled_out = other in out_of_order(schema.ordered[0], schema)[code]
            assert not (
                ruled_out and any(row["A"] < row["B"] or (row["A"] == row["B"] and not strict) for row in drawn)
            )


def test_numbers_of_one_bin_are_drawn_evenly_from_all_pairs_in_order():
    """The means of the sorted values of three uniform variables are 1/4, 1/2 and 3/4 of the width."""
    bins = {"lower": 0, "upper": 30, "edges": [0, 30], "decimals": 2}
    schema = Schema.from_dict({"columns": {"A": bins, "B": bins, "C": bins}, "rules": ["A <= B", "B <= C"]})
    rows = CodedTable(np.zeros((40_000, 3), dtype=np.uint8), schema).decode(np.random.default_rng(1))
    assert (rows["A"] <= rows["B"]).all()
    assert (rows["B"] <= rows["C"]).all()
    assert rows.mean().tolist() == pytest.approx([7.5, 15, 22.5], abs=0.15)


def test_a_strict_order_of_whole_numbers_has_no_ties():
    whole = {"lower": 0, "upper": 3, "integer": True, "edges": [0, 1, 3]}
    schema = Schema.from_dict({"columns": {"A": whole, "B": whole}, "rules": ["A < B"]})
    rows = CodedTable(np.zeros((500, 2), dtype=np.uint8), schema).decode(np.random.default_rng(2))
    assert rows.drop_duplicates().to_numpy().tolist() == [[0, 1]]


def test_the_order_of_the_raw_numbers_counts_not_that_of_bins():
    bins = {"lower": 0, "upper": 30, "edges": [0, 15, 30], "integer": True}
    schema = Schema.from_dict({"columns": {"A": bins, "B": bins}, "rules": ["A <= B"]})
    CodedTable.encode(pd.DataFrame({"A": [3], "B": [4]}), schema)
    with pytest.raises(InputError, match="breaks the rule 'A <= B' of schema"):
        CodedTable.encode(pd.DataFrame({"A": [4], "B": [3]}), schema)


def test_declared_bins_that_contradict_a_rule_are_structural_zeros():
    """The probability of these cells must be 0 in the model, also if one of the columns is a stratum."""
    bins, fine = {"lower": 0, "upper": 30, "edges": [0, 10, 20, 30]}, {"lower": 0, "upper": 30, "integer": True}
    schema = Schema.from_dict(
        {"columns": {"A": bins, "B": fine, "S": {"values": [1, 2]}}, "rules": ["A <= B or S == 2"]}
    )
    inside = schema.given({"A": 2})
    assert inside is not None
    assert inside.ordered == ()
    [zero] = inside.impossible
    assert dict(zip(zero.columns, zero.codes, strict=True)) == {"B": tuple(range(21)), "S": (0,)}


def test_a_schema_json_of_orders_that_no_rule_makes_is_refused():
    whole, unless = {"lower": 0, "upper": 9, "integer": True}, ("J", (0,))
    schema = Schema.from_dict(
        {"columns": {"A": whole, "B": whole, "J": {"values": [1, 2]}}, "rules": ["A <= B or J == 1"]}
    )
    plain = json.loads(json.dumps(asdict(schema)))
    assert Schema.from_plain(plain).ordered[0].unless == (unless,)
    for forged in (
        {"lower": "NONE"},
        {"lower": "J"},
        {"lower": "B"},
        {"unless": [["J", [2]]]},
        {"unless": [["X", []]]},
    ):
        with pytest.raises(InputError):
            Schema.from_plain(plain | {"ordered": [plain["ordered"][0] | forged]})
