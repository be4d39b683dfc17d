"""Tests of open columns: the declaration, and the coding before and after the values are selected."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest

from equistrata.data.columns.column import LONGEST_VALUE, MOST_FOUND
from equistrata.data.misfits import misfits
from equistrata.data.schema import Schema
from equistrata.data.sources import FileSource
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.data.vocabulary import NO_CELL, OWN, UNWRITABLE, Vocabulary, codes_once_found, encode_open
from equistrata.errors import InputError

HOSTILE = [
    "a\nb", "a\rb", "tab\tb", "\x00", "\x1b[31m", "\u202eabc", "\ud800", "x" * (LONGEST_VALUE + 1), " a",
    "a ", "=1+1", "+cmd", "-cmd", "@x", "NA", "NaN", "null", 1.5, float("inf"), 2.0**53, 1e300, b"raw", ["list"],
]  # fmt: skip


def schema_of(**town: object) -> Schema:
    return Schema.from_dict({"columns": {"SEX": {"values": [1, 2]}, "TOWN": {"values": "open", **town}}}, "people")


def test_an_open_column_has_no_codes_until_its_values_are_found() -> None:
    schema = schema_of(missing="none", label="Town")
    assert (schema.open, schema["TOWN"].numeric, schema["TOWN"].others) == (("TOWN",), False, "other")
    for needs_codes in (
        lambda: schema.sizes,
        lambda: CodedTable.encode(pd.DataFrame({"SEX": [1], "TOWN": ["a"]}), schema),
        lambda: Schema.from_dict(
            {
                "columns": {"SEX": {"values": [1, 2]}, "TOWN": {"values": "open"}},
                "impossible": [{"SEX": 1, "TOWN": "a"}],
            }
        ),
    ):
        with pytest.raises(InputError, match="column 'TOWN' is declared as 'values: open', so its values are unknown"):
            needs_codes()
    with pytest.raises(InputError, match=r"stratum column 'TOWN' is declared as 'values: open'.* list its values"):
        Strata.over(schema, ["TOWN"])
    found = schema.with_values({"TOWN": ["01", "b"]})
    assert (found["TOWN"].values, found.open) == (("01", "b", "none", "other"), ())
    assert Schema.from_plain(asdict(found)) == found
    assert schema.largest_possible()["TOWN"].size == MOST_FOUND + 2
    assert len({schema.digest, found.digest, schema.largest_possible().digest}) == 3


@pytest.mark.parametrize(
    ("town", "said"),
    [
        ({"recode": {"a": "b"}}, "has 'recode', which is only allowed if 'values' is a list"),
        ({"labels": {"a": "b"}}, "has 'labels', which is only allowed if 'values' is a list"),
        ({"codes": {"a": "b"}}, "has 'codes', which is only allowed if 'values' is a list"),
        ({"type": "ordinal"}, "so its values have no order"),
        ({"others": 5}, "needs 'others' to be a short text"),
        ({"others": None}, "needs a name for rare values in 'others'"),
        ({"missing": "=1"}, "needs 'missing' to be a short text"),
        ({"lower": 0, "upper": 1}, "needs either 'values'"),
    ],
)
def test_what_an_open_column_cannot_have(town: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        schema_of(**town)


def test_cells_that_no_file_could_hold_are_no_values() -> None:
    vocabulary = Vocabulary()
    for cell in HOSTILE:
        assert vocabulary.code(pd.Series([cell], dtype=object)).tolist() == [UNWRITABLE], cell
    for cell in (None, np.nan, pd.NA, pd.NaT, "", " ", "\xa0", "\u2028"):
        assert vocabulary.code(pd.Series([cell, ["list"]], dtype=object)).tolist() == [NO_CELL, UNWRITABLE]
        assert vocabulary.code(pd.Series([cell], dtype=object)).tolist() == [NO_CELL]
    assert vocabulary.texts == []


def test_whole_numbers_and_texts_agree_and_stay_as_they_are() -> None:
    vocabulary = Vocabulary()
    frames = [pd.Series([1, 2]), pd.Series([1.0, None]), pd.Series(["1", "01", "-9", "1.0"]), pd.Series([True])]
    codes = [vocabulary.code(each).tolist() for each in frames]
    assert codes == [[2, 3], [2, NO_CELL], [2, 4, 5, 6], [7]]
    assert vocabulary.texts == ["1", "2", "01", "-9", "1.0", "True"]


def test_rows_are_coded_by_what_is_found(tmp_path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("SEX,TOWN\n1,01\n2,Ulm\n1,\n2,=1\n1,other\n2,none\n1,Ulm\n")
    schema, known = schema_of(missing="none"), {"TOWN": Vocabulary()}
    source = FileSource.of(str(path), schema)
    assert source.numbers == ("SEX",)
    table = CodedTable.concatenate([encode_open(each, schema, known) for each in source.batches(schema.names)])
    assert table.codes.dtype == np.uint32
    column = schema["TOWN"].with_values(["Ulm"])
    lookup = codes_once_found(known["TOWN"].texts, column)
    assert len(lookup) == len(known["TOWN"].texts) + OWN
    values = [column.values[code] for code in lookup[table.column("TOWN")]]
    assert values == ["other", "Ulm", "none", "other", "other", "none", "Ulm"]
    assert misfits(source.batches(schema.names), schema) == (7, [])
    open_alone = schema_of()
    with pytest.raises(InputError, match="column 'TOWN' has missing cells"):
        encode_open(source.read(schema.names), open_alone, {"TOWN": Vocabulary()})
    (fault,) = misfits(source.batches(schema.names), open_alone)[1]
    assert (fault.columns, fault.fault, fault.cells) == (("TOWN",), "missing cells", 1)


def test_absent_cells_may_be_others() -> None:
    column = schema_of(missing="rest", others="rest")["TOWN"].with_values(["a"])
    assert column.values == ("a", "rest")
    assert codes_once_found(["a", "rest", "b"], column).tolist() == [1, 1, 0, 1, 1]
