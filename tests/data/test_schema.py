"""Tests of schemas: the YAML file, the error for each mistake, and the operations on schemas."""

import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, replace

import numpy as np
import pytest
import yaml

from equistrata.data.columns.grid import add_bound_bins, fine_edges
from equistrata.data.declaration import built_in_schemas
from equistrata.data.schema import Column, Impossible, Schema
from equistrata.errors import InputError

GOOD = """
name: people
target: job
default: [age, sex, job]
columns:
  age: {lower: 0, upper: 99, edges: [0, 19, 99], integer: true, missing: own, release: index}
  sex: {values: [1, 2]}
  job: {values: [0, 1], recode: {1: 1}, others: 0, missing: 0}
  pay: {lower: 0, upper: 1000, sigma: 50}
impossible:
  - {age: 0, job: [1]}
"""


@pytest.fixture
def people():
    return Schema.from_dict(yaml.safe_load(GOOD), "people.yaml")


def test_reads_what_a_file_declares(tmp_path, people):
    path = tmp_path / "people.yaml"
    path.write_text(GOOD, "utf-8")
    schema = Schema.load(path)
    assert schema == people
    assert schema.names == ("age", "sex", "job", "pay")
    assert schema.selected().sizes == (3, 2, 2)
    assert schema["age"].keys == (0, 1, 2)
    assert schema["job"].keys == (0, 1)
    assert schema["pay"].sigma == 50
    assert (schema["pay"].fine, schema["age"].fine, schema["sex"].fine) == (True, False, False)
    assert schema.impossible == (Impossible(("age", "job"), ((0,), (1,))),)
    assert schema.target == "job"


@pytest.mark.parametrize("name", built_in_schemas())
def test_built_in_schemas_load(name):
    schema = Schema.load(name)
    assert schema.selected().names == (schema.default or schema.names)


def column(text):
    return f"columns:\n  x: {text}\n"


BAD = {
    "not YAML": ("columns: [", "not valid YAML at line"),
    "a date that is none": ("columns: {x: {values: [2020-13-45]}}", "not valid YAML"),
    "a tag": ("columns: !!python/object:os.system {}", "not valid YAML"),
    "empty": ("", "mapping 'columns'"),
    "a list": ("- 1", "mapping 'columns'"),
    "no columns": ("columns: {}", "mapping 'columns'"),
    "columns as a list": ("columns: [x]", "mapping 'columns'"),
    "labels of no value": (column("{values: [1], labels: {2: two}}"), "a label for 2, which is not one of its values"),
    "labels that are no words": (column("{values: [1], labels: {1: 1}}"), "'labels' to be a mapping"),
    "labels of bins": (column("{lower: 0, upper: 9, edges: [0, 9], labels: {0: few}}"), "has 'labels', but bins"),
    "a survey weight that is not filled in": (column("{values: [1]}") + "survey_weight:", "needs 'survey_weight' as"),
    "unknown key": (column("{values: [1]}") + "colour: red", "unknown key 'colour'"),
    "unknown column key": (column("{values: [1], vallues: [2]}"), "unknown key 'vallues'"),
    "default of no column": (column("{values: [1]}") + "default: [y]", "unknown column 'y'"),
    "default not a list": (column("{values: [1]}") + "default: x", "'default' to be a list"),
    "default a number": (column("{values: [1]}") + "default: 5", "'default' to be a list"),
    "target of no column": (column("{values: [1]}") + "target: y", "unknown column 'y'"),
    "no declaration": (column(""), "needs a mapping with 'values'"),
    "neither kind": (column("{label: a}"), "needs either 'values'"),
    "both kinds": (column("{values: [1], lower: 0, upper: 1}"), "needs either 'values'"),
    "lower alone": (column("{lower: 0}"), "needs either 'values'"),
    "values not a list": (column("{values: 3}"), "list of distinct values"),
    "no values": (column("{values: []}"), "list of distinct values"),
    "a value twice": (column("{values: [1, 2, 1.0]}"), "list of distinct values"),
    "mixed values": (column("{values: [1, a]}"), "both numbers and texts"),
    "unquoted yes": (column("{values: [yes, no]}"), "so quote them"),
    "null value": (column("{values: [1, null]}"), "both numbers and texts"),
    "nan value": (column("{values: [1, .nan]}"), "both numbers and texts"),
    "infinite value": (column("{values: [1, .inf]}"), "both numbers and texts"),
    "date value": (column("{values: [2020-01-01]}"), "both numbers and texts"),
    "list value": (column("{values: [[1], [2]]}"), "both numbers and texts"),
    "recode not a mapping": (column("{values: [1], recode: [1]}"), "'recode' to be a mapping"),
    "recode to nothing": (column("{values: [1], recode: {2: null}}"), "maps 2 to None"),
    "recode to an undeclared value": (column("{values: [1], recode: {2: 3}}"), "maps 2 to 3"),
    "recode of nothing": (column("{values: [1], recode: {null: 1}}"), "keys of 'recode'"),
    "others undeclared": (column("{values: [1], others: 3}"), "maps 'others' to 3"),
    "missing undeclared": (column("{values: [1], missing: 3}"), "maps 'missing' to 3"),
    "recode and others unclear": (
        column("{values: [1, 2, 9], recode: {3: 2}, others: 9}"),
        "which value a raw 1 becomes",
    ),
    "bounds not numbers": (column("{lower: a, upper: 1}"), "finite numbers"),
    "bounds true": (column("{lower: true, upper: 2}"), "finite numbers"),
    "infinite bounds": (column("{lower: 0, upper: .inf}"), "finite numbers"),
    "nan bounds": (column("{lower: .nan, upper: 1}"), "finite numbers"),
    "bounds the wrong way": (column("{lower: 2, upper: 1}"), "less than 'upper'"),
    "equal bounds": (column("{lower: 1, upper: 1}"), "less than 'upper'"),
    "edges a number": (column("{lower: 0, upper: 9, edges: 5}"), "finite numbers"),
    "one edge": (column("{lower: 0, upper: 9, edges: [0]}"), "at least two ascending"),
    "edges fall": (column("{lower: 0, upper: 9, edges: [0, 5, 4, 9]}"), "at least two ascending"),
    "an edge twice": (column("{lower: 0, upper: 9, edges: [0, 5, 5, 9]}"), "at least two ascending"),
    "edges too narrow": (column("{lower: 0, upper: 9, edges: [0, 8]}"), "do not reach"),
    "a bin below the bounds": (column("{lower: 6, upper: 9, edges: [0, 5, 9]}"), "outside 'lower' and 'upper'"),
    "a bin above the bounds": (column("{lower: 0, upper: 9, edges: [0, 9, 12]}"), "outside 'lower' and 'upper'"),
    "bin without a whole number": (
        column("{lower: 0, upper: 9, edges: [0, 0.2, 0.8, 9], integer: true}"),
        "contains no whole number",
    ),
    "unknown release": (column("{lower: 0, upper: 9, edges: [0, 9], release: raw}"), "index, draw or midpoint"),
    "missing out of bounds": (column("{lower: 1, upper: 9, edges: [1, 9], missing: 0}"), "'own' or a number"),
    "missing a word": (column("{lower: 1, upper: 9, edges: [1, 9], missing: none}"), "'own' or a number"),
    "missing a list": (column("{lower: 1, upper: 9, edges: [1, 9], missing: [1]}"), "'own' or a number"),
    "negative sigma": (column("{lower: 1, upper: 9, sigma: -1}"), "positive number"),
    "mean a number": (column("{lower: 1, upper: 9, mean: 5}"), "two ascending numbers"),
    "mean the wrong way": (column("{lower: 1, upper: 9, mean: [5, 4]}"), "two ascending numbers"),
    "a label that is no text": (column("{values: [1], label: [a]}"), "'label' to be a text"),
    "a name that is no text": ("name: [a]\n" + column("{values: [1]}"), "'name' to be a text"),
    "a column twice": (
        "columns:\n  x: {values: [1]}\n  x: {values: [2]}\n",
        "the key 'x' twice, the second time at line 3",
    ),
    "a key of a column twice": (column("{values: [1], values: [2]}"), "the key 'values' twice"),
    "a raw value twice": (column("{values: [1], recode: {2: 1, 2.0: 1}}"), "the key 2.0 twice"),
    "a column named yes": ("columns: {yes: {values: [1]}}", "the column name True, which"),
    "a column named by a number": ("columns: {2018: {values: [1]}}", "the column name 2018, which"),
    "a column without a name": ("columns: {'': {values: [1]}}", "a column without a name; name it here"),
    "codes with leading zeros": (
        column("{values: [001, 010]}"),
        "'001' at line 2, which YAML may read as another number",
    ),
    "integer a text": (column("{lower: 0, upper: 9, integer: 'no'}"), "'integer' to be true or false"),
    "a number beyond all floats": (column("{lower: 0, upper: 1" + "0" * 400 + "}"), "finite numbers"),
    "values that are one number": (column("{values: [1, 1.0]}"), "list of distinct values"),
    "values without exact digits": (column(f"{{values: [{2.0**53!r}, 1]}}"), "too many digits to be exact; quote all"),
    "values of more than 64 bits": (column(f"{{values: [{2**63}, 1]}}"), "too many digits to be exact; quote all"),
    "a blank value": (column("{values: ['a', ' ']}"), "has a blank among 'values', which means a missing cell"),
    "a value that CSV does not give back": (column('{values: ["a\\rb"]}'), "has a carriage return in"),
    "recode of one key twice": (column("{values: [1], recode: {'2': 1, 2: 1}}"), "the same key twice in 'recode'"),
    "too many values": (column(f"{{values: {list(range(10_001))}}}"), "has 10,001 values; the maximum is 10,000"),
    "too many bins": (
        column(f"{{lower: 0, upper: 10001, edges: {list(range(10_002))}}}"),
        "has 10,001 bins; the maximum is 10,000",
    ),
    "too many columns": (
        "columns:\n" + "".join(f"  c{n}: {{values: [1]}}\n" for n in range(1001)),
        "declares 1,001 columns; the limit is 1,000",
    ),
    "impossible not a list": (column("{values: [1]}") + "impossible: 5", "'impossible' to be a list"),
    "impossible not a mapping": (column("{values: [1]}") + "impossible: [5]", "map columns to lists"),
    "impossible column unknown": (column("{values: [1]}") + "impossible: [{y: [1]}]", "unknown column 'y'"),
    "impossible value unknown": (column("{values: [1]}") + "impossible: [{x: [2]}]", "2 is not a value of 'x'"),
    "an index of no bins": (
        column("{lower: 0, upper: 1, release: index}"),
        "has 'release: index', which needs 'edges'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_each_mistake_is_told_in_one_sentence(case, tmp_path):
    text, told = BAD[case]
    path = tmp_path / "bad.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match=re.escape(told)) as caught:
        Schema.load(path)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 300 + len(str(path))
    assert caught.value.__cause__ is None


def test_files_that_are_not_there_or_not_text(tmp_path):
    with pytest.raises(
        InputError, match="no schema named 'nope'; give the path of a YAML file or one of acs_2017, acs_2018"
    ):
        Schema.load("nope")
    with pytest.raises(InputError, match="cannot be read"):
        Schema.load(tmp_path / "nope.yaml")
    with pytest.raises(InputError, match="is a folder, a pipe or a device"):
        Schema.load(tmp_path)
    path = tmp_path / "latin.yaml"
    path.write_bytes("columns: {größe: {values: [1]}}".encode("latin-1"))
    with pytest.raises(InputError, match="not UTF-8"):
        Schema.load(path)


def test_text_values_may_be_recoded_from_numbers_and_numbers_from_text():
    schema = Schema.from_dict(yaml.safe_load(column("{values: [f, m], recode: {1: m, 2: f}}")))
    assert schema["x"].recode == ((1, "m"), (2, "f"))
    Schema.from_dict(yaml.safe_load(column("{values: [1, 2], recode: {m: 1, f: 2}}")))


def test_select_keeps_order_and_whole_zeros(people):
    some = people.select(["job", "age"])
    assert some.names == ("job", "age")
    assert some.impossible == people.impossible
    assert some.target == "job"
    fewer = people.select(["sex", "age"])
    assert fewer.impossible == ()
    assert fewer.target is None
    with pytest.raises(InputError, match="name at least one"):
        people.select([])
    with pytest.raises(InputError, match="twice"):
        people.select(["sex", "sex"])
    with pytest.raises(InputError, match="unknown column 'race'"):
        people.select(["race"])


def test_a_column_of_bounds_alone_has_fine_bins(people):
    edges = fine_edges(*people["pay"].bounds, "rounded")
    assert people["pay"].cuts == add_bound_bins(edges, *people["pay"].bounds, digits=None)
    assert people.sizes[-1] == people["pay"].bins > 100


def scaled(text):
    """Return the scale and the number of bins of a numeric column."""
    found = Schema.from_dict(yaml.safe_load(f"columns: {{x: {{{text}}}}}"))["x"]
    return found.scale, found.bins


def test_the_scale_of_fine_bins_is_declared_or_follows_from_the_bounds():
    assert scaled("lower: 0, upper: 1_000_000") == ("rounded", 462)
    assert scaled("lower: 0, upper: 1_000_000, scale: linear") == (None, 1002)
    assert scaled("lower: 10, upper: 80") == (None, 702)
    assert scaled("lower: 10, upper: 80, scale: logarithmic") == ("rounded", 73)
    assert scaled("lower: 0, upper: 1_000_000, integer: true") == ("rounded", 462)
    assert scaled("lower: 20230101, upper: 20241231, integer: true") == ("linear", 559)
    assert scaled("lower: 20230101, upper: 20241231, integer: true, scale: logarithmic") == ("rounded", 3)
    assert scaled("lower: 0, upper: 1_000_000, edges: [0, 10, 1_000_000]") == (None, 2)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("lower: 0, upper: 9, scale: log", "needs 'scale' to be linear or logarithmic"),
        ("lower: 0, upper: 9, edges: [0, 9], scale: linear", "which both define its bins"),
        (
            "type: date, lower: 2020-01-01, upper: 2021-01-01, scale: linear",
            "has 'scale', which is not allowed for dates",
        ),
        ("lower: 0, upper: 9, decimals: -1", "needs 'decimals' to be a whole number from 0 to 15"),
        ("lower: 0, upper: 9, decimals: true", "needs 'decimals' to be a whole number from 0 to 15"),
        ("lower: 0, upper: 9, integer: true, decimals: 1", "has 'decimals', but it does not release"),
    ],
)
def test_a_scale_or_decimals_that_make_no_sense_are_refused(text, told):
    with pytest.raises(InputError, match=told):
        scaled(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("lower: 0, upper: 9, integer: true, positive: 5", "to be the numbers above a number between its bounds"),
        ("lower: 0, upper: 9, integer: true, positive: '<5'", "to be the numbers above a number between its bounds"),
        ("lower: 0, upper: 9, integer: true, positive: '>9'", "to be the numbers above a number between its bounds"),
        ("lower: 0, upper: 9, edges: [0, 4, 9], positive: '>5'", "to be the numbers above one of its 'edges'"),
        ("lower: 0, upper: 9, positive: '>5'", "has 'positive', which also needs 'edges'"),
        ("lower: 0, upper: 9, edges: [0, 4, 9], release: index, positive: '>4'", "cannot have 'positive'"),
        ("values: [0, 1], positive: true", "to be one of its values"),
        ("values: ['a', 'b'], positive: c", "to be one of its values"),
        ("values: open, positive: a", "has 'values: open'"),
    ],
)
def test_what_cannot_be_positive_is_refused(text, told):
    with pytest.raises(InputError, match=told):
        scaled(text)


def test_a_schema_without_a_scale_keeps_its_bins_and_its_digest():
    """The `schema.json` of an earlier release has no scale, so it has 1,000 bins of equal width and the same digest."""
    column = Column("x", lower=0.0, upper=1e6, release="draw")
    plain = json.loads(json.dumps(asdict(Schema("one", (column,)))))
    del plain["columns"][0]["scale"], plain["columns"][0]["bounds_apart"]
    before = Schema.from_plain(plain)
    assert before["x"].bins == 1000
    assert before.digest == "8662da216b6d76f720e779c13390d57041ea94e76ed13db6a32f9f999fc1bfb1"
    for more in ({"scale": "logarithmic"}, {"bounds_apart": True}):
        assert replace(before, columns=(replace(before["x"], **more),)).digest != before.digest
    few = Column("x", lower=0.0, upper=99.0, integer=True, release="draw")  # each number has a bin
    assert few.coding == replace(few, bounds_apart=False).coding


def test_coded_declares_released_rows(people):
    coded = people.selected().coded()
    assert coded["job"] == Column("job", values=(0, 1))
    assert coded["age"].size == people["age"].size  # the bins and the category for missing values
    assert coded.coded() == coded
    plain = Schema.load("acs_employment").selected()
    assert plain.coded().sizes == plain.sizes
    assert plain.coded()["AGEP"].values == (0, 1, 2, 3, 4)


def test_given_shrinks_rules_out_and_refuses(people):
    schema = people.selected()
    assert schema.given({"age": 0}).impossible == (Impossible(("job",), ((1,),)),)
    assert schema.given({"age": 1}).impossible == ()
    assert schema.given({"sex": 0}).impossible == schema.impossible
    assert schema.given({"age": 0, "job": 1}) is None
    assert schema.given({"age": 0}).names == ("sex", "job")


def test_given_agrees_with_the_whole_table_of_possible_cells():
    schema = Schema.load("acs_employment").select(["AGEP", "MIL", "DREM", "MAR", "ESR", "DIS"])
    possible = possible_cells(schema)
    for age in range(5):
        for mil in range(5):
            rest = schema.given({"AGEP": age, "MIL": mil})
            inside = possible[age, mil]
            if rest is None:
                assert not inside.any()
            else:
                assert np.array_equal(possible_cells(rest), inside)


def possible_cells(schema):
    cells = np.ones(schema.sizes, dtype=bool)
    for codes in np.ndindex(*schema.sizes):
        for zero in schema.impossible:
            if all(codes[schema.index(n)] in listed for n, listed in zip(zero.columns, zero.codes, strict=True)):
                cells[codes] = False
    return cells


def test_zero_mask(people):
    mask = people.zero_mask(people.impossible[0])
    assert mask.tolist() == [[False, True], [False, False], [False, False]]


def test_digest_is_the_same_in_another_process_and_changes_with_the_declaration(people, repo_root):
    code = "from equistrata.data.schema import Schema; print(Schema.load('acs_employment').digest)"
    # The order of sets is different from the order in this process.
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=repo_root, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True
    )
    assert run.stdout.strip() == Schema.load("acs_employment").digest
    assert re.fullmatch("[0-9a-f]{64}", people.digest)
    others = [
        GOOD.replace("[1, 2]", "[2, 1]"),
        GOOD.replace("19", "20"),
        GOOD.replace("missing: own", "missing: 0"),
        GOOD.replace("recode: {1: 1}", "recode: {1: 1, 6: 1}"),
        GOOD.replace("age: 0, job", "age: 1, job"),
    ]
    digests = {Schema.from_dict(yaml.safe_load(text)).digest for text in others}
    assert len(digests | {people.digest}) == 6


def test_words_for_values_code_no_row(people):
    with_labels = Schema.from_dict(
        yaml.safe_load(GOOD.replace("values: [1, 2]", "values: [1, 2], labels: {2: Female}"))
    )
    assert with_labels["sex"].words(2) == "Female"
    assert with_labels["sex"].words(1) == "1"
    assert with_labels.digest == people.digest


@pytest.mark.parametrize("name", ["acs_employment", "acs_records", "acs_means"])
def test_a_schema_comes_back_from_the_file_in_a_release(name):
    schema = Schema.load(name)
    for each in (schema, schema.selected(), schema.coded()):
        back = Schema.from_plain(json.loads(json.dumps(asdict(each))))
        assert back == each
        assert back.digest == each.digest


@pytest.mark.parametrize("document", [None, [], {}, {"columns": 3}, {"columns": [{"nome": "x"}], "impossible": []}])
def test_what_is_no_schema_file_of_a_release_is_refused(document):
    with pytest.raises(InputError, match=r"schema\.json (is no mapping|lacks|has)"):
        Schema.from_plain(document)


def test_where_a_mean_lies_is_declared_or_follows_from_the_bounds():
    assert Column("PAY", lower=0.0, upper=9.0).mean_bounds == (0.0, 9.0)
    assert Column("PAY", lower=0.0, upper=9.0, mean=(2.0, 3.0)).mean_bounds == (2.0, 3.0)
    with pytest.raises(InputError, match="'PAY' has no bounds"):
        _ = Column("PAY", values=(1, 2)).mean_bounds


@pytest.mark.parametrize("name", built_in_schemas())
def test_built_in_schemas_have_words_for_each_value(name):
    for column in Schema.load(name).columns:
        assert column.label
        if column.values is not None:
            assert set(dict(column.labels)) == set(column.values), column.name


def test_a_key_of_another_version_in_schema_json_names_where_its_version_is_told():
    """The key `negative` was used for columns until 2026-11-28. If the key were ignored, the rows
    would be different.
    """
    plain = json.loads(json.dumps(asdict(Schema.from_dict({"columns": {"A": {"lower": 0, "upper": 9}}}, "people"))))
    assert Schema.from_plain(plain).names == ("A",)
    plain["columns"][0]["negative"] = False
    said = "has the key 'negative', which this version does not know; read it with the version that made it"
    with pytest.raises(InputError, match=said):
        Schema.from_plain(plain)
    before = {key: value for key, value in plain.items() if key not in ("ordered", "derived")}
    del before["columns"][0]["negative"]
    assert Schema.from_plain(before).ordered == ()
