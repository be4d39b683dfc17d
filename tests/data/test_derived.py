"""Tests of derived columns: each code has a single value, and ambiguous declarations raise an error."""

import json
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest

from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError

COLUMNS = {
    "AGE": {"lower": 0, "upper": 99, "integer": True, "codes": {-9: "refused"}, "missing": "own"},
    "PAY": {"lower": 0, "upper": 1000, "edges": [0, 500, 1000]},
    "BORN": {"type": "date", "lower": "2000-01-01", "upper": "2009-12-31"},
    "RACE": {"values": ["w", "b", "a"]},
}
DERIVED = {
    "GROUP": {"from": "AGE", "bins": [0, 14, 64, 99], "labels": ["child", "adult", "old"], "label": "Age group"},
    "RICH": {"from": "PAY", "bins": [0, 99.5, 1000]},
    "YEARS": {"from": "BORN", "bins": ["2000-01-01", "2004-12-31", "2009-12-31"]},
    "MINOR": {"from": "RACE", "groups": {"no": ["w"], "yes": ["b", "a"]}},
}


def test_released_rows_have_the_value_that_their_source_says():
    schema = Schema.from_dict({"columns": COLUMNS | DERIVED}, "people")
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(0, column.size, 3000) for column in schema.columns]).astype(np.uint16)
    rows = CodedTable(codes, schema).decode(rng)
    age = rows["AGE"].astype(float)
    expected = np.select([age == -9, age.isna(), age <= 14, age <= 64], ["refused", "missing", "child", "adult"], "old")
    assert rows["GROUP"].tolist() == expected.tolist()
    assert rows["RICH"].tolist() == np.where(rows["PAY"] <= 99.5, "0 to 99.5", "over 99.5 to 1000").tolist()
    early = rows["BORN"] <= "2004-12-31"
    assert rows["YEARS"].tolist() == np.where(early, "2000-01-01 to 2004-12-31", "2005-01-01 to 2009-12-31").tolist()
    assert rows["MINOR"].tolist() == np.where(rows["RACE"] == "w", "no", "yes").tolist()
    assert schema["PAY"].edges == (0.0, 99.5, 500.0, 1000.0)  # the bins are split so that each bin has a single value


def test_a_derived_column_is_of_no_table_and_of_no_model():
    plain, with_it = (Schema.from_dict({"columns": each}, "people") for each in (COLUMNS, COLUMNS | DERIVED))
    assert with_it.names == plain.names
    frame = pd.DataFrame([{"AGE": 3, "PAY": 1, "BORN": "2001-01-01", "RACE": "w"}])
    assert len(CodedTable.encode(frame, with_it)) == 1
    assert with_it.select(["AGE"]).published[1:] == (with_it.derived[0].column,)
    with pytest.raises(
        InputError, match="column 'GROUP' is derived from 'AGE' and is released with it; give 'AGE' instead"
    ):
        with_it.select(["GROUP"])


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"from": "NONE", "bins": [0, 1]}, "is derived from 'NONE', which is not a declared column"),
        ({"from": "AGE", "bins": [0, 14]}, "do not reach from 0 to 99, the bounds of 'AGE'"),
        ({"from": "AGE", "bins": [0, 64, 14, 99]}, "ascending edges (closed on the right)"),
        ({"from": "AGE", "bins": [0, 99, 120]}, "has a bin outside the bounds of 'AGE'"),
        ({"from": "AGE", "bins": [0, "x", 99]}, "edges that are numbers"),
        ({"from": "AGE", "groups": {"a": [1]}}, "needs 'bins' if its source has numbers"),
        ({"from": "AGE", "bins": [0, 14, 99], "labels": ["a"]}, "needs as many 'labels' as it has bins"),
        ({"from": "AGE", "bins": [0, 14, 99], "labels": ["a", "a"]}, "has two values with the same name"),
        ({"from": "AGE", "bins": [0, 14, 99], "labels": ["a", "refused"]}, "has two values with the same name"),
        ({"from": "AGE", "bins": [0, 14, 99], "labels": ["a", "NA"]}, "has the value 'NA', which is not a short text"),
        ({"from": "AGE", "bins": [0, 14, 99], "edges": [0]}, "edges"),
        ({"from": "BORN", "bins": [2000, 2010]}, 'edges that are dates, such as "2024-12-31"'),
        ({"from": "RACE", "bins": [0, 1]}, "'groups' if its source has listed values"),
        ({"from": "RACE", "groups": {"no": ["w"]}}, "has no group for the value 'b' of 'RACE'"),
        ({"from": "RACE", "groups": {"no": ["w", "b"], "yes": ["b", "a"]}}, "has 'b' in two groups"),
        ({"from": "RACE", "groups": {"no": ["w", "z"]}}, "has 'z' in the group 'no', which is not a value"),
    ],
)
def test_what_is_declared_unclearly_is_refused(declared, said):
    with pytest.raises(InputError) as refused:
        Schema.from_dict({"columns": COLUMNS | {"NEW": declared}}, "people")
    assert said in str(refused.value)


def test_bins_are_named_by_their_exact_ends():
    pay = {"lower": 0, "upper": 5_000_000, "integer": True}
    columns = {"PAY": pay, "GROUP": {"from": "PAY", "bins": [0, 1_234_567, 1_234_568, 5_000_000]}}
    [group] = Schema.from_dict({"columns": columns}).derived
    assert group.keys == ("0 to 1234567", "1234568 to 1234568", "1234569 to 5000000")


@pytest.mark.parametrize(
    ("key", "value"),
    [("default", ["PAY", "GROUP"]), ("target", "GROUP"), ("rules", ["GROUP == 'child' or PAY > 500"])],
)
def test_rules_and_defaults_name_the_source(key, value):
    with pytest.raises(
        InputError, match="names 'GROUP', which is derived from 'AGE' after drawing; name 'AGE' instead"
    ):
        Schema.from_dict({"columns": COLUMNS | DERIVED, key: value}, "people")


@pytest.mark.parametrize(
    "forged",
    [
        {"source": "NONE"},
        {"source": "RACE"},
        {"name": "RACE"},
        {"name": "RICH"},
        {"groups": [0]},
        {"groups": [7] * 102},
        {"groups": [-1] * 102},
        {"keys": []},
        {"keys": ["=1+1", "b", "c", "d", "e"]},
    ],
)
def test_a_schema_json_whose_derived_column_follows_from_nothing_is_refused(forged):
    document = json.loads(json.dumps(asdict(Schema.from_dict({"columns": COLUMNS | DERIVED}, "people"))))
    assert Schema.from_plain(document).derived
    document["derived"][0] |= forged
    with pytest.raises(InputError):
        Schema.from_plain(document)


@pytest.mark.parametrize("name", [5, "", " "])
def test_a_name_that_is_no_text_is_refused(name):
    with pytest.raises(InputError, match=r"not read as a text|without a name"):
        Schema.from_dict({"columns": COLUMNS | {name: DERIVED["GROUP"]}}, "people")


def test_a_name_that_is_taken_is_refused():
    with pytest.raises(InputError, match="derived"):
        Schema.from_dict({"columns": {"G": DERIVED["GROUP"]}}, "people")
    places = {"PUMA": {"within": "ST", "values": {1: [1, 2]}}, "AGE": COLUMNS["AGE"], "ST": DERIVED["GROUP"]}
    with pytest.raises(InputError, match="has the name of another column"):
        Schema.from_dict({"columns": places}, "people")
