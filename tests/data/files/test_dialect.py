"""Tests of CSV files with other delimiters, decimal separators and encodings."""

import json
import re
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
import yaml

from equistrata.data.files import csv_files
from equistrata.data.files.csv_files import encoding_of
from equistrata.data.files.dialect import PLAIN, Dialect
from equistrata.data.header import header_of
from equistrata.data.misfits import misfits
from equistrata.data.schema import Schema
from equistrata.data.sources import FileSource, read_frame
from equistrata.data.table import CodedTable
from equistrata.errors import InputError

PEOPLE = """
file: {FILE}
columns:
  größe: {lower: 0, upper: 3, edges: [0, 1.5, 3]}
  pay: {lower: 0, upper: 9999999, edges: [0, 2000, 9999999], missing: own, codes: {N: none}}
  rate: {values: [1.5, 2.5]}
  place: {values: [Köln, "1.234", "a;b,c"]}
"""
ROWS = [("1,75", "1.234,5", "2,5", "Köln"), ("1,5", "N", "1,5", "a;b,c"), ("0,2", "2.000.000", "2,5", "1.234")]
ROWS += [("2", "", "1,5", "Köln"), ("+1,0", "2000,00", "1,50", "Köln")]
CODES = [[1, 0, 1, 0], [0, 2, 0, 2], [0, 1, 1, 1], [1, 3, 0, 0], [0, 0, 0, 0]]
NAMES = ("größe", "pay", "rate", "place")


def schema_of(file, text=PEOPLE):
    return Schema.from_dict(yaml.safe_load(text.replace("FILE", file)), "people.yaml")


def written(path, encoding="utf-8", delimiter=";", quote='"', rows=ROWS):
    lines = [delimiter.join(f"{quote}{cell}{quote}" if cell else "" for cell in row) for row in (NAMES, *rows)]
    path.write_bytes("".join(f"{line}\r\n" for line in lines).encode(encoding))
    return path


def coded(path, schema):
    batches = [CodedTable.encode(each, schema) for each in FileSource.of(str(path), schema).batches(schema.names)]
    whole = CodedTable.encode(FileSource.of(str(path), schema).read(schema.names), schema)
    assert CodedTable.concatenate(batches).codes.tolist() == whole.codes.tolist()
    FileSource.of(str(path), schema).check(schema.names)
    return whole.codes.tolist()


COMMA = "decimal: ',', thousands: '.'"
SEMICOLON = COMMA + ", delimiter: ';'"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16"])
@pytest.mark.parametrize("delimiter", [";", "\t", "|", ",", "~"])
@pytest.mark.parametrize("quote", ['"', "'"])
def test_a_declared_dialect(tmp_path, encoding, delimiter, quote):
    said = json.dumps({"delimiter": delimiter, "quote": quote, "encoding": encoding})[1:-1]
    path = written(tmp_path / "people.csv", encoding, delimiter, quote)
    assert coded(path, schema_of(f"{COMMA}, {said}")) == CODES


def test_nothing_but_a_comma_and_utf_8_is_guessed(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("a,b\n1;2;3,4;5;6\n")
    assert read_frame(path, ["a"])["a"].tolist() == ["1;2;3"]
    path.write_bytes("a,b\nM\u00fcller,1\n".encode("latin-1"))
    with pytest.raises(
        InputError, match="is not UTF-8 text; save it as UTF-8, or declare its encoding in the schema, such as file: "
    ):
        FileSource(str(path)).read(["a"])
    assert FileSource(str(path), dialect=Dialect(encoding="latin-1")).read(["a"])["a"].tolist() == ["M\u00fcller"]


def test_a_delimiter_or_an_encoding_that_is_not_declared_is_told(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("größe~pay\n1~2\n")
    with pytest.raises(
        InputError, match=r"no column 'größe' .* or declare the delimiter in the schema, such as file: "
    ):
        FileSource.of(str(path), schema_of("")).check(["größe", "pay"])
    path.write_bytes("größe;pay\n1;2\n".encode("utf-16"))
    with pytest.raises(InputError, match=r"zero bytes; .*file: \{encoding: utf-16\}"):
        FileSource.of(str(path), schema_of("")).check(["größe"])
    with pytest.raises(InputError, match="is not ASCII text"):
        FileSource.of(str(written(path)), schema_of("encoding: ascii")).check(["größe"])


@pytest.mark.parametrize("cell", ["1.5", "1.23", "1,2,3", "1.2345", "1 000", "1e", "1.234.5", "12.34,5"])
def test_what_is_no_number_in_the_dialect_is_refused(tmp_path, cell):
    path = written(tmp_path / "people.csv", rows=[("1", cell, "1,5", "Köln")])
    schema = schema_of(SEMICOLON)
    with pytest.raises(
        InputError, match="'pay' is declared as numeric, but holds a value that is not a number"
    ) as caught:
        coded(path, schema)
    assert cell not in str(caught.value)
    found = misfits(FileSource.of(str(path), schema).batches(schema.names), schema)[1]
    assert [(each.columns, each.fault, each.cells) for each in found] == [(("pay",), "not numbers", 1)]


def test_thousands_alone(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text('pay\n"1,234.5"\n12\'000\n')
    schema = Schema.from_dict({"columns": {"pay": {"lower": 0, "upper": 1e6}}, "file": {"thousands": ","}})
    assert FileSource.of(str(path), schema).read(["pay"])["pay"].tolist() == ["1234.5", "12'000"]


def test_blocks_of_another_encoding_are_one_table(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "LONGEST_LINE", 200)
    path = written(tmp_path / "people.csv", "latin-1", rows=ROWS * 100)
    assert coded(path, schema_of(SEMICOLON + ", encoding: latin-1")) == CODES * 100


def test_a_parquet_file_has_no_dialect(tmp_path):
    path = tmp_path / "people.parquet"
    pd.DataFrame({"größe": [1.75], "pay": [5.0], "rate": [2.5], "place": ["Köln"]}).to_parquet(path)
    schema = schema_of(f"{COMMA}, encoding: latin-1")
    frames = list(FileSource.of(str(path), schema).batches(schema.names))
    assert CodedTable.encode(frames[0], schema).codes.tolist() == [[1, 0, 1, 0]]
    assert FileSource.of(str(path), schema).header() == list(NAMES)


BAD = {
    "delimiter: 5": (
        "a mapping from delimiter, quote, decimal, thousands, encoding, absent, sheet, header to quoted text"
    ),
    "delimiter: ';;'": "needs 'delimiter' of 'file' to be one ASCII character",
    "delimiter: ''": "needs 'delimiter' of 'file' to be one ASCII character",
    "delimiter: a": "needs 'delimiter' of 'file' to be one ASCII character",
    "quote: '«'": "needs 'quote' of 'file' to be one ASCII character",
    "delimiter: '|', quote: '|'": "has the same character for 'delimiter' and 'quote'",
    "decimal: x": "needs 'decimal' of 'file' to be a point or a comma",
    "decimal: ',', thousands: ','": "one character other than 'decimal'",
    "thousands: '.'": "one character other than 'decimal'",
    "thousands: '00'": "one character other than 'decimal'",
    "encoding: utf-9": "needs 'encoding' of 'file' to be a known encoding",
    "encoding: hex": "needs 'encoding' of 'file' to be a known encoding",
    "absent: '.'": "needs 'absent' of 'file' to be a list of quoted texts",
    "absent: [1]": "needs 'absent' of 'file' to be a list of quoted texts",
    "sep: ';'": "has the unknown key 'sep' in 'file'; known keys are delimiter",
}


@pytest.mark.parametrize("file", BAD)
def test_dialects_that_make_no_sense(file):
    with pytest.raises(InputError, match=re.escape(BAD[file])) as caught:
        schema_of(file)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_dialect_goes_with_the_schema_but_not_into_its_digest():
    schema, plain = schema_of(COMMA), schema_of("")
    assert schema.digest == plain.digest
    assert schema.select(["pay"]).file == schema.file != PLAIN
    assert schema.coded().file == PLAIN  # released files always use the default dialect
    document = json.loads(json.dumps(asdict(schema)))
    assert Schema.from_plain(document) == schema
    del document["file"]
    assert Schema.from_plain(document) == plain


def test_numbers_of_a_dialect_against_format():
    rng, dialect = np.random.default_rng(0), Dialect(decimal=",", thousands=".")
    for number in rng.normal(0, 10.0 ** rng.integers(0, 9, 300)):
        text = f"{number:,.3f}".translate(str.maketrans(",.", ".,"))
        assert float(dialect.number(text)) == round(number, 3)
        assert float(dialect.number(text.replace(".", ""))) == round(number, 3)


@pytest.mark.parametrize("cell", ["$5", "(5)", "5-", "--5", "1,23", "()", "N", "5 %"])
def test_signs_and_parentheses_around_numbers_are_no_numbers(cell):
    booked = Dialect(thousands=",")
    assert booked.number(cell) == cell
    assert booked.number("1,234.5") == "1234.5"


@pytest.mark.parametrize("name", ["Betrag €", "Größe"])
def test_a_draft_declares_the_encoding_and_the_delimiter_of_a_header_line(tmp_path, name):
    """The file has the form of a file that is saved by Excel. Only the header line is read."""
    path = tmp_path / "loans.csv"
    path.write_bytes(f"{name};ART\n5;a\n".encode("cp1252"))
    names, file = header_of(path, {"ART"})
    assert (names, file) == ([name, "ART"], {"delimiter": ";", "encoding": "cp1252"})
    assert encoding_of(path) == "cp1252"
    assert FileSource(str(path), dialect=Dialect.read(file, "x")).read([name]).iloc[0, 0] == "5"
    with pytest.raises(InputError, match=r"is not UTF-8 text; .* as file: \{encoding: cp1252\}"):
        FileSource(str(path)).read([name])
