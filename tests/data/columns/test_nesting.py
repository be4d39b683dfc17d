"""Tests of columns that are nested in other columns. The tests check the declaration, the coding, the strata and the
errors.
"""

import json
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest

from equistrata.data.misfits import misfits
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.errors import InputError

PUMAS = {36: [100, 200, 300], 50: [100, 400]}


def schema_of(**puma):
    columns = {"PUMA": {"within": "ST", "values": PUMAS, **puma}, "SEX": {"values": [1, 2]}, "ESR": {"values": [0, 1]}}
    return Schema.from_dict({"name": "places", "columns": columns})


def rows(places):
    frame = pd.DataFrame(places, columns=["ST", "PUMA"])
    return frame.assign(SEX=1, ESR=0)


def test_a_code_means_another_place_in_another_state():
    table = CodedTable.encode(rows([(36, 100), (50, 100), (50, 400), (36, 300)]), schema_of())
    assert table.column("PUMA").tolist() == [0, 3, 4, 2]
    assert table.decode(np.random.default_rng(0))["PUMA"].tolist() == ["36/100", "50/100", "50/400", "36/300"]


@pytest.mark.parametrize("places", [[("36", "100")], [(36.0, "100.0")], [(36, 100.0)]])
def test_numbers_are_compared_as_numbers(places):
    assert CodedTable.encode(rows(places), schema_of()).column("PUMA").tolist() == [0]


@pytest.mark.parametrize("places", [[(36, "00100")], [("036", 100)], [(36, "1e2")], [(True, 100)], [(36, 2.0**53)]])
def test_what_is_written_otherwise_is_another_code(places):
    with pytest.raises(InputError, match="'PUMA' holds a value that the schema does not declare"):
        CodedTable.encode(rows(places), schema_of())


def test_text_is_compared_as_text():
    schema = schema_of(values={"NY": ["00100"], "VT": ["00100", "100"]})
    table = CodedTable.encode(rows([("VT", "100"), ("VT", "00100"), ("NY", "00100")]), schema)
    assert table.column("PUMA").tolist() == [2, 1, 0]


def test_released_rows_are_coded_by_what_names_a_pair():
    schema = schema_of()
    table = CodedTable.encode(rows([(36, 200), (50, 400)]), schema)
    released = table.decode(np.random.default_rng(0))
    assert "ST" not in released.columns
    assert CodedTable.encode(released, schema.coded()).codes.tolist() == table.codes.tolist()
    assert (schema.cells, schema.coded().cells) == (("ST", "PUMA", "SEX", "ESR"), ("PUMA", "SEX", "ESR"))


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ([(36, 100), (36, 400)], "holds a value that the schema does not declare"),  # a place of another state
        ([(9, 100)], "holds a value that the schema does not declare"),
        ([(36, None)], "has missing cells"),
        ([(None, 100)], "has missing cells"),
    ],
)
def test_rows_of_no_declared_pair_are_refused(places, message):
    with pytest.raises(InputError, match=message):
        CodedTable.encode(rows(places), schema_of())


def test_rows_without_the_outer_column_are_refused():
    with pytest.raises(InputError, match=r"column 'ST' of schema 'places' is not in the table"):
        CodedTable.encode(rows([(36, 100)]).drop(columns="ST"), schema_of())


def test_misfits_are_found_as_pairs():
    _, found = misfits([rows([(36, 100), (36, 400), (50, 400)])], schema_of(), shown=3)
    assert [(each.columns, each.fault, each.cells, each.values) for each in found] == [
        (("PUMA",), "undeclared values", 1, ("36/400",))
    ]
    _, found = misfits([rows([(36, 100)]).drop(columns="ST")], schema_of())
    assert [(each.columns, each.fault) for each in found] == [(("PUMA",), "no such column")]


@pytest.mark.parametrize(
    ("puma", "message"),
    [
        ({"values": [100, 200]}, "must map each value of the outer column to a list"),
        ({"values": {36: 100}}, "must map each value of the outer column to a list"),
        ({"values": {36: []}}, "must map each value of the outer column to a list"),
        ({"values": {36: [100, 100.0]}}, "distinct values for each"),
        ({"values": {36: [100, "200"]}}, "has both numbers and texts"),
        ({"values": {36: ["a/b"]}}, "without '/'"),
        ({"within": 3}, "needs 'within' to name other columns"),
        ({"within": "SEX"}, "declares column 'SEX' twice, because another column has it under 'within'"),
        ({"missing": "36/100"}, "has 'missing', which is not allowed for a column with 'within'"),
        ({"values": "open"}, "must map each value of the outer column to a list"),
    ],
)
def test_declarations_that_make_no_sense_are_refused(puma, message):
    with pytest.raises(InputError, match=message):
        schema_of(**puma)


def test_within_needs_values():
    with pytest.raises(InputError, match="has 'within', which needs 'values'"):
        Schema.from_dict({"columns": {"AGE": {"within": "ST", "lower": 0, "upper": 9}}})


def test_three_levels():
    nested = {"NE": {36: [100, 200], 50: [100]}, "W": {6: [100]}}
    schema = schema_of(within=["REGION", "ST"], values=nested)
    assert schema["PUMA"].values == ("NE/36/100", "NE/36/200", "NE/50/100", "W/6/100")
    assert schema["PUMA"].levels == ((0, 0, 0, 1), (0, 0, 1, 2))
    assert Strata.over(schema, ["REGION/ST/PUMA"]).columns == ("PUMA",)
    table = CodedTable.encode(rows([(50, 100)]).assign(REGION="NE"), schema)
    assert table.column("PUMA").tolist() == [2]


def test_strata_name_what_a_column_lies_within():
    schema = schema_of()
    nested = Strata.over(schema, ["ST/PUMA", "SEX"])
    assert nested == Strata.over(schema, ["PUMA", "SEX"])
    assert len(nested.keys) == 10  # the number of declared places, and not a product with the states
    assert (nested.label(nested.keys[6]), nested.file_name(nested.keys[6])) == (
        "PUMA=50/100,SEX=1",
        "PUMA=50%2F100,SEX=1",
    )


@pytest.mark.parametrize(
    ("strata", "message"),
    [
        (["STATE/PUMA"], r"'PUMA' lies within 'STATE', but in schema 'places' it lies within ST"),
        (["ST/SEX"], r"'SEX' lies within 'ST', but in schema 'places' it lies within no column"),
        (["ST"], r"column 'ST' is derived from 'PUMA', which lies within it; give 'PUMA' instead"),
        (["ST/COUNTY"], r"unknown column 'COUNTY'"),
        (["ST/PUMA", "PUMA"], "given twice"),
    ],
)
def test_strata_that_the_schema_does_not_nest_are_refused(strata, message):
    with pytest.raises(InputError, match=message):
        Strata.over(schema_of(), strata)


def test_a_schema_comes_back_from_its_plain_form_and_older_digests_stay():
    schema = schema_of()
    assert Schema.from_plain(json.loads(json.dumps(asdict(schema)))) == schema
    other = schema_of(values={36: [100, 200, 300, 400], 50: [100]})
    assert len({schema.digest, other.digest, schema.coded().digest}) == 3
    plain = Schema.load("acs_employment").selected().digest
    assert plain == "c7298b2fdf21009a6251a6116ee77ac5a5e60263bdbe32b1009cc0daaaf3e4dd"
