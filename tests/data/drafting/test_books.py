"""Code books in the forms in which they are published, each read into the same entries."""

from __future__ import annotations

import json
import warnings
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest

from equistrata.data.drafting.books import read_codebook
from equistrata.data.drafting.draft import draft, written_by_book
from equistrata.data.drafting.entries import Entry
from equistrata.data.drafting.look import look
from equistrata.data.drafting.tallies import tally
from equistrata.data.files import documents
from equistrata.data.schema import Schema
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
    assert [key for key, entry in found.items() if not entry.implied] == ["AGE", "SEX"]
    age, sex = found["AGE"], found["SEX"]
    assert (age.type, age.lower, age.upper) == AGE
    assert age.integer is (True if name in ("table-schema.json", "redcap.csv", "acs.csv") else None)
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


def test_order_only_where_the_book_says_so(tmp_path: Path) -> None:
    levels = {"1": "Strongly agree", "2": "Neither", "3": "Strongly disagree"}
    book = {
        "A": {"description": "Severity, in quartiles", "values": levels},
        "B": {"type": "ordinal", "values": levels},
        "C": {"measure": "Ordinal", "values": levels},
        "D": {"type": "integer", "values": {str(level): f"Grade {level}" for level in range(12)}},
    }
    kinds = [entry.type for entry in read(tmp_path, json.dumps(book)).values()]
    assert kinds == ["nominal", "ordinal", "ordinal", "nominal"]
    rows = "name,values,type\nA,1=a|2=b|3=c,ordinal\nB,1=a|2=b|3=c,\n"
    assert [entry.type for entry in read(tmp_path, rows).values()] == ["ordinal", "nominal"]


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
        {"name": "M", "type": "yearmonth", "constraints": {"minimum": "2020-01", "maximum": "2020-12"}},
    ]
    found = read(tmp_path, json.dumps({"fields": fields}))
    assert (found["DAY"].type, found["DAY"].layout, found["DAY"].upper) == ("date", "%d.%m.%Y", "2020-12-31")
    assert found["D"].type is None
    month = found["M"]
    assert (month.type, month.layout, month.lower, month.upper) == ("date", "%Y-%m", "2020-01-01", "2020-12-01")


def test_missing_values_alone_do_not_say_what_a_column_holds(tmp_path: Path) -> None:
    fields = [{"name": "ZIP", "type": "string"}, {"name": "OK", "type": "boolean", "trueValues": ["Y"]}]
    found = read(tmp_path, json.dumps({"fields": fields, "missingValues": ["", "-99"]}))
    assert found["ZIP"].type is None
    assert [raw for raw, _ in found["OK"].codes] == ["Y", "false", "-99"]
    entry = read(tmp_path, ddi("", category("-9", "refused", 'missing="Y"')), "book.xml")["V"]
    assert entry.type is None


@pytest.mark.parametrize("kind", ["date", "datetime"])
def test_dates_keep_their_missing_values(tmp_path: Path, kind: str) -> None:
    limits = {"minimum": "2020-01-01", "maximum": "2020-12-31"}
    fields = [{"name": "DAY", "type": kind, "constraints": limits}]
    entry = read(tmp_path, json.dumps({"fields": fields, "missingValues": ["", "9999"]}))["DAY"]
    assert (entry.type, entry.codes, entry.missing) == ("date", (("9999", "missing"),), True)
    fields[0] |= {"missingValues": [{"value": "n/a", "label": "not asked"}], "constraints": limits | {"required": True}}
    entry = read(tmp_path, json.dumps({"fields": fields, "missingValues": [""]}))["DAY"]
    assert (entry.codes, entry.missing) == ((("n/a", "not asked"),), False)


@pytest.mark.parametrize(
    ("field", "integer", "allowed"),
    [
        ({}, None, False),
        ({"type": "integer"}, True, False),
        ({"type": "number"}, None, True),  # how 41.0 is stored says nothing of 41.5
        ({"type": "double"}, None, True),
        ({"type": "number", "multipleOf": 0.5}, False, False),
    ],
)
def test_whole_numbers_only_where_the_book_says_so(
    tmp_path: Path, field: dict[str, str], integer: bool | None, allowed: bool
) -> None:
    entry = read(tmp_path, json.dumps({"A": {**field, "min": 0, "max": 10}}))["A"]
    assert (entry.integer, entry.allows_decimals) == (integer, allowed)


def ddi(attributes: str, inner: str) -> str:
    return f'<codeBook><var name="V" {attributes}><labl>Income</labl>{inner}</var></codeBook>'


def category(raw: str, words: str, attributes: str = "") -> str:
    return f"<catgry {attributes}><catValu>{raw}</catValu><labl>{words}</labl></catgry>"


RANGE = '<valrng><range min="{}" max="{}"/></valrng>'
REFUSED, UNKNOWN = category("-9", "refused"), category("-8", "unknown")


def test_a_range_and_sentinels_of_ddi_are_numbers_with_codes(tmp_path: Path) -> None:
    beside = (("-9", "refused"), ("-8", "unknown"))
    for inner in (REFUSED + UNKNOWN, REFUSED + UNKNOWN + category("99", "99 or more")):
        entry = read(tmp_path, ddi("", RANGE.format(0, 99) + inner), "book.xml")["V"]
        assert (entry.type, entry.lower, entry.upper, entry.codes) == ("number", 0.0, 99.0, beside)
    values = category("1", "a") + category("2", "b") + category("3", "c")
    entry = read(tmp_path, ddi('nature="ordinal"', RANGE.format(1, 3) + values + REFUSED), "book.xml")["V"]
    assert (entry.type, [raw for raw, _ in entry.codes]) == ("ordinal", ["1", "2", "3", "-9"])


def test_what_ddi_calls_missing_is_no_number(tmp_path: Path) -> None:
    missing = category("99", "refused", 'missing="Y"') + '<invalrng><item VALUE="-1"/><item VALUE="99"/></invalrng>'
    entry = read(tmp_path, ddi("", RANGE.format(0, 98) + missing), "book.xml")["V"]
    assert (entry.upper, entry.codes) == (98.0, (("99", "refused"), ("-1", "missing")))


@pytest.mark.parametrize(
    ("attributes", "form", "integer", "decimals"),
    [
        ("", "", None, None),
        ('dcml="0"', "F8.2", True, None),
        ('dcml="2"', "F8.0", None, 2),
        ('dcml="99"', "", None, None),
        ("", "F8.0", True, None),
        ("", "F8.2", None, 2),
        ("", "E10.3", None, None),
    ],
)
def test_decimals_of_ddi(
    tmp_path: Path, attributes: str, form: str, integer: bool | None, decimals: int | None
) -> None:
    written = f'<varFormat type="numeric" formatname="{form}"/>'
    entry = read(tmp_path, ddi(attributes, RANGE.format(0, 98) + written), "book.xml")["V"]
    assert (entry.integer, entry.decimals, entry.allows_decimals) == (
        integer,
        decimals,
        (integer is None and "2" in attributes + form) or "99" in attributes,
    )


@pytest.mark.parametrize(
    ("name", "book"),
    [
        ("ddi.xml", ddi('dcml="2"', RANGE.format(0, 98))),
        ("format.xml", ddi("", RANGE.format(0, 98) + '<varFormat type="numeric" formatname="F8.2"/>')),
        ("decimals.csv", "name,min,max,decimals\nV,0,98,2\n"),
        ("spss.csv", "name,min,max,format\nV,0,98,F8.2\n"),
        ("stata.csv", "name,min,max,type,format\nV,0,98,double,%9.2f\n"),
        ("sql.csv", "name,min,max,type\nV,0,98,\"DECIMAL(8,2)\"\n"),
        ("redcap.csv", "Variable / Field Name,Text Validation Type OR Show Slider Number,Text Validation Min,"
         "Text Validation Max\nV,number_2dp_comma_decimal,0,98\n"),
        ("fields.json", json.dumps({"fields": [{"name": "V", "decimals": "2", "minimum": 0, "maximum": 98}]})),
        ("schema.json", json.dumps({"$schema": "x", "properties": {
            "V": {"type": "number", "multipleOf": 0.05, "minimum": 0, "maximum": 98}}})),
        ("format.json", json.dumps({"V": {"format": "%9.2f", "min": 0, "max": 98}})),
    ],
)  # fmt: skip
def test_decimals_by_the_book_are_drafted(tmp_path: Path, name: str, book: str) -> None:
    document = documents.parse(draft(["V"], read(tmp_path, book, name), "people").text, "draft")
    column = Schema.from_dict(document, "draft")["V"]
    assert (column.decimals, column.integer, column.bounds) == (2, False, (0.0, 98.0))


@pytest.mark.parametrize(
    "field",
    [{"type": "integer", "decimals": 2}, {"type": "number", "multipleOf": 1}, {"decimals": 0}, {"format": "F8.0"}],
)
def test_whole_numbers_have_no_decimals(tmp_path: Path, field: dict[str, object]) -> None:
    text = draft(["A"], read(tmp_path, json.dumps({"A": field | {"min": 0, "max": 9}})), "people").text
    assert "A: {type: number, lower: 0, upper: 9, integer: true}" in text


@pytest.mark.parametrize("odd", [True, [2], {"a": 2}, "two", 2.5, -1, 99])
def test_decimals_that_are_no_count_say_nothing(tmp_path: Path, odd: object) -> None:
    entry = read(tmp_path, json.dumps({"A": {"decimals": odd, "multipleOf": "x", "min": 0, "max": 9}}))["A"]
    assert (entry.type, entry.decimals) == ("number", None)


def test_decimals_of_statas_formats(tmp_path: Path) -> None:
    frame = pd.DataFrame({"PAY": [1.25, 3.5], "AGE": [3, 4]})
    frame.to_stata(tmp_path / "people.dta", write_index=False)
    content = (tmp_path / "people.dta").read_bytes()
    assert b"%10.0g" in content  # pandas writes no other format of a double
    (tmp_path / "people.dta").write_bytes(content.replace(b"%10.0g", b"%-9.2f"))
    found = read_codebook(tmp_path / "people.dta")
    assert (found["PAY"].decimals, found["AGE"].decimals) == (2, None)


@pytest.mark.skipif(find_spec("pyreadstat") is None, reason="pyreadstat is not installed")
def test_decimals_of_spsss_formats(tmp_path: Path) -> None:
    import pyreadstat

    frame, path = pd.DataFrame({"PAY": [1.25], "AGE": [3.0], "SIZE": [0.5]}), tmp_path / "people.sav"
    pyreadstat.write_sav(frame, str(path), variable_format={"PAY": "F8.2", "AGE": "F3.0", "SIZE": "E10.3"})
    assert [entry.decimals for entry in read_codebook(path).values()] == [2, None, None]


def test_values_with_bounds_around_them_stay_values(tmp_path: Path) -> None:
    book = {"SEX": {"min": 1, "max": 2, "values": {"1": "Male", "2": "Female"}}}
    assert read(tmp_path, json.dumps(book))["SEX"].type == "nominal"


def test_a_code_next_to_the_range_is_a_number_unless_it_is_missing(tmp_path: Path) -> None:
    limits = {"minimum": 0, "maximum": 98}
    fields = [{"name": "A", "type": "integer", "constraints": limits, "categories": [{"value": 99, "label": "99+"}]}]
    entry = read(tmp_path, json.dumps({"fields": fields}))["A"]
    assert (entry.upper, entry.codes) == (99.0, ())
    assert entry.remark.startswith("99 (99+): a number here")
    entry = read(tmp_path, json.dumps({"fields": fields, "missingValues": ["99"]}))["A"]
    assert (entry.upper, entry.codes, entry.remark) == (98.0, (("99", "missing"),), "")
    fees = {"values": {"1": "included in rent", "2": "no charge", "min": 3, "max": 999}}
    assert [raw for raw, _ in read(tmp_path, json.dumps({"FEE": fees}))["FEE"].codes] == ["1", "2"]


def test_groups_of_numbers_are_values(tmp_path: Path) -> None:
    entry = read(tmp_path, "name,values\nAGEGROUP,0-17; 18-64; 65-99\n")["AGEGROUP"]
    assert (entry.type, [raw for raw, _ in entry.codes]) == ("nominal", ["0-17", "18-64", "65-99"])


REDCAP = (
    '"Variable / Field Name","Field Type","Field Label","Choices, Calculations, OR Slider Labels","Text Validation '
    'Type OR Show Slider Number","Text Validation Min","Text Validation Max",Identifier?,"Branching Logic (Show field '
    'only if...)","Required Field?"\n'
    "born,text,Born,,date_dmy,1930-01-01,2020-12-31,,,y\n"
    "seen,text,Seen,,datetime_mdy,2020-01-01 00:00,2020-12-31 23:59,,,\n"
    'race,checkbox,Race,"1, White | -9, Not said",,,,,,\n'
    "sex,radio,Sex,1,,,,,,\n"
    'smokes,radio,Smokes,"1, 2 to 5 | 2, more; or less",,,,,,y\n'
    "packs,text,Packs,,integer,0,99,,[smokes] = 1,y\n"
    'bmi,calc,BMI,"round([weight]/([height]^2), 1)",,,,,,\n'
    'pain,slider,Pain,"None | Some | Worst",,,,,,y\n'
    "hint,descriptive,Please read,,,,,,,\n"
    "dead,truefalse,Died,,,,,,,y\n"
    'clinic,radio,Clinic,"1, A | 2, B",,,,y,,\n'
)


def test_redcap(tmp_path: Path) -> None:
    found = read(tmp_path, REDCAP)
    born, seen, smokes, packs, pain = (found[name] for name in ("born", "seen", "smokes", "packs", "pain"))
    assert (born.type, born.layout, born.lower, born.missing) == ("date", "%Y-%m-%d", "1930-01-01", False)
    assert born.remark == "REDCap shows born as date_dmy; its raw export has ISO dates, as declared here"
    assert (seen.type, seen.layout, seen.upper, seen.missing) == ("date", "%Y-%m-%d %H:%M", "2020-12-31", True)
    assert (smokes.codes, smokes.missing) == ((("1", "2 to 5"), ("2", "more; or less")), False)
    assert (packs.type, packs.integer, packs.missing) == ("number", True, True)
    assert found["bmi"].type is None
    assert (pain.type, pain.lower, pain.upper, pain.integer) == ("number", 0.0, 100.0, True)
    assert found["dead"].codes == (("1", "True"), ("0", "False"))
    assert found["clinic"].identifier
    assert "hint" not in found


def test_redcap_exports_a_column_for_each_choice_of_a_checkbox(tmp_path: Path) -> None:
    found = read(tmp_path, REDCAP)
    assert "race" not in found
    assert found["race___1"].label == "Race: White"
    assert found["race____9"].label == "Race: Not said"
    assert found["race___1"].codes == (("0", "Unchecked"), ("1", "Checked"))
    assert found["race___1"].missing


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("utf-16.csv", "Variable,Label,Values\nAGE,Age,0-99\nSEX,Sex,1=Male; 2=Female\n".encode("utf-16")),
        ("dashes.csv", "Variable,Label,Values\nAGE,Age,0–99\nSEX,Sex,1 – Male; 2 – Female\n".encode("cp1252")),
        ("title.csv", b"Data dictionary\nof, say, 2024\nVariable;Label;Values\nAGE;Age;0-99\nSEX;;1=Male, 2=Female\n"),
        ("capitals.csv", b"NAME,DESCRIPTION,TYPE,VALID VALUES\nAGE,Age,integer,0-99\nSEX,Sex,,1 - Male | 2 - Female\n"),
        ("package.json", b'{"name": "p", "resources": [{"path": "readme.md"}, {"schema": {"fields": [{"name": "AGE",'
         b'"constraints": {"minimum": 0, "maximum": 99}}, {"name": "SEX", "values": "1=Male; 2=Female"}]}}]}'),
        ("schema.json", b'{"$schema": "x", "properties": {"AGE": {"type": ["integer", "null"], "minimum": 0,'
         b'"maximum": 99}, "SEX": {"values": {"1": "Male", "2": "Female"}}}}'),
    ],
)  # fmt: skip
def test_books_as_programs_save_them(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    found = read_codebook(tmp_path / name)
    assert (found["AGE"].type, found["AGE"].lower, found["AGE"].upper) == AGE
    assert (found["SEX"].type, found["SEX"].codes) == SEX
    assert list(found) == ["AGE", "SEX"]


def test_a_package_without_a_table_in_it_names_no_columns(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "p", "resources": [{"path": "d.csv", "schema": "schema.json"}]}')
    with pytest.raises(InputError, match="names no columns"):
        read_codebook(tmp_path / "package.json")


@pytest.mark.parametrize(
    ("cell", "codes"),
    [
        ("1=Yes, 2=No, 9=Don't know, refused", (("1", "Yes"), ("2", "No"), ("9", "Don't know, refused"))),
        ("0-99, -9=Refused", (("-9", "Refused"),)),
        ("0 - 17; 18 - 64", (("0 - 17", ""), ("18 - 64", ""))),
        ("<HS; HS; >HS", (("<HS", ""), ("HS", ""), (">HS", ""))),
        ("<B; >B", (("<B", ""), (">B", ""))),
        ("North - East; South - West", (("North - East", ""), ("South - West", ""))),
    ],
)
def test_commas_and_dashes_in_lists_of_values(tmp_path: Path, cell: str, codes: tuple[tuple[str, str], ...]) -> None:
    assert read(tmp_path, f'name,label,values\nX,x,"{cell}"\n')["X"].codes == codes


def test_markup_of_redcap_and_ranges_of_ids_are_no_words_and_values(tmp_path: Path) -> None:
    head = 'Variable / Field Name,Field Type,Field Label,"Choices, Calculations, OR Slider Labels"\n'
    sex = read(tmp_path, f'{head}SEX,radio,<b>Sex</b> at birth,"1, <i>Male</i> | 2, Female"\n')["SEX"]
    assert (sex.label, sex.codes) == ("Sex at birth", SEX[1])
    book = "NAME,ID,C,13,id\nVAL,ID,C,13,2024GQ01,2024GQ99,GQ\nNAME,SEX,C,1,Sex\nVAL,SEX,C,1,1,1,Male\n"
    found = read(tmp_path, f"{book}VAL,SEX,C,1,2,2,Female\n")
    assert (found["ID"].type, found["ID"].codes, found["SEX"].codes) == (None, (), SEX[1])


def test_labels_of_statas_missing_values_are_no_values(tmp_path: Path) -> None:
    people = pd.DataFrame({"SEX": [1, 2, 1]})
    labels = {"SEX": {1: "Male", 2: "Female", 2_147_483_622: ".a: refused"}}
    people.to_stata(tmp_path / "people.dta", write_index=False, value_labels=labels)
    sex = read_codebook(tmp_path / "people.dta")["SEX"]
    assert (sex.type, sex.codes, sex.missing) == (*SEX, True)


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
        ('{"SEX": {"values": {"1": "m"}}, "SEX": {"values": {"2": "f"}}}', "has the key 'SEX' twice"),
        ('{"SEX": {"values": {"1": "m", "1": "f"}}}', "has the key '1' twice"),
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


def test_broken_stata_files_are_refused_without_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "people.dta"
    frame = pd.DataFrame({"SEX": pd.Categorical.from_codes([0, 1], ["Male", "Female"]), "AGE": [3, 4]})
    frame.to_stata(path, write_index=False, version=114)
    more_columns = bytearray(path.read_bytes())
    more_columns[4] = 128
    frame.to_stata(path, write_index=False, version=118)
    other_letters = bytearray(path.read_bytes())
    other_letters[-40:] = other_letters[-40:].replace(b"Female", b"Fem\xe4le")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for content in (b"n" * 5_000, more_columns, other_letters[:400]):
            path.write_bytes(content)
            with pytest.raises(InputError, match="is not a Stata file that can be read"):
                read_codebook(path)
        path.write_bytes(other_letters)
        assert [*read_codebook(path)] == ["SEX", "AGE"]


def test_a_column_that_is_described_twice_and_a_code_of_two_meanings_are_told(tmp_path):
    book = tmp_path / "book.json"
    book.write_text('[{"name": "a", "enum": [1, 3]}, {"name": "a", "enum": [1, 2]}, {"name": "b", "enum": [2, 4]}]')
    found = read_codebook(book)
    assert found["a"].values == [1, 3]
    assert "more than once" in found["a"].remark
    assert not found["b"].remark
    book = tmp_path / "book.csv"
    book.write_text("variable,values\nb,1=A;2=B;1=C\nc,1=A;2=B\n")
    found = read_codebook(book)
    assert "two meanings of 1 in b" in found["b"].remark
    assert not found["c"].remark


@pytest.mark.parametrize(
    ("row", "kind", "codes"),
    [
        ("-9=refused,0,1000", "number", (("-9", "refused"),)),
        ("-9: refused,0,1000", "number", (("-9", "refused"),)),
        ("N=Not applicable (under 16),0,99", "number", (("N", "Not applicable (under 16)"),)),
        ("1=m,,", "nominal", (("1", "m"),)),
        ("-9=refused,,", None, (("-9", "refused"),)),
        ("AGE >= 18,0,99", "number", ()),
        ("Note: see page 3,,", None, ()),
        ("dollars,0,99", "number", ()),
    ],
)
def test_a_single_code_in_a_cell(
    tmp_path: Path, row: str, kind: str | None, codes: tuple[tuple[str, str], ...]
) -> None:
    entry = read(tmp_path, f"name,values,min,max\nX,{row}\n")["X"]
    assert (entry.type, entry.codes) == (kind, codes)


def test_dates_of_a_csv_book_are_in_its_own_format(tmp_path: Path) -> None:
    rows = (
        "A,date,dd.mm.yyyy,01.01.2000,31.12.2020",
        "B,date,%d/%m/%Y,2000-01-01,2020-12-31",
        "C,date,,2000-01-01,2020-12-31",
        "D,,DD/MM/YYYY,01/01/2000,31/12/2020",
        "E,datetime,yyyy-mm-dd hh:mm:ss,2000-01-01,2020-12-31",
        "F,date (mm/dd/yyyy),,2000-01-01,12/31/2020",
    )
    found = read(tmp_path, "\n".join(["name,type,format,lower,upper", *rows]))
    layouts = ["%d.%m.%Y", "%d/%m/%Y", "%Y-%m-%d", "%d/%m/%Y", "%Y-%m-%d %H:%M:%S", "%m/%d/%Y"]
    assert [entry.layout for entry in found.values()] == layouts
    assert {(entry.type, entry.lower, entry.upper) for entry in found.values()} == {
        ("date", "2000-01-01", "2020-12-31")
    }


@pytest.mark.parametrize(
    ("bounds", "kind"),
    [
        (("2000-03-01", "2020-12-31"), "date"),
        (("31.12.2000", "31.12.2020"), "date"),
        (("20000301", "20201231"), "number"),  # as good as any other number, until the book says more
        (("2000", "2020"), "number"),
        (("2000-03-01", ""), None),
        (("spring", "autumn"), None),
    ],
)
def test_bounds_that_are_dates_say_so_without_a_type(tmp_path: Path, bounds: tuple[str, str], kind: str | None) -> None:
    """A stranger's book has name, label, values, lower and upper, as the site's first page has them."""
    books = {
        "book.json": json.dumps({"D": {"min": bounds[0], "max": bounds[1]}}),
        "book.csv": f"name,label,values,lower,upper\nD,Day,,{bounds[0]},{bounds[1]}\n",
    }
    for name, text in books.items():
        entry = read(tmp_path, text, name)["D"]
        assert entry.type == kind
        if kind == "date":
            assert str(entry.upper) == "2020-12-31"


def test_dates_of_which_no_format_is_said_are_to_be_checked(tmp_path: Path) -> None:
    """A stranger's file had 29.10.2024, and its draft declared 2024-10-29 without a word."""
    book = "name,label,lower,upper,format\nD,Day,2023-01-01,2024-12-31,\nE,End,2023-01-01,2024-12-31,dd.mm.yyyy\n"
    entries = read(tmp_path, book, "book.csv")
    text = draft(["D", "E"], entries, "stays").text
    assert [line.strip() for line in text.splitlines() if "no format" in line] == [
        "# CHECK: the book has no format of D; its cells are taken to be as 2000-12-31"
    ]
    assert (entries["D"].layout, entries["E"].layout) == ("%Y-%m-%d", "%d.%m.%Y")


@pytest.mark.parametrize(
    ("bounds", "layout", "said"),
    [
        (("01/03/2000", "31/12/2020"), "%d/%m/%Y", "its bounds are written as %d/%m/%Y"),
        (("03/31/2000", "12/12/2020"), "%m/%d/%Y", "its bounds are written as %m/%d/%Y"),
        (("20000301", "20201231"), "%Y%m%d", "its bounds are written as %Y%m%d"),
        (("01/03/2000", "12/12/2020"), None, "may mean %d/%m/%Y or %m/%d/%Y"),
        (("spring", "autumn"), None, "bounds are none in the format %Y-%m-%d"),
        (("", ""), None, "without a first and a last day"),
    ],
)
def test_bounds_of_dates_without_a_format(
    tmp_path: Path, bounds: tuple[str, str], layout: str | None, said: str
) -> None:
    books = {
        "book.json": json.dumps({"D": {"type": "date", "lower": bounds[0], "upper": bounds[1]}}),
        "book.csv": f"name,type,lower,upper\nD,date,{bounds[0]},{bounds[1]}\n",
    }
    for name, text in books.items():
        entry = read(tmp_path, text, name)["D"]
        assert (entry.type, entry.layout if layout else None) == (layout and "date", layout)
        assert said in entry.remark


@pytest.mark.parametrize("given", ["DATE9.", "dd.mm.yy", "%td", "quarterly"])
def test_a_format_of_dates_that_is_not_known_is_a_question(tmp_path: Path, given: str) -> None:
    entry = read(tmp_path, f"name,type,format,lower,upper\nD,date,{given},2000-01-01,2020-12-31\n")["D"]
    assert entry.type is None
    assert repr(given) in entry.remark
    numbers = read(tmp_path, "name,type,format,lower,upper\nA,numeric,F8.0,0,9\nB,numeric,%8.0g,0,9\n")
    assert [entry.type for entry in numbers.values()] == ["number", "number"]


def test_words_of_values_are_no_label_of_their_column(tmp_path: Path) -> None:
    rows = "SEX,1,male\nSEX,2,female\nPAY,-9,refused\nPAY,0-1000,amount\nAGE,0-110,Age in years\nONE,1,yes\n"
    found = read(tmp_path, f"variable,value,label\n{rows}JOB,,Job\n,a,Alpha\n,b,Beta\n")
    labels = {name: entry.label for name, entry in found.items()}
    assert labels == {"SEX": "", "PAY": "", "AGE": "Age in years", "ONE": "", "JOB": "Job"}
    assert found["SEX"].codes == (("1", "male"), ("2", "female"))
    assert found["PAY"].codes == (("-9", "refused"),)
    assert found["JOB"].codes == (("a", "Alpha"), ("b", "Beta"))


@pytest.mark.parametrize("rows", ["SEX,1,Sex\nSEX,2,Sex\n", "SEX,1,Sex\n,2,\n"])
def test_a_label_in_each_row_or_the_first_alone_is_the_columns(tmp_path: Path, rows: str) -> None:
    sex = read(tmp_path, f"variable,value,label\n{rows}")["SEX"]
    assert (sex.label, sex.codes) == ("Sex", (("1", ""), ("2", "")))


@pytest.mark.parametrize(
    ("given", "whole", "allowed"),
    [
        ("numeric,", None, True),
        ("Continuous,", None, True),
        ("numeric(8.2),", None, True),
        (",scale", None, True),
        ("decimal,", None, True),
        ("integer,scale", True, False),
        (",", None, False),
    ],
)
def test_whole_bounds_of_numbers_that_may_have_decimals(
    tmp_path: Path, given: str, whole: bool | None, allowed: bool
) -> None:
    entry = read(tmp_path, f"name,min,max,type,measure\nA,0,9,{given}\n")["A"]
    assert (entry.type, entry.integer, entry.allows_decimals) == ("number", whole, allowed)
    text = draft(["A"], {"A": entry}, "people").text
    assert ("integer: true}" in text) is (whole is True or given == ",")
    assert ("CHECK: the book allows decimals" in text) is allowed


def test_decimals_of_a_ddi_book_that_calls_its_numbers_continuous(tmp_path: Path) -> None:
    entry = read(tmp_path, ddi('intrvl="contin"', RANGE.format(0, 98)), "book.xml")["V"]
    assert (entry.integer, entry.allows_decimals) == (None, True)
    entry = read(tmp_path, ddi('intrvl="contin" dcml="0"', RANGE.format(0, 98)), "book.xml")["V"]
    assert (entry.integer, entry.allows_decimals) == (True, False)


def test_decimal_places_of_a_csv_book(tmp_path: Path) -> None:
    found = read(tmp_path, "name,min,max,type,decimals\nA,0,9,numeric,2\nB,0,9,numeric,0\nC,0,9,int,\n")
    assert [entry.integer for entry in found.values()] == [None, True, True]
    assert (found["A"].allows_decimals, found["A"].whole) == (True, False)


def test_a_wide_range_of_what_is_stored_as_text_is_one_of_numbers(tmp_path: Path) -> None:
    found = read(tmp_path, "name,type,values\nA,string,0-99\nB,factor,0-12; 98=refused\nC,string,01-99\n")
    assert [entry.type for entry in found.values()] == ["number", None, None]
    assert found["B"].remark  # its codes alone would have been its values


@pytest.mark.parametrize("kind", ["factor", "Categorical", "string", "char(2)", "ordinal"])
def test_bounds_of_a_categorical_column_are_no_numbers(tmp_path: Path, kind: str) -> None:
    books = {
        "book.csv": f"name,type,min,max,values\nA,{kind},1,2,\nB,{kind},1,2,1=m;2=f\nC,{kind},,,1-5\n",
        "book.json": json.dumps(
            {
                "A": {"type": kind, "min": 1, "max": 2},
                "B": {"type": kind, "min": 1, "max": 2, "values": {"1": "m", "2": "f"}},
                "C": {"type": kind, "values": "1-5"},
            }
        ),
    }
    for name, text in books.items():
        found = read(tmp_path, text, name)
        assert [entry.type for entry in found.values()] == [None, "nominal", None]
        assert "and gives bounds, but no values" in found["A"].remark
        assert found["B"].codes == (("1", "m"), ("2", "f"))


def test_redcap_exports_whether_each_form_is_complete(tmp_path: Path) -> None:
    complete = read(tmp_path, BOOKS["redcap.csv"])["visit_complete"]
    assert (complete.type, complete.implied) == ("ordinal", True)
    assert complete.codes == (("0", "Incomplete"), ("1", "Unverified"), ("2", "Complete"))
    made = draft(["AGE", "SEX"], {"visit_complete": complete}, "people")
    assert made.unknown == []
    assert [*read(tmp_path, "name,form name,values\nSEX,visit,1=m; 2=f\n")] == ["SEX"]


def test_a_range_of_codes_is_none_of_numbers(tmp_path: Path) -> None:
    books = {
        "book.json": json.dumps({"ZIP": {"description": "Zip", "values": "01001-01040"}}),
        "book.csv": "name,label,values\nZIP,Zip,01001-01040\n",
        "values.csv": "name,label,value,value label\nZIP,Zip,01001-01040,zips\nSEX,Sex,1,m\nSEX,Sex,2,f\n",
    }
    for name, text in books.items():
        assert read(tmp_path, text, name)["ZIP"].type is None
    entry = read(tmp_path, "name,values\nZIP,01001-01040; 99999=abroad\n")["ZIP"]
    assert (entry.type, entry.codes) == (None, ())


def test_what_a_csv_file_has_for_an_absent_cell_is_no_value(tmp_path: Path) -> None:
    limits = {"A": {"enum": ["x", "y"]}, "B": {"minimum": 0, "maximum": 9}}
    fields = [{"name": name, "constraints": each} for name, each in limits.items()]
    found = read(tmp_path, json.dumps({"fields": fields, "missingValues": ["", "NA", "-"]}))
    assert found["A"].codes == (("x", ""), ("y", ""), ("-", "missing"))
    assert (found["B"].codes, found["B"].missing) == ((("-", "missing"),), True)


def test_a_time_of_day_is_asked_for_as_such(tmp_path: Path) -> None:
    entry = read(tmp_path, json.dumps({"fields": [{"name": "A", "type": "time"}]}))["A"]
    assert entry.type is None
    assert entry.remark.startswith("a time of day, which is no type here; write minutes of the day")


@pytest.mark.parametrize(
    "line", ["A,time,,,", "A,,,00:00,23:59", "A,text,time,,", "A,text,time_hh_mm_ss,,", "A,string,,8:00,8:30 pm"]
)
def test_a_time_of_day_of_a_csv_book_too(tmp_path: Path, line: str) -> None:
    """Such columns had been called without values or bounds."""
    header = "name,type,text_validation_type_or_show_slider_number,lower,upper"
    entry = read(tmp_path, f"{header}\n{line}\nB,number,,0,9\n", "book.csv")["A"]
    assert entry.type is None
    assert entry.remark.startswith("a time of day, which is no type here; write minutes of the day")


def test_how_a_table_schema_has_numbers_written(tmp_path: Path) -> None:
    limits = {"minimum": 0, "maximum": 9}
    fields: list[dict[str, object]] = [
        {"name": "A", "type": "number", "decimalChar": ",", "groupChar": ".", "constraints": limits},
        {"name": "B", "type": "number", "decimalChar": ",", "bareNumber": False, "constraints": limits},
        {"name": "C", "type": "string", "groupChar": " "},
    ]
    found = read(tmp_path, json.dumps({"fields": fields}))
    assert "signs: [" in found["B"].remark
    assert written_by_book(["a", "b", "c"], found) == {"decimal": ",", "thousands": "."}
    fields[1]["decimalChar"] = "."
    assert written_by_book(["A", "B"], read(tmp_path, json.dumps({"fields": fields}))) == {}


@pytest.mark.parametrize("name", ["codes", "missing values", "special_codes"])
@pytest.mark.parametrize("cell", ["-9=refused; -8=not asked", "-9: refused | -8: not asked"])
def test_codes_in_a_column_of_their_own_beside_bounds(tmp_path: Path, name: str, cell: str) -> None:
    book = f"name,values,lower,upper,{name}\nPAY,,0,1000,{cell}\nSEX,m=Male; f=Female,,,-9=refused\n"
    found = read(tmp_path, book, "book.csv")
    assert (found["PAY"].type, found["PAY"].upper) == ("number", 1000.0)
    assert found["PAY"].codes == (("-9", "refused"), ("-8", "not asked"))
    assert found["SEX"].codes == (("m", "Male"), ("f", "Female"), ("-9", "refused"))


@pytest.mark.parametrize(
    ("cell", "codes"),
    [("99", ["99"]), ('"-9, -8"', ["-9", "-8"]), ("-9 -8", ["-9", "-8"]), ("none", []), ("", []), ("NA", [])],
)
def test_codes_without_words_in_a_column_of_their_own(tmp_path: Path, cell: str, codes: list[str]) -> None:
    entry = read(tmp_path, f"name,lower,upper,missing values,required\nA,0,9,{cell},yes\n", "book.csv")["A"]
    assert entry.codes == tuple((code, "missing") for code in codes)
    assert entry.missing == (cell == "NA")


def test_a_column_named_codes_alone_has_the_values(tmp_path: Path) -> None:
    found = read(tmp_path, "name,codes\nSEX,m=Male; f=Female\n", "book.csv")
    assert found["SEX"].codes == (("m", "Male"), ("f", "Female"))


def test_dates_of_stata_are_asked_for_as_such_and_read_as_it_exports_them(tmp_path: Path) -> None:
    days = pd.date_range("2020-01-01", periods=60, freq="7D")
    pd.DataFrame({"DAY": days, "PAY": 1.5}).to_stata(tmp_path / "b.dta", write_index=False, convert_dates={"DAY": "td"})
    found = read_codebook(tmp_path / "b.dta")
    assert found["DAY"].type is None
    assert found["DAY"].remark.startswith('dates; declare {type: date, format: "%d%b%Y"')
    assert found["PAY"].remark == ""
    cells = [day.strftime("%d%b%Y").lower() for day in days]
    entry = look(tally([pd.DataFrame({"DAY": cells})]), known=found)[0]["DAY"]
    assert (entry.type, entry.layout, entry.lower, entry.upper) == ("date", "%d%b%Y", "2020-01-01", "2021-12-31")


def test_labels_of_missing_codes_alone_are_codes_beside_the_numbers_that_rows_have():
    book = {"AGE": Entry.of("AGE", "Age", [(-9, "Refused"), (-8, "Not asked")])}
    assert book["AGE"].type is None
    assert draft(["AGE"], book, "people").open["AGE"].startswith("only codes of missing cells")
    ages = pd.DataFrame({"AGE": [-9, *range(18, 80)]})
    found, marks = look(tally([ages]), {}, book)
    assert (found["AGE"].lower, found["AGE"].upper, marks["AGE"]) == (18, 79, ["type", "bounds"])
    assert found["AGE"].codes == (("-9", "Refused"), ("-8", "Not asked"))  # -8 is in the book, and in no row
    found, marks = look(tally([ages.replace(-9, -7)]), {}, book)
    assert found["AGE"].codes[0] == ("-7", "-7")
    assert marks["AGE"] == ["type", "bounds", "codes"]
    only = look(tally([pd.DataFrame({"AGE": [-9, -8] * 9})]), {}, book)[0]["AGE"]
    assert (only.type, only.codes) == ("nominal", (("-9", "Refused"), ("-8", "Not asked")))


CARE = """
{head}
|---|---|---|---|---|
| AGE | Age in years | integer | 0-99 | |
| SEX | Sex | text | 1 = Male, 2 = Female | |
| LEFT | Day of leaving | date (DD.MM.YYYY) | 01.01.2025 to 31.12.2025 | blank if still here |
"""


@pytest.mark.parametrize(
    "head",
    [
        "| Field | Description | Type | Allowed values / range | Missing |",
        "| Field (in file) | Description (English) | Type | Values or range | Missing |",
        "| Variable | Label | Data type | Codes, value labels | Nulls |",
    ],
)
def test_headings_of_several_names_and_with_remarks(tmp_path: Path, head: str) -> None:
    found = read(tmp_path, CARE.format(head=head), "book.md")
    assert (found["AGE"].type, found["AGE"].lower, found["AGE"].upper) == AGE
    assert (found["SEX"].type, found["SEX"].codes) == SEX
    left = found["LEFT"]
    assert (left.type, left.layout, left.lower, left.missing) == ("date", "%d.%m.%Y", "2025-01-01", True)


def test_a_tree_of_which_no_key_is_known_has_the_fields_that_the_table_names(tmp_path: Path) -> None:
    """In German, with decimal commas and a type beside a format."""
    text = """
stand: 2026
felder:
  AGE: {bezeichnung: Alter, typ: ganzzahl, minimum: 0, maximum: 99}
  SEX: {bezeichnung: Geschlecht, werte: {1: Male, 2: Female}}
  MARK: {bezeichnung: Note, typ: dezimal, minimum: "1,0", maximum: "6,0"}
  BORN: {bezeichnung: Geburtsdatum, typ: datum, format: TT.MM.JJJJ, minimum: 01.01.2008, maximum: 31.12.2021}
"""
    (tmp_path / "book.yaml").write_text(text)
    found = read_codebook(tmp_path / "book.yaml", ["AGE", "SEX", "MARK", "BORN"])
    assert (found["AGE"].type, found["AGE"].lower, found["AGE"].upper) == AGE
    assert (found["SEX"].type, found["SEX"].codes) == SEX
    assert (found["MARK"].type, found["MARK"].lower, found["MARK"].upper) == ("number", 1.0, 6.0)
    assert (found["BORN"].type, found["BORN"].layout, found["BORN"].upper) == ("date", "%d.%m.%Y", "2021-12-31")
