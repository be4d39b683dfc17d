"""Tests of the report of cells that do not match the schema, with the advice for each of them."""

import numpy as np
import pandas as pd
import pytest
import yaml

from equistrata.data.misfits import Misfit, misfits, remedy
from equistrata.data.schema import Column, Impossible, Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError

PEOPLE = Schema(
    "people",
    (
        Column("AGE", lower=0, upper=99, edges=(0, 14, 99), integer=True),
        Column("JOB", values=("no", "yes"), missing="no"),
        Column("PAY", lower=0, upper=1000),
        Column("SEX", values=(1, 2)),
    ),
    impossible=(Impossible(("AGE", "JOB"), ((0,), (1,))),),
)
FRAME = pd.DataFrame(
    {
        "AGE": ["3", "3", "old", "old", "140", None, "-1", "50"],
        "JOB": ["yes", "no", "yes", "perhaps", "no", None, "Yes", "yes"],
        "PAY": ["1", None, "x", "2000", "3000", "2000", "0", "1e999"],
    }
)


@pytest.mark.parametrize("dtype", [object, "category"])
@pytest.mark.parametrize("rows", [1, 3, 8])
def test_what_of_a_table_does_not_fit(rows, dtype):
    frames = [FRAME.iloc[i : i + rows].astype(dtype) for i in range(0, len(FRAME), rows)]
    count, found = misfits(frames, PEOPLE, 20, averaged={"PAY"})
    assert count == 8
    assert {(*each.columns, each.fault): each for each in found} == {
        (*each.columns, each.fault): each
        for each in [
            Misfit(("SEX",), "no such column"),
            Misfit(("AGE",), "not numbers", 2, 1, ("old",)),
            Misfit(("AGE",), "out of bounds", 2, 2, ("140", "-1")),
            Misfit(("AGE",), "missing cells", 1),
            Misfit(("JOB",), "undeclared values", 2, 2, ("perhaps", "Yes"), near=True),
            Misfit(("PAY",), "not numbers", 2, 2, ("x", "1e999")),
            Misfit(("PAY",), "out of bounds", 3, 2, ("2000", "3000")),
            Misfit(("AGE", "JOB"), "impossible", 1, 1, ("AGE=3, JOB=yes",)),
        ]
    }
    assert all(each.values == () for each in misfits(frames, PEOPLE)[1])


def test_numbers_with_decimals_in_a_column_of_whole_ones():
    frame = pd.DataFrame({"AGE": ["4.5", "4.0", "99.5", "x", "14.25", None, "7"]})
    found = misfits([frame], PEOPLE.select(["AGE"]), 20)[1]
    assert Misfit(("AGE",), "not whole numbers", 2, 2, ("4.5", "14.25")) in found
    assert Misfit(("AGE",), "out of bounds", 1, 1, ("99.5",)) in found


def test_a_table_that_is_coded_has_no_misfits_and_one_that_is_refused_has_some():
    rng, schema = np.random.default_rng(0), PEOPLE.select(["AGE", "JOB", "SEX"])

    for _ in range(200):
        frame = pd.DataFrame(
            {
                "AGE": rng.choice([0, 14, 15.5, 99, 100], 2, p=[0.2, 0.35, 0.05, 0.35, 0.05]),
                "JOB": rng.choice(["no", "yes", "?"], 2, p=[0.5, 0.45, 0.05]),
                "SEX": rng.choice(np.array([1, 2, 3, None], dtype=object), 2, p=[0.5, 0.4, 0.05, 0.05]),
            }
        )
        found = misfits([frame], schema)[1]
        if found:
            with pytest.raises(InputError):
                CodedTable.encode(frame, schema)
        else:
            CodedTable.encode(frame, schema)


def test_distinct_values_are_counted_up_to_a_bound(monkeypatch):
    monkeypatch.setattr("equistrata.data.misfits.MOST_DISTINCT", 5)
    frame = pd.DataFrame({"SEX": range(10, 30)})
    assert misfits([frame, frame], PEOPLE.select(["SEX"])) == (40, [Misfit(("SEX",), "undeclared values", 40, 5)])


REMEDIES = """
file: {decimal: ","}
columns:
  sex: {values: [0, 1]}
  job: {values: ["a", "b"]}
  kind: {values: open}
  age: {lower: 0, upper: 110, integer: true}
  born: {type: date, format: "%d.%m.%Y", lower: "2000-01-01", upper: "2020-12-31"}
impossible: [{age: "<5", sex: 1}]
"""


@pytest.mark.parametrize(
    ("column", "fault", "said"),
    [
        ("sex", "missing cells", "declare missing: -1, and add -1 to 'values'"),
        ("job", "missing cells", 'declare missing: "missing", and add "missing" to \'values\''),
        ("kind", "missing cells", 'declare missing: "missing"'),
        ("age", "missing cells", "declare missing: own"),
        ("sex", "undeclared values", "'recode'"),
        (
            "age",
            "not numbers",
            'codes: {N: "not asked"}; if the file uses another decimal sign, declare file: {decimal: "."}, and',
        ),
        ("age", "not whole numbers", "remove 'integer: true'"),
        ("age", "out of bounds", "widen 'lower' and 'upper'"),
        ("born", "not dates", "(now %d.%m.%Y)"),
        ("age", "impossible", "remove the rule from 'impossible'"),
        ("sex", "no such column", "the header line has 'Sex ' instead of 'sex'; use the same spelling in both"),
        ("job", "no such column", "remove it from 'columns' and 'default'"),
    ],
)
def test_each_fault_says_what_to_write(column, fault, said):
    schema = Schema.from_dict(yaml.safe_load(REMEDIES), "people.yaml")
    assert said in remedy(Misfit((column,), fault), schema, ["Sex ", "canary"])
    assert "canary" not in remedy(Misfit((column,), fault), schema, ["Sex ", "canary"])


@pytest.mark.parametrize("cell", ["x\ny", "x  y ", "X y"])
def test_a_value_that_is_declared_except_for_blanks_line_breaks_or_case_is_said(cell):
    schema = Schema.from_dict({"columns": {"a": {"values": ["x y", "z"]}}}, "people.yaml")
    (found,) = misfits([pd.DataFrame({"a": [cell, "z", "other"]})], schema)[1]
    assert "differ from declared values only in blanks, line breaks, case or leading zeros" in remedy(found, schema)
    (found,) = misfits([pd.DataFrame({"a": ["other", "z"]})], schema)[1]
    assert "differ" not in remedy(found, schema)


def told(cells, spec, file="{}"):
    schema = Schema.from_dict(yaml.safe_load(f"file: {file}\ncolumns: {{a: {spec}}}"), "people.yaml")
    (found,) = misfits([pd.DataFrame({"a": cells})], schema)[1]
    return remedy(found, schema)


def test_how_a_file_may_write_numbers_is_never_guessed():
    said = told(["1.234,50 €", "17,25 €"], "{lower: 0, upper: 9999}", '{delimiter: ";"}')
    assert said.startswith("list texts such as N")
    assert 'file: {decimal: ","}, and also thousands' in said
    assert told(["1.234", "12.5"], "{lower: 0, upper: 99999, integer: true}") == "remove 'integer: true'"


def test_dates_in_another_layout_or_in_two():
    spec = '{type: date, lower: "2020-01-01", upper: "2020-12-31"}'
    said = told(["2020-01-05", "05.01.2020"], spec)
    assert said.startswith('declare the format of the file with format: ["%Y-%m-%d", "%d.%m.%Y"] (now %Y-%m-%d)')
    said = told(["15.01.2020", "05.01.2020"], spec)  # none of the dates has the declared format
    assert said.startswith('declare the format of the file with format: "%d.%m.%Y" (now %Y-%m-%d)')
    assert told(["soon", "later"], spec).startswith('declare the format of the file, such as format: "%d.%m.%Y" (now')


@pytest.mark.parametrize("declared", ["%d/%m/%Y", "%Y-%m-%d"])
def test_days_that_may_be_months_are_advised_in_one_layout(declared):
    column = {"type": "date", "format": declared, "lower": "2000-01-01", "upper": "2020-12-31"}
    cells = [f"{day:%m/%d/%Y}" for day in pd.date_range("2004-01-01", "2004-12-31")]
    said = told(cells, column)
    assert said.startswith(f'declare the format of the file with format: "%m/%d/%Y" (now {declared})'), said
    # If a file contains both formats, neither format can parse all of the dates. A schema with both formats raises an
    # error.
    mixed = told([*cells, "31/12/2004", "2004-05-06"], column)
    given = mixed.partition("format: ")[2].partition(" (now")[0]
    Schema.from_dict({"columns": {"DAY": column | {"format": yaml.safe_load(given)}}}, "people")


@pytest.mark.parametrize("spec", ['{type: date, lower: "2020-01-01", upper: "2020-12-31"}', "{lower: 0, upper: 1440}"])
def test_times_of_day_are_no_type_and_what_to_write_instead_is_said(spec):
    said = told(["08:30", "23:59:10", "soon"], spec)
    assert said.startswith("each is a time of day, which is not supported; write it into the file as minutes")


@pytest.mark.parametrize("spec", ["{lower: 0, upper: 9999}", "{type: date, lower: 2020-01-01, upper: 2020-12-31}"])
@pytest.mark.parametrize("dtype", ["category", "object"])
def test_blanks_alone_are_an_absent_number_or_date(spec, dtype):
    """A well-known table of telephone customers contains such cells."""
    day = "2020-05-01" if "date" in spec else "52.5"
    frame = pd.DataFrame({"a": pd.Series([day, " ", "\t ", None], dtype=dtype)})
    document = yaml.safe_load(f"columns: {{a: {spec}}}") if "date" not in spec else {
        "columns": {"a": {"type": "date", "lower": "2020-01-01", "upper": "2020-12-31"}}
    }  # fmt: skip
    (found,) = misfits([frame], Schema.from_dict(document, "people.yaml"))[1]
    assert (found.fault, found.cells) == ("missing cells", 3)
    document["columns"]["a"]["missing"] = "own"
    schema = Schema.from_dict(document, "people.yaml")
    assert misfits([frame], schema)[1] == []
    codes = CodedTable.encode(frame, schema).column("a")
    assert codes[0] < schema["a"].bins
    assert set(codes[1:].tolist()) == {schema["a"].size - 1}


def test_numbers_that_only_rounding_puts_beyond_a_bound_are_no_misfits():
    """A release accepts these numbers. For example, 9 · 0.001 is greater than 0.009."""
    schema = Schema("s", (Column("X", lower=0, upper=0.009),))
    assert 9 * 0.001 > 0.009
    count, found = misfits([pd.DataFrame({"X": [9 * 0.001, 0.0091]})], schema, 20)
    assert (count, [(each.fault, each.cells) for each in found]) == (2, [("out of bounds", 1)])


def test_what_is_wrong_with_a_survey_weight_is_not_mended_in_the_schema():
    schema = Schema.from_dict({"columns": {"A": {"values": [1]}}, "survey_weight": {"column": "W", "upper": 9}})
    for cell, fault in ((-1.0, "out of bounds"), (None, "missing cells")):
        frame = pd.DataFrame({"A": [1, 1], "W": [99.0, cell]})
        _, (found,) = misfits([frame], schema)
        assert (found.fault, found.cells) == (fault, 1)
        assert remedy(found, schema).startswith("each row needs a weight of at least 0, so correct these cells")
        with pytest.raises(InputError, match=r"'W', the survey weight, .*; each row needs a weight"):
            CodedTable.encode(frame, schema)
