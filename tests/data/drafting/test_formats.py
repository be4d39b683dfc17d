"""Tests of the formats of code books, each with a small example of the published format."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest

from equistrata.data.drafting.books import read_book
from equistrata.data.drafting.dictionary import cell_values, template
from equistrata.data.drafting.doubt import Decision, decide_declaration
from equistrata.errors import InputError

ACS = Path(__file__).parents[4] / "shared" / "acs_dictionaries"


def decisions(path: Path, text: str | None = None) -> dict[str, Decision]:
    if text is not None:
        path.write_text(text, "utf-8")
    return {name: decide_declaration(column) for name, column in read_book(path).columns.items()}


def plain(found: Decision) -> dict[str, object]:
    """Return a declaration without its label."""
    assert found.spec is not None, found.why
    return {key: value for key, value in found.spec.items() if key != "label"}


DICTIONARY = """name,label,type,values,lower,upper,decimals,format,missing,required
SEX,Sex,,1=Male; 2=Female,,,,,,yes
AGE,Age in years,integer,,0,99,,,N=not known,
PAY,,number,,0,900.5,2,,-9=refused,no
SINCE,,date,,01.01.2000,2024-12-31,,dd.mm.yyyy,,
LEVEL,,ordinal,low; middle; high,,,,,,
HOURS,,,0..98; 99=refused,,,,,,
FREE,,text,,,,,,,
"""


def test_a_csv_dictionary_of_one_row_a_column(tmp_path: Path) -> None:
    found = decisions(tmp_path / "book.csv", DICTIONARY)
    assert found["SEX"].spec == {
        "label": "Sex", "type": "nominal", "values": [1, 2], "labels": {1: "Male", 2: "Female"},
    }  # fmt: skip
    assert plain(found["AGE"]) == {
        "type": "number", "lower": 0, "upper": 99, "integer": True, "codes": {"N": "not known"},
    }  # fmt: skip
    assert plain(found["PAY"]) == {
        "type": "number", "lower": 0, "upper": 900.5, "decimals": 2, "codes": {-9: "refused"}, "missing": "own",
    }  # fmt: skip
    assert plain(found["SINCE"]) == {
        "type": "date", "format": "%d.%m.%Y", "lower": "2000-01-01", "upper": "2024-12-31",
    }  # fmt: skip
    assert plain(found["LEVEL"]) == {"type": "ordinal", "values": ["low", "middle", "high"]}
    assert [meaning for meaning, _ in found["HOURS"].readings] == ["99: codes, not numbers", "all are numbers"]
    assert (found["FREE"].spec, found["FREE"].readings) == (None, ())


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_one_row_a_value(tmp_path: Path, mark: str) -> None:
    rows = [
        "Variable,Description,Code,Meaning",
        "SEX,Sex,1,Male",
        ",,2,Female",
        "AGE,Age,0-99,",
        "JOB,,01,a",
        "JOB,,02,b",
    ]
    found = decisions(tmp_path / "book.csv", "\n".join(rows).replace(",", mark))
    assert found["SEX"].spec == {
        "label": "Sex", "type": "nominal", "values": [1, 2], "labels": {1: "Male", 2: "Female"},
    }  # fmt: skip
    assert plain(found["AGE"]) == {"type": "number", "lower": 0, "upper": 99, "integer": True}
    assert plain(found["JOB"])["values"] == ["01", "02"]


def test_a_workbook_is_a_dictionary_and_a_template_is_filled_in(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl", reason="the extra 'excel' is not installed")
    frame = pd.read_csv(tmp_path / "book.csv") if decisions(tmp_path / "book.csv", DICTIONARY) else None
    assert frame is not None
    frame.to_excel(tmp_path / "book.xlsx", index=False)
    assert decisions(tmp_path / "book.xlsx") == decisions(tmp_path / "book.csv")
    lines = template(["SEX", "A,B"]).splitlines()
    assert lines[0] == DICTIONARY.splitlines()[0]
    assert lines[2].startswith('"A,B",')
    filled = "\n".join([lines[0], "SEX,Sex,,F; M,,,,,,", lines[2]])
    found = decisions(tmp_path / "new.csv", filled)
    assert plain(found["SEX"])["values"] == ["F", "M"]
    assert found["A,B"].why == "the book has neither values nor bounds"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name,label,frequency\nSEX,Sex,12\n", "has the heading 'frequency', which is not known"),
        ("name,values\nSEX,1=a, b\n", "row 2 has more cells than headings"),
        ("name,values\nSEX,a; b\nSEX,c; d\n", "describes 'SEX' twice"),
        ("name,values\n,a; b\n", "row 2 has no column name"),
        ("name,min,minimum\nAGE,0,1\n", "has two headings for 'lower'"),
        (
            "RT         1\n    Record Type\n           P .Person\n\nAGEP       2\n",
            "is in none of the supported formats",
        ),
        ("# Code book\n\n| name | values |\n|---|---|\n| SEX | 1, 2 |\n", "is in none of the supported formats"),
        ("<html><body><table><tr><td>SEX</td></tr></table></body></html>", "is in none of the supported formats"),
        ('{"SEX": {"1": "Male"}}', "--template book.csv writes a dictionary"),
        ("label define sex 1 male 2 female\nlabel values sex sex\n", "is in none of the supported formats"),
        ("NAME,AGEP,N,2,Age\nNOTE,AGEP\n", "line 2: the line does not begin with NAME or VAL"),
        ("<codeBook><!ENTITY a 'b'></codeBook>", "has a document type or entities"),
        ("<DDIInstance/>", "is in DDI-Lifecycle"),
        ("<codeBook>", "is not valid XML"),
    ],
)
def test_what_is_not_read_is_refused_in_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "book.csv").write_text(text)
    with pytest.raises(InputError, match=r"code book 'book\.csv'") as caught:
        read_book(tmp_path / "book.csv")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["1 Yes, 2 No", "1 - Yes; 2 - No", "Yes (1); No (2)", "1=Yes, maybe, 2=No", "1=a; 1=b", "1=; 2=b", "0-17; 18-64"],
)
def test_cells_of_values_that_are_not_plain_are_remarks(text: str) -> None:
    assert cell_values(text)[3]


def test_frictionless(tmp_path: Path) -> None:
    fields = [
        {"name": "ID", "type": "integer", "constraints": {"unique": True, "minimum": 0, "maximum": 9}},
        {"name": "SEX", "type": "string", "title": "Sex", "constraints": {"enum": ["F", "M"], "required": True}},
        {"name": "AGE", "type": "integer", "constraints": {"minimum": 0, "maximum": 99, "required": False}},
        {"name": "PAY", "type": "number", "constraints": {"minimum": 0, "maximum": 900}, "missingValues": ["-9"]},
        {"name": "OPEN", "type": "number", "constraints": {"minimum": 0, "maximum": 9, "exclusiveMaximum": 9}},
        {"name": "DAY", "type": "date", "format": "%d/%m/%Y",
         "constraints": {"minimum": "2020-01-01", "maximum": "2020-12-31"}},
        {"name": "JOB", "type": "boolean"},
        {"name": "YES", "type": "boolean", "trueValues": ["yes"], "falseValues": ["no"]},
        {"name": "NO", "type": "boolean", "trueValues": ["yes", "Yes"], "falseValues": ["no"]},
        {"name": "LEVEL", "type": "integer", "categoriesOrdered": True,
         "categories": [{"value": 1, "label": "low"}, {"value": 2, "label": "high"}]},
        {"name": "WHERE", "type": "geopoint"},
        {"name": "CODE", "type": "string", "constraints": {"enum": ["1", "2"]}},
        {"name": "TWO", "type": "string", "categories": ["a", "b"], "constraints": {"enum": ["a"]}},
        {"name": "YEAR", "type": "year", "constraints": {"minimum": "1990", "maximum": "2020"}},
        {"name": "TRUE", "type": "boolean", "constraints": {"enum": [True, False]}},
        {"name": "LOSS", "type": "number", "constraints": {"minimum": -99, "maximum": 9}},
    ]  # fmt: skip
    schema = {"fields": fields, "missingValues": ["", "NA", "-99"], "resources": [{"name": "an example"}]}
    found = decisions(tmp_path / "schema.json", json.dumps(schema))
    assert found["ID"].personal
    assert found["SEX"].spec == {"label": "Sex", "type": "nominal", "values": ["F", "M"]}
    assert plain(found["AGE"])["missing"] == "own"
    assert plain(found["PAY"]) == {"type": "number", "lower": 0, "upper": 900, "codes": {-9: "missing"}}
    assert found["OPEN"].why == "the book's 'exclusiveMaximum' is not supported"
    assert plain(found["DAY"])["format"] == "%d/%m/%Y"
    assert plain(found["JOB"])["values"] == ["false", "true"]
    assert plain(found["YES"])["values"] == ["no", "yes"]
    assert plain(found["LEVEL"]) == {"type": "ordinal", "values": [1, 2], "labels": {1: "low", 2: "high"}}
    assert found["NO"].why == "it has several spellings of true or false"
    assert found["WHERE"].why == "its type 'geopoint' is not supported"
    book = read_book(tmp_path / "schema.json")
    assert book.file == {"absent": ["-99"]}
    assert plain(found["CODE"])["values"] == ["1", "2"]
    assert plain(found["YEAR"]) == {"type": "number", "lower": 1990, "upper": 2020, "integer": True}
    assert plain(found["TRUE"]) == plain(found["JOB"])
    assert found["TWO"].why == "its categories differ from its enum"
    assert found["LOSS"].why == "one of its values is also a missing value of all columns"
    package = {"resources": [{"schema": {"fields": [{"name": "OTHER"}]}}, {"schema": schema}]}
    (tmp_path / "datapackage.json").write_text(json.dumps(package))
    assert read_book(tmp_path / "datapackage.json", ["SEX", "AGE"]) == book
    with pytest.raises(InputError, match="describes several tables that fit these columns equally well"):
        read_book(tmp_path / "datapackage.json", ["AREA"])


def test_a_key_of_several_columns_is_asked_for_each(tmp_path: Path) -> None:
    fields = [{"name": name, "type": "integer", "constraints": {"minimum": 1, "maximum": 9}} for name in "AB"]
    found = decisions(tmp_path / "schema.json", json.dumps({"fields": fields, "primaryKey": ["A", "B"]}))
    assert [each.why for each in found.values()] == ["it is a part of the primary key"] * 2


def test_numbers_that_a_table_schema_writes_otherwise(tmp_path: Path) -> None:
    pay = {"name": "PAY", "type": "number", "decimalChar": ",", "groupChar": "."}
    (tmp_path / "schema.json").write_text(json.dumps({"fields": [pay]}))
    assert read_book(tmp_path / "schema.json").file == {"decimal": ",", "thousands": "."}
    two = {"fields": [pay, {"name": "TAX", "type": "number", "decimalChar": "."}]}
    (tmp_path / "schema.json").write_text(json.dumps(two))
    with pytest.raises(InputError, match="declares two different values for decimalChar"):
        read_book(tmp_path / "schema.json")


def test_json_schema(tmp_path: Path) -> None:
    properties = {
        "SEX": {"title": "Sex", "oneOf": [{"const": 1, "title": "Male"}, {"const": 2, "title": "Female"}]},
        "AGE": {"type": ["integer", "null"], "minimum": 0, "maximum": 99},
        "JOB": {"type": "string", "enum": ["a", "b"]},
        "GAP": {"type": "string", "enum": ["a", "b", ""]},
        "DAY": {"type": "string", "format": "date", "formatMinimum": "2020-01-01"},
        "REF": {"$ref": "#/$defs/sex"},
        "HERE": {"anyOf": [{"$ref": "#/$defs/group"}, {"type": "null"}]},
        "OPEN": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9},
        "FOUR": {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 9},
        "CENTS": {"type": "number", "minimum": 0, "maximum": 9, "multipleOf": 0.01},
        "SKIPPED": {"oneOf": [{"const": 1}, {"const": 2}, {"const": None, "title": "Skipped"}]},
        "EITHER": {"oneOf": [{"type": "integer", "minimum": 0, "maximum": 9}, {"enum": [-9]}]},
        "CODE": {"type": "string", "pattern": "^[a-z]$"},
    }
    schema = {"type": "object", "properties": properties, "$defs": {"group": {"type": "string", "enum": ["1", "2"]}}}
    found = decisions(tmp_path / "schema.json", json.dumps(schema))
    assert plain(found["HERE"]) == {"type": "nominal", "values": ["1", "2", "missing"], "missing": "missing"}
    assert (plain(found["OPEN"])["lower"], plain(found["OPEN"])["upper"]) == (1, 9)
    assert found["FOUR"].why == "the book's 'exclusiveMinimum' is not supported"
    assert plain(found["CENTS"])["decimals"] == 2
    assert plain(found["GAP"]) == {"type": "nominal", "values": ["a", "b", "missing"], "missing": "missing"}
    assert plain(found["SKIPPED"])["labels"] == {0: "Skipped"}
    assert found["EITHER"].why == "its alternatives are not supported"
    assert found["SEX"].spec == {
        "label": "Sex", "type": "nominal", "values": [1, 2], "labels": {1: "Male", 2: "Female"},
    }  # fmt: skip
    assert plain(found["AGE"]) == {"type": "number", "lower": 0, "upper": 99, "integer": True, "missing": "own"}
    assert plain(found["JOB"])["values"] == ["a", "b"]
    assert found["DAY"].why == "dates, but the book has no bounds"
    assert found["REF"].why == "the book's '$ref' is not supported"
    assert found["CODE"].why == "the book's 'pattern' is not supported"


REDCAP = (
    "Variable / Field Name,Form Name,Section Header,Field Type,Field Label,"
    '"Choices, Calculations, OR Slider Labels",Field Note,Text Validation Type OR Show Slider Number,'
    'Text Validation Min,Text Validation Max,Identifier?,"Branching Logic (Show field only if...)",Required Field?\n'
    "record_id,visit,,text,Study ID,,,,,,,,\n"
    "sex,visit,,radio,<b>Sex</b>,\"1, Male | 2, Female\",,,,,,,y\n"
    "race,visit,,checkbox,Race,\"1, White | -9, Other\",,,,,,,\n"
    "age,visit,,text,Age,,,integer,18,99,,,y\n"
    "weight,visit,,text,Weight,,,number_1dp,30,200,,,\n"
    "seen,visit,,text,Seen,,,date_mdy,2020-01-01,2024-12-31,,,y\n"
    "smoker,visit,,yesno,Smoker?,,,,,,,[age] > 20,y\n"
    "pain,visit,,slider,Pain,none | some | worst,,number,,,,,y\n"
    "phone,visit,,text,Phone,,,,,,y,,\n"
    "odd,visit,,dropdown,Odd,1 = Male | 2 = Female,,,,,,,\n"
    "until,visit,,text,Until,,,integer,0,[age],,,y\n"
)  # fmt: skip


def test_redcap(tmp_path: Path) -> None:
    found = decisions(tmp_path / "dictionary.csv", REDCAP)
    assert [name for name, each in found.items() if each.personal] == ["record_id", "phone"]
    assert found["sex"].spec == {
        "label": "Sex", "type": "nominal", "values": [1, 2], "labels": {1: "Male", 2: "Female"},
    }  # fmt: skip
    assert plain(found["race____9"])["values"] == [0, 1]
    assert plain(found["age"]) == {"type": "number", "lower": 18, "upper": 99, "integer": True}
    assert plain(found["weight"]) == {"type": "number", "lower": 30, "upper": 200, "decimals": 1, "missing": "own"}
    assert plain(found["seen"])["format"] == "%Y-%m-%d"
    assert plain(found["smoker"])["missing"] == -1
    assert plain(found["pain"]) == {"type": "number", "lower": 0, "upper": 100, "integer": True}
    assert found["odd"].why == "its choices could not be read"
    assert "its bound [age] is not a number" in found["until"].why
    assert plain(found["visit_complete"])["values"] == [0, 1, 2]


DDI = """<?xml version="1.0"?><codeBook xmlns="ddi:codebook:2_5"><dataDscr>
<var name="SEX" intrvl="discrete"><labl>Sex</labl><valrng><range min="1" max="3"/></valrng>
 <catgry><catValu>1</catValu><labl>Male</labl></catgry><catgry><catValu>2</catValu><labl>Female</labl></catgry>
 <catgry><catValu>3</catValu><labl>Other</labl></catgry><catgry missing="Y"><catValu>Sysmiss</catValu></catgry></var>
<var name="AGE" dcml="0" intrvl="contin"><labl>Age</labl><valrng><range min="0" max="99"/></valrng>
 <invalrng><item VALUE="999"/></invalrng><varFormat type="numeric"/></var>
<var name="SCALE" intrvl="discrete"><valrng><range min="0" max="10"/></valrng>
 <catgry><catValu>0</catValu><labl>worst</labl></catgry><catgry><catValu>10</catValu><labl>best</labl></catgry></var>
<var name="INC" dcml="0" intrvl="contin"><valrng><range min="0" max="99999"/></valrng>
 <codInstr>99999 = not in universe</codInstr></var>
<var name="TWICE" dcml="0"><valrng><range min="0" max="9"/></valrng></var>
<var name="TWICE" dcml="0"><valrng><range min="0" max="8"/></valrng></var>
<var name="TEXT"><varFormat type="character"/></var>
<var name="YES" intrvl="discrete"><valrng><range min="1" max="2"/></valrng><catgry><catValu>1.0</catValu>
 <labl>Yes</labl></catgry><catgry><catValu>2.0</catValu><labl>No</labl></catgry><varFormat type="numeric"/></var>
<var name="CODE" intrvl="discrete"><catgry><catValu>1</catValu><labl>North</labl></catgry>
 <catgry><catValu>2</catValu><labl>South</labl></catgry><varFormat type="character"/></var>
<var name="FEW" dcml="0" intrvl="discrete"><valrng><range min="1" max="2"/></valrng></var>
<var name="COUNTED"><catgry><catValu>150</catValu></catgry><catgry><catValu>161</catValu></catgry></var>
<var name="THREE" intrvl="discrete"><valrng><range min="0" max="10"/></valrng><catgry><catValu>0</catValu>
 <labl>a</labl></catgry><catgry><catValu>5</catValu><labl>b</labl></catgry><catgry><catValu>10</catValu><labl>c</labl>
 </catgry></var>
<var name="HOURS" intrvl="contin"><catgry><catValu>0</catValu><labl>a</labl></catgry><catgry><catValu>1</catValu>
 <labl>b</labl></catgry></var>
<var name="SPAN"><invalrng><range min="8" max="9"/></invalrng><catgry><catValu>1</catValu><labl>Yes</labl></catgry>
 <catgry><catValu>2</catValu><labl>No</labl></catgry><catgry><catValu>8</catValu><labl>DK</labl></catgry></var>
<var name="DAY" dcml="0"><valrng><range min="20200101" max="20201231"/></valrng>
 <varFormat type="numeric" category="date"/></var>
</dataDscr></codeBook>"""


def test_ddi_codebook(tmp_path: Path) -> None:
    found = decisions(tmp_path / "book.xml", DDI)
    assert plain(found["SEX"])["values"] == [1, 2, 3, 0]
    assert plain(found["SEX"])["missing"] == 0
    assert plain(found["AGE"])["codes"] == {999: "missing"}
    assert "0 (worst), 10 (best) in addition to the numbers 0 to 10" in found["SCALE"].why
    assert found["INC"].why == 'the book mentions "99999 = not in universe", but does not list it'
    assert found["TWICE"].why == "the book describes it twice, in different ways"
    assert found["TEXT"].spec is None
    assert (plain(found["YES"])["values"], plain(found["CODE"])["values"]) == ([1, 2], ["1", "2"])
    assert [spec["type"] for _, spec in found["FEW"].readings] == ["number", "nominal"]
    assert "its values have no labels" in found["COUNTED"].why
    assert "only the ends and the middle" in found["THREE"].why
    assert found["HOURS"].why == "the book declares numbers, but lists codes"
    assert plain(found["SPAN"])["labels"] == {1: "Yes", 2: "No", 8: "DK", 9: "missing"}
    assert found["DAY"].why == "dates, but the book has no bounds"


def test_stata_s_own_labels(tmp_path: Path) -> None:
    rows = pd.DataFrame({"SEX": [1, 2], "S": [0, 10], "AGE": [5, 6], "NAME": ["a", "b"]})
    labels = {"SEX": {1: "Male", 2: "Female"}, "S": {0: "worst", 10: "best"}, "AGE": {-9: "refused"}}
    rows.to_stata(tmp_path / "p.dta", write_index=False, value_labels=labels, variable_labels={"SEX": "Sex"})
    found = decisions(tmp_path / "p.dta")
    assert found["SEX"].spec == {
        "label": "Sex", "type": "nominal", "values": [1, 2], "labels": {1: "Male", 2: "Female"},
    }  # fmt: skip
    assert found["S"].why == "only the ends of the scale have labels"
    assert (found["AGE"].spec, found["AGE"].shape) == (None, "{lower: ..., upper: ..., codes: {-9: ...}}")
    assert found["NAME"].personal


@pytest.mark.skipif(find_spec("pyreadstat") is None, reason="pyreadstat is not installed")
def test_spss_s_own_labels(tmp_path: Path) -> None:
    import pyreadstat

    rows = pd.DataFrame({"SEX": [1, 2], "S": [0, 10], "LEVEL": [1, 3]})
    labels = {
        "SEX": {1: "Male", 2: "Female", 9: "Refused"}, "S": {0: "worst", 10: "best", 98: "dk"},
        "LEVEL": {1: "low", 2: "middle", 3: "high"},
    }  # fmt: skip
    measure = {"SEX": "nominal", "S": "scale", "LEVEL": "ordinal"}
    missing = {"SEX": [9], "S": [98]}
    pyreadstat.write_sav(
        rows, str(tmp_path / "p.sav"), variable_value_labels=labels, missing_ranges=missing, variable_measure=measure
    )
    found = decisions(tmp_path / "p.sav")
    assert plain(found["SEX"])["values"] == [1, 2, 9]
    assert [spec["type"] for _, spec in found["S"].readings] == ["nominal", "number"]
    assert found["S"].readings[1][1]["codes"] == {98: "dk"}
    assert plain(found["LEVEL"])["type"] == "ordinal"


RIGHT = {
    "SEX": ["1", "2"], "RAC1P": [*map(str, range(1, 10))], "MAR": [*map(str, range(1, 6))], "DIS": ["1", "2"],
    "CIT": [*map(str, range(1, 6))], "HICOV": ["1", "2"],
}  # fmt: skip
RANGES = {"AGEP": (0, 99), "WAGP": (0, 999999), "JWMNP": (1, 200)}
ASKED = {"NP": [(0, 20), (1, 20), (2, 20)], "WKHP": [(1, 99), (1, 98)], "POVPIP": [(0, 501), (0, 500)]}


@pytest.mark.skipif(not ACS.is_dir(), reason="the Bureau's dictionaries are not in ../shared/acs_dictionaries")
@pytest.mark.parametrize("path", sorted(ACS.glob("*.csv")), ids=lambda path: path.stem)
def test_no_column_of_the_census_bureau_s_dictionaries_is_silently_wrong(path: Path) -> None:
    found = decisions(path)
    for name, values in RIGHT.items():
        assert plain(found[name])["values"] == values
    for name, (codes, last) in {
        "HISP": (24, "24"),
        "SCHL": (25, "24"),
        "COW": (10, "9"),
        "ESR": (7, "6"),
        "MIL": (5, "4"),
    }.items():
        spec = plain(found[name])
        assert (len(spec["values"]), last in spec["values"]) == (codes, True)
        assert spec.get("missing") == (None if name == "HISP" else "missing")
    assert {"01", "06", "36"} <= {*plain(found["ST"])["values"]}
    for name, ends in RANGES.items():
        spec = plain(found[name])
        assert (spec["lower"], spec["upper"], spec["integer"]) == (*ends, True)
        assert spec.get("codes") is None
    for name, readings in ASKED.items():
        assert [(spec["lower"], spec["upper"]) for _, spec in found[name].readings] == readings
    assert found["PINCP"].spec is None
    assert found["PINCP"].readings[0][1]["lower"] < 0
    assert "but no list of them" in found["PUMA"].why
    assert found["SERIALNO"].personal
    assert sum(each.spec is not None for each in found.values()) > 0.9 * len(found)
