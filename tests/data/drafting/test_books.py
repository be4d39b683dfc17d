"""Code books in the forms in which they are published, each read into the same entries."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from equistrata.data.drafting.books import read_codebook
from equistrata.data.drafting.entries import Entry
from equistrata.errors import InputError

AGE = ("number", 0.0, 99.0)
SEX = ("nominal", (("1", "Male"), ("2", "Female")))

BOOKS = {
    "nist.json": json.dumps(
        {
            "AGE": {"description": "Age", "values": {"min": 0, "max": 99}},
            "SEX": {"description": "Sex", "values": {"1": "Male", "2": "Female"}},
        }
    ),
    "table-schema.json": json.dumps(
        {
            "fields": [
                {"name": "AGE", "title": "Age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
                {
                    "name": "SEX",
                    "type": "integer",
                    "categories": [{"value": 1, "label": "Male"}, {"value": 2, "label": "Female"}],
                },
            ]
        }
    ),
    "data-package.json": json.dumps(
        {
            "resources": [
                {
                    "schema": {
                        "fields": [
                            {"name": "AGE", "constraints": {"minimum": "0", "maximum": "99"}},
                            {"name": "SEX", "values": ["1, Male", "2, Female"]},
                        ]
                    }
                }
            ]
        }
    ).replace('["1, Male", "2, Female"]', '"1, Male | 2, Female"'),
    "list.json": json.dumps(
        [
            {"variable": "AGE", "label": "Age", "min": "0", "max": "99"},
            {"variable": "SEX", "label": "Sex", "values": {"1": "Male", "2": "Female"}},
        ]
    ),
    "columns.csv": "Variable,Description,Min,Max,Values\nAGE,Age,0,99,\nSEX,Sex,,,1=Male; 2=Female\n",
    "ranges.csv": "name;label;values\nAGE;Age;0-99\nSEX;Sex;1 = Male | 2 = Female\n",
    "values.csv": "Variable,Label,Value,Value label\nAGE,Age,0-99,years\nSEX,Sex,1,Male\n,,2,Female\n",
    "redcap.csv": (
        '"Variable / Field Name","Form Name","Field Type","Field Label","Choices, Calculations, OR Slider Labels",'
        '"Text Validation Type OR Show Slider Number","Text Validation Min","Text Validation Max"\n'
        "AGE,visit,text,Age,,integer,0,99\n"
        'SEX,visit,radio,Sex,"1, Male | 2, Female",,,\n'
    ),
    "acs.csv": (
        "NAME,AGE,N,2,Age\nVAL,AGE,N,2,0,0,Under 1 year\nVAL,AGE,N,2,1,99,1 to 99 years\n"
        "NAME,SEX,N,1,Sex\nVAL,SEX,N,1,1,1,Male\nVAL,SEX,N,1,2,2,Female\n"
    ),
    "ddi.xml": (
        '<codeBook xmlns="ddi:codebook:2_5"><dataDscr><var name="AGE" intrvl="contin"><labl>Age</labl><valrng>'
        '<range min="0" max="99"/></valrng></var><var name="SEX"><labl>Sex</labl><valrng><range min="1" max="2"/>'
        "</valrng><catgry><catValu>1</catValu><labl>Male</labl></catgry><catgry><catValu>2</catValu>"
        "<labl>Female</labl></catgry></var></dataDscr></codeBook>"
    ),
}


def read(folder: Path, text: str, name: str = "book.csv") -> dict[str, Entry]:
    (folder / name).write_text(text, "utf-8")
    return read_codebook(folder / name)


@pytest.mark.parametrize("name", BOOKS)
def test_every_form_says_the_same(tmp_path: Path, name: str) -> None:
    found = read(tmp_path, BOOKS[name], name)
    assert [*found] == ["AGE", "SEX"]
    age, sex = found.values()
    assert (age.type, age.lower, age.upper) == AGE
    assert age.integer
    assert age.codes == ()
    assert (sex.type, sex.codes) == SEX


def test_stata(tmp_path: Path) -> None:
    frame = pd.DataFrame({"SEX": pd.Categorical.from_codes([0, 1], ["Male", "Female"]), "AGE": [3, 4]})
    frame.to_stata(tmp_path / "people.dta", variable_labels={"SEX": "Sex of person"}, write_index=False)
    found = read_codebook(tmp_path / "people.dta")
    assert (found["SEX"].label, found["SEX"].codes) == ("Sex of person", (("0", "Male"), ("1", "Female")))
    assert found["AGE"].type is None


def test_codes_beside_numbers(tmp_path: Path) -> None:
    values = {"N": "not asked", "0": "none", "min": 1, "max": 19, "20": "20 or more", "99": "refused"}
    entry = read(tmp_path, json.dumps({"K": {"values": values}}))["K"]
    assert (entry.lower, entry.upper) == (0.0, 20.0)
    assert entry.codes == (("N", "not asked"), ("99", "refused"))


def test_texts_stay_texts_and_leading_zeros_stay(tmp_path: Path) -> None:
    found = read(tmp_path, json.dumps({"P": {"values": {"01": "a", "02": "b"}}, "Q": {"values": {"1": "a", "2": "b"}}}))
    assert found["P"].values == ["01", "02"]
    assert found["Q"].values == [1, 2]


def test_order_only_where_it_is_sure(tmp_path: Path) -> None:
    agree = {"1": "Strongly agree", "2": "Neither", "3": "Strongly disagree"}
    book = {
        "A": {"values": agree},
        "D": {"description": "Income decile", "values": dict.fromkeys("0123456789", "")},
        "R": {"values": {"1": "North", "2": "South", "3": "West"}},
    }
    assert [entry.type for entry in read(tmp_path, json.dumps(book)).values()] == ["ordinal", "ordinal", "nominal"]


def test_missing_values_of_a_table_schema(tmp_path: Path) -> None:
    fields = [{"name": "AGE", "type": "number", "constraints": {"minimum": 0, "maximum": 99}}]
    entry = read(tmp_path, json.dumps({"fields": fields, "missingValues": ["", "-9"]}))["AGE"]
    assert entry.missing
    assert entry.codes == (("-9", "missing"),)
    assert not entry.integer


def test_dates(tmp_path: Path) -> None:
    limits = {"minimum": "2020-01-01", "maximum": "2020-12-31"}
    fields = [
        {"name": "DAY", "type": "date", "format": "%d.%m.%Y", "constraints": limits},
        {"name": "D", "type": "date"},
    ]
    found = read(tmp_path, json.dumps({"fields": fields}))
    assert (found["DAY"].type, found["DAY"].layout, found["DAY"].upper) == ("date", "%d.%m.%Y", "2020-12-31")
    assert found["D"].type is None


def test_a_book_in_latin_1(tmp_path: Path) -> None:
    (tmp_path / "book.csv").write_bytes("name,label,values\nORT,Münster,1=Köln; 2=Gießen\n".encode("latin-1"))
    assert read_codebook(tmp_path / "book.csv")["ORT"].codes == (("1", "Köln"), ("2", "Gießen"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ("<a>", "is not valid XML"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "document type or entities"),
        ("<a/>", "names no columns in a form that is known"),
        ("a,b\n1,2\n", "names no columns in a form that is known"),
        ("", "names no columns in a form that is known"),
        ("3", "names no columns"),
        ('{"A": 3, "B": [1]}', None),
    ],
)
def test_wrong_books(tmp_path: Path, text: str, said: str | None) -> None:
    if said is None:
        assert [entry.type for entry in read(tmp_path, text).values()] == [None, None]
        return
    with pytest.raises(InputError, match=said):
        read(tmp_path, text)


def test_what_is_no_book(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent.csv"):
        with pytest.raises(InputError, match="is no file that can be read"):
            read_codebook(path)
    (tmp_path / "people.dta").write_text("no Stata")
    with pytest.raises(InputError, match="is not a Stata file"):
        read_codebook(tmp_path / "people.dta")
