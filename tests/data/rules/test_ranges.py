"""Tests of rules for ranges of values, with integers and real numbers at each of the edges."""

import math
import re

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from equistrata.data.rules.ranges import Bins
from equistrata.data.schema import Impossible, Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError

PEOPLE = """
columns:
  AGE: {lower: 0, upper: 120, edges: [0, 17, 39, 64, 120], integer: true, missing: own}
  MARITAL: {values: [1, 2, 3], labels: {1: married, 2: widowed, 3: never married}}
  JOB: {values: ["no", "yes"]}
  PAY: {lower: 0, upper: 1000, edges: [0, 100, 1000]}
  HOURS: {lower: 0, upper: 99, edges: [0, 20, 40, 99], integer: true, release: index}
impossible:
"""


def ruled(*rules):
    return Schema.from_dict(yaml.safe_load(PEOPLE + "".join(f"  - {rule}\n" for rule in rules)), "people.yaml")


def test_a_rule_cuts_the_bin_that_it_ends_in():
    schema = ruled('{AGE: "<15", MARITAL: [married, 2]}')
    assert schema["AGE"].edges == (0, 14, 17, 39, 64, 120)
    assert schema.impossible == (Impossible(("AGE", "MARITAL"), ((0,), (0, 1))),)
    assert schema.select(["AGE", "MARITAL"]).sizes == (6, 3)
    assert ruled('{AGE: "<18", MARITAL: married}')["AGE"].edges == (0, 17, 39, 64, 120)


@pytest.mark.parametrize(
    ("rule", "edges", "codes"),
    [
        ('"<=14"', (0, 14, 17, 39, 64, 120), (0,)),
        ('">64"', (0, 17, 39, 64, 120), (3,)),
        ('">=64"', (0, 17, 39, 63, 64, 120), (3, 4)),
        ('"15-24"', (0, 14, 17, 24, 39, 64, 120), (1, 2)),
        ('["<15", ">64"]', (0, 14, 17, 39, 64, 120), (0, 4)),
        ('"15"', (0, 14, 15, 17, 39, 64, 120), (1,)),
        ('"0"', (-1, 0, 17, 39, 64, 120), (0,)),  # the first bin is closed, so the bin for 0 begins below 0
        ("0", (0, 17, 39, 64, 120), (0,)),
        ("missing", (0, 17, 39, 64, 120), (4,)),
        ('["<14.5", missing]', (0, 14, 17, 39, 64, 120), (0, 5)),
        ('"100 - 1e3"', (0, 17, 39, 64, 99, 120), (4,)),
    ],
)
def test_forms_of_ranges(rule, edges, codes):
    schema = ruled(f'{{AGE: {rule}, JOB: "yes"}}')
    assert schema["AGE"].edges == edges
    assert schema.impossible[0].codes == (codes, (1,))


def test_indices_mean_the_declared_bins_whatever_other_rules_cut():
    schema = ruled('{AGE: "<15", JOB: "yes"}', "{AGE: [0, 2], MARITAL: 1}", "{AGE: 4, MARITAL: 1}")
    assert schema["AGE"].edges == (0, 14, 17, 39, 64, 120)
    assert [zero.codes[0] for zero in schema.impossible] == [(0,), (0, 1, 3), (5,)]
    schema = ruled('{AGE: "0", PAY: "<=0", JOB: "yes"}', "{AGE: [0, 2], MARITAL: 1}")
    assert [zero.codes[0] for zero in schema.impossible] == [(0,), (0, 1, 3)]
    assert schema["AGE"].words(0) == schema["PAY"].words(0) == "0"


BAD = {
    "{AGE: '15-', JOB: 'yes'}": "'15-' has an open end",
    "{AGE: '<', JOB: 'yes'}": "'<' has an open end",
    "{AGE: '24-15', JOB: 'yes'}": "ends before it begins",
    "{AGE: '<0', JOB: 'yes'}": "contains no number between the bounds 0 and 120",
    "{AGE: '>120', JOB: 'yes'}": "contains no number between the bounds 0 and 120",
    "{AGE: '14.2-14.8', JOB: 'yes'}": "contains no number between the bounds",
    "{AGE: young, JOB: 'yes'}": "'young' is not a range; write '<15'",
    "{AGE: [young], JOB: 'yes'} ": "(or 'missing')",
    "{AGE: 15, JOB: 'yes'}": "15 is not one of its 4 bins; write ranges of numbers in quotes",
    "{AGE: yes, JOB: 'yes'}": "True is neither a value nor a text",
    "{AGE: [[1]], JOB: 'yes'}": "[1] is neither a value nor a text",
    "{MARITAL: maried, JOB: 'yes'}": "'maried' is not a value of 'MARITAL'; it has married, widowed, never married",
    "{JOB: ['no', 'yes']}": "rules out every value of JOB; keep at least one of them possible",
    "{AGE: ['<200', missing]}": "rules out every value of AGE; keep at least one of them possible",
    "{HOURS: '<10', JOB: 'yes'}": "divides a bin of 'HOURS' at 9.0, but the column has 'release: index'; add 9.0",
    "{SEX: 1}": "unknown column 'SEX'",
}


@pytest.mark.parametrize("rule", BAD)
def test_rules_that_make_no_sense(rule):
    with pytest.raises(InputError, match=re.escape(BAD[rule])) as caught:
        ruled(rule)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
    assert caught.value.__cause__ is None


def test_an_index_column_may_be_ruled_where_it_is_cut_already():
    assert ruled("{HOURS: '>40', JOB: 'yes'}").impossible[0].codes == ((2,), (1,))


def test_too_many_bins_by_rules():
    rules = [f"{{PAY: '{n / 100}', JOB: 'yes'}}" for n in range(1, 6000)]
    with pytest.raises(InputError, match="bins of 'PAY' because of its rules; the maximum is 10,000"):
        ruled(*rules)


class Extreme:
    """A generator that always returns the first or the last possible value."""

    def __init__(self, last):
        self.last = last

    def random(self, count):
        return np.full(count, math.nextafter(1, 0) if self.last else 0.0)

    def integers(self, low, high, endpoint):
        assert endpoint
        assert (low <= high).all()
        return high if self.last else low


def holds(rule, number):
    """Return True if a number is in the range of a text. This is a slow reference implementation."""
    low, _, high = rule.partition("..")
    if high:
        return float(low) <= number <= float(high)
    sign = rule.rstrip("-.0123456789")
    end = float(rule.removeprefix(sign))
    return {"<": number < end, "<=": number <= end, ">": number > end, ">=": number >= end, "": number == end}[sign]


@st.composite
def cut_columns(draw):
    """Return a numeric column and ranges that are valid for `holds`."""
    integer = draw(st.booleans())
    edges = sorted(draw(st.lists(st.integers(-9, 9), min_size=3, max_size=6, unique=True)))
    half = 1 if integer else 2
    number = st.integers(half * edges[0], half * edges[-1]).map(lambda x: x / half)
    sided = st.tuples(st.sampled_from(["<", "<=", ">", ">=", ""]), number).map(lambda t: f"{t[0]}{t[1]:g}")
    between = st.tuples(number, number).map(sorted).map(lambda ends: f"{ends[0]:g}..{ends[1]:g}")
    spec = {"lower": edges[0], "upper": edges[-1], "edges": edges, "integer": integer}
    spec["release"] = draw(st.sampled_from(["draw", "midpoint"]))
    return spec, draw(st.lists(sided | between, min_size=1, max_size=3))


@given(cut_columns(), st.integers(0, 1000))
def test_no_released_row_breaks_a_rule_and_every_row_that_breaks_one_is_refused(case, seed):
    spec, ranges = case
    within = [n for n in _grid(spec) if spec["lower"] <= n <= spec["upper"]]
    ranges = [text for text in ranges if any(holds(text, number) for number in within)]
    rules = [{"x": text.replace("..", "-"), "y": "yes"} for text in ranges]
    document = {"columns": {"x": spec, "y": {"values": ["no", "yes"]}}, "impossible": rules}
    schema = Schema.from_dict(document)
    codes = np.array([(x, 1) for x in range(schema["x"].size) if not _ruled_out(schema, x)], dtype=np.uint8)
    table = CodedTable(np.repeat(codes.reshape(-1, 2), 3, axis=0), schema)
    for rng in (Extreme(False), Extreme(True), np.random.default_rng(seed)):
        for number in table.decode(rng)["x"]:
            assert not any(holds(rule, number) for rule in ranges)
    ends = [end for bins in (schema["x"].edges[:-1], schema["x"].edges[1:]) for end in bins]
    beside = [] if spec["integer"] else [math.nextafter(end, sign * math.inf) for end in ends for sign in (-1, 1)]
    numbers = [number for number in {*ends, *beside, *within} if spec["lower"] <= number <= spec["upper"]]
    good = [number for number in numbers if not any(holds(rule, number) for rule in ranges)]
    CodedTable.encode(pd.DataFrame({"x": good, "y": "yes"}), schema)
    for number in set(numbers) - set(good):
        with pytest.raises(InputError, match="impossible"):
            CodedTable.encode(pd.DataFrame({"x": [number], "y": ["yes"]}), schema)


def _grid(spec):
    """Return numbers of a column at which the result can change."""
    return [n / 4 for n in range(4 * spec["lower"], 4 * spec["upper"] + 1, 4 if spec["integer"] else 1)]


def _ruled_out(schema, x):
    return any(x in zero.codes[0] for zero in schema.impossible)


def test_bins_against_a_loop():
    bins = Bins((0.0, 3.5, 4.0, 9.0), 1, 8, integer=True)
    assert bins.ends == ([1, 4, 5], [3, 4, 8])
    for low in range(1, 9):
        for high in range(low, 9):
            edges = bins.cut([(low, high)])
            cut = Bins(edges, 1, 8, integer=True)
            firsts, lasts = cut.ends
            held = [n for place in cut.inside((low, high)) for n in range(int(firsts[place]), int(lasts[place]) + 1)]
            assert held == list(range(low, high + 1))
            assert len(edges) <= len(bins.edges) + 2
