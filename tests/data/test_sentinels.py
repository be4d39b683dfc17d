"""Tests of codes in a numeric column, which are categories and are not included in a mean."""

import re

import numpy as np
import pandas as pd
import pytest
import yaml

from equistrata.data.columns.cells import bounded_numbers, numbers
from equistrata.data.misfits import misfits
from equistrata.data.schema import Schema
from equistrata.data.snapshot import Snapshot
from equistrata.data.sources import FileSource
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.flows.release.writer import row_files
from equistrata.synth.models.columns.merging import merge_codes

TEXT = "{lower: 0, upper: 99, edges: [0, 30, 99], integer: true, missing: own, codes: {N: not applicable, -9: refused}}"
NUMBERS = "{lower: 0, upper: 98, edges: [0, 30, 98], integer: true, codes: {-9: refused, 99: unknown}}"
KINDS = {
    "text": TEXT,
    "text, not missing": TEXT.replace("missing: own, ", ""),
    "numbers": NUMBERS,
    "real": NUMBERS.replace("integer: true", "missing: own"),
    "midpoint": NUMBERS.replace("integer: true", "release: midpoint"),
    "index": NUMBERS.replace("integer: true", "release: index, missing: own"),
    "index, not missing": NUMBERS.replace("integer: true", "release: index"),
    "text index": TEXT.replace("integer: true", "release: index"),
}


def schema_of(spec, rest=""):
    return Schema.from_dict(yaml.safe_load(f"columns:\n  hours: {spec}\n  job: {{values: ['no', 'yes']}}\n{rest}"))


def coded(schema, cells, dtype=object):
    frame = pd.DataFrame({"hours": pd.Series(cells, dtype=dtype), "job": "no"})
    return CodedTable.encode(frame, schema).column("hours").tolist()


def test_codes_are_categories_after_the_bins_and_missing_is_last():
    schema = schema_of(TEXT)
    column = schema["hours"]
    assert column.size == 5
    assert [column.words(key) for key in column.keys] == [
        "0 to 30",
        "over 30 to 99",
        "not applicable",
        "refused",
        "missing",
    ]
    cells = ["12", "N", "-9", "-9.0", None, "31", -9, 12.0]
    assert coded(schema, cells) == [0, 2, 3, 3, 4, 1, 3, 0]
    assert coded(schema, cells[:6], "category") == [0, 2, 3, 3, 4, 1]
    assert coded(schema_of(NUMBERS), [-9, 99, 98], "int64") == [2, 3, 1]
    assert coded(schema_of(NUMBERS), [-9.0, 99.0, 98.0]) == [2, 3, 1]
    assert coded(schema_of(TEXT.replace("-9", "'-9'")), ["-9.0", -9, "N"]) == [3, 3, 2]


def test_an_absent_cell_may_count_as_a_code():
    schema = schema_of(NUMBERS.replace("codes", "missing: -9, codes"))
    assert coded(schema, [None, -9, 3]) == [2, 2, 0]


@pytest.mark.parametrize("cells", [["n"], ["N "], [-8], ["100"], [[1]], ["refused"]])
def test_what_is_no_code_is_refused_without_being_quoted(cells):
    with pytest.raises(InputError, match=r"not a number|outside its declared bounds") as caught:
        coded(schema_of(TEXT), [1, *cells])
    assert "refused" not in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_released_rows_come_back_from_both_files(kind, tmp_path):
    schema = schema_of(KINDS[kind])
    rng = np.random.default_rng(0)
    codes = rng.integers(0, schema.sizes, (400, 2)).astype(np.uint8)
    table = CodedTable(codes, schema)
    with row_files(tmp_path) as write:
        for start in (0, 200):
            write(table.take(slice(start, start + 200)).decode(rng))
    for name in ("synthetic.parquet", "synthetic.csv"):
        source = FileSource(str(tmp_path / name))
        frames = [*source.batches(schema.names), source.read(schema.names)]
        for frame in frames[:-1], frames[-1:]:
            again = CodedTable.concatenate([CodedTable.encode(each, schema.coded()) for each in frame])
            assert again.codes.tolist() == table.codes.tolist()
    assert schema.coded().coded() == schema.coded()


@pytest.mark.parametrize(
    ("kind", "dtype"), [("text", "string"), ("numbers", "Int64"), ("real", "float64"), ("index", "Int64")]
)
def test_the_type_of_a_released_column_follows_from_the_declaration_alone(kind, dtype):
    schema = schema_of(KINDS[kind])
    for code in range(schema["hours"].size):
        table = CodedTable(np.array([[code, 0]], dtype=np.uint8), schema)
        assert table.decode(np.random.default_rng(1))["hours"].dtype == dtype


def test_what_files_hold():
    schema = schema_of(TEXT)
    table = CodedTable(np.array([[0, 0], [2, 0], [3, 0], [4, 0]], dtype=np.uint8), schema)
    frame = table.decode(np.random.default_rng(0))
    assert frame["hours"][1:3].tolist() == ["N", "-9"]
    assert frame["hours"][0].isdigit()
    assert frame["hours"].isna().tolist() == [False, False, False, True]


def test_means_leave_codes_out():
    column = schema_of(TEXT)["hours"]
    for cells in (pd.Series(["10", "N", "-9", None, "20"]), pd.Series(["10", "N", "-9", None, "20"], dtype="category")):
        for read in (numbers, bounded_numbers):
            values, absent = read(cells, column)
            assert absent.tolist() == [False, True, True, True, False]
            assert values[~absent].tolist() == [10, 20]
    unbinned = schema_of("{lower: 0, upper: 99, codes: {-9: refused}}")["hours"]
    values, absent = numbers(pd.Series([10, -9]), unbinned)
    assert (values[0], absent.tolist()) == (10, [False, True])


def test_rules_take_codes_and_their_words_and_ranges_leave_them_out():
    rule = "impossible:\n  - {{hours: {}, job: 'yes'}}\n"
    for each, codes in {
        "'not applicable'": (2,), "N": (2,), "-9": (3,), "'-9'": (3,), "[refused, missing]": (3, 4), "'<=30'": (0,),
        "['<10', N]": (0, 3), "'>=0'": (0, 1), "4": (4,),
    }.items():  # fmt: skip
        assert schema_of(TEXT, rule.format(each)).impossible[0].codes[0] == codes
    with pytest.raises(InputError, match=r"not a range; .* \(or 'not applicable', 'refused', 'missing'\)"):
        schema_of(TEXT, rule.format("no"[:1]))


BAD = {
    "codes: [N]": "needs 'codes' to be a mapping",
    "codes: {N: 1}": "needs 'codes' to be a mapping",
    "codes: {N: ''}": "needs 'codes' to be a mapping",
    "codes: {no: refused}": "keys of 'codes' to be numbers or quoted text",
    "codes: {' ': refused}": "keys of 'codes' to be numbers or quoted text",
    "codes: {7: seven}": "has the code 7, which is also a number",
    "codes: {'7.0': seven}": "has the code '7.0', which is also a number",
    "codes: {-9: a, '-9.0': b}": "has the same code twice in 'codes'",
    "codes: {-9: a}, missing: -8": "'own' or a number between its bounds, or one of 'codes'",
    "lower: 10, edges: [10, 30, 99], release: index, codes: {1: a}": "has the code 1, which is also a number",
}


@pytest.mark.parametrize("given", BAD)
def test_codes_that_make_no_sense(given):
    spec = {"lower": 0, "upper": 99, "edges": [0, 30, 99]} | yaml.safe_load(f"{{{given}}}")
    with pytest.raises(InputError, match=re.escape(BAD[given])) as caught:
        Schema.from_dict({"columns": {"hours": spec}})
    assert len(str(caught.value)) < 300


def test_categorical_columns_have_no_codes():
    with pytest.raises(InputError, match="list the codes under 'values'"):
        Schema.from_dict(yaml.safe_load("columns: {x: {values: [1], codes: {N: none}}}"))


def test_words_code_no_row_and_raw_values_do():
    schema = schema_of(TEXT)
    assert schema.digest == schema_of(TEXT.replace("refused", "no answer")).digest
    assert schema.digest != schema_of(TEXT.replace("-9", "-8")).digest
    assert (
        Schema.load("acs_employment").selected().digest
        == "c7298b2fdf21009a6251a6116ee77ac5a5e60263bdbe32b1009cc0daaaf3e4dd"
    )


def test_codes_are_told_apart_by_fingerprints_models_and_checks():
    schema = schema_of(TEXT)
    digests = set()
    for code in range(5):
        snapshot = Snapshot(schema)
        snapshot.add(CodedTable(np.array([[code, 0]], dtype=np.uint8), schema))
        digests.add(snapshot.digests()["rows"])
    assert len(digests) == 5
    assert merge_codes(schema["hours"], np.ones(5), 2, np.zeros(5, dtype=np.intp)) == (0, 0, 1, 2, 3)
    frame = pd.DataFrame({"hours": ["N", "-9", "1", None, "x"], "job": "no"})
    found = misfits([frame], schema)[1]
    assert [(each.fault, each.cells) for each in found] == [("not numbers", 1)]
