"""Texts with a record for each column, and other ways in which agencies publish codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from equistrata.data.drafting.books import read_codebook
from equistrata.data.drafting.draft import draft
from equistrata.data.drafting.entries import Entry, numbered_in_order

KEYS_ABOVE = """Codebook report

Label: General health
Column: 101
SAS Variable Name: GENHLTH
Question:  Would you say that in general your health is:
Value\tValue Label\tFrequency\tPercentage
1\tExcellent\t1,234\t1.2
9\tRefused\t5\t0.1
BLANK\tNot asked or missing\t5\t0.1

Label: Days not well
Column: 102-103
SAS Variable Name: PHYSHLTH
Value\tValue Label\tFrequency\tPercentage
1 - 30\tNumber of days\t1,234\t1.2
88\tNone\t5\t0.1
99\tRefused\t5\t0.1

Label: Interview date
SAS Variable Name: IDATE
Value\tValue Label\tFrequency\tPercentage
HIDDEN\tData not displayed\t5\t0.1
"""
WORDS_FIRST = """Variable Name:  UNION           Position:  41      Length:  1
Concept:        Union status

Answer Categories                                       Code            Frequency   %
Union member                                            1               1,234       1.2
Not a member but covered by a union contract or         2               1,234       1.2
collective agreement
Not applicable                                          Blank           1,234       1.2

Variable Name:  UHRSMAIN        Position:  42      Length:  4.1
Concept:        Usual hours

Answer Categories                                       Code            Frequency   %
Hours                                                   0.0-99.9        1,234       1.2
"""


def entries(tmp_path: Path, name: str, text: str, *columns: str) -> dict[str, Entry]:
    (tmp_path / name).write_text(text)
    return read_codebook(tmp_path / name, columns)


def test_records_with_keys_above_the_name(tmp_path: Path) -> None:
    found = entries(tmp_path, "book.txt", KEYS_ABOVE, "GENHLTH", "PHYSHLTH", "IDATE")
    health, days = found["GENHLTH"], found["PHYSHLTH"]
    assert (health.label, health.missing) == ("General health", True)
    assert health.codes == (("1", "Excellent"), ("9", "Refused"))
    assert (days.lower, days.upper, days.codes) == (1, 30, (("88", "None"), ("99", "Refused")))
    assert (found["IDATE"].label, found["IDATE"].type) == ("Interview date", None)


def test_records_with_words_before_codes(tmp_path: Path) -> None:
    found = entries(tmp_path, "book.txt", WORDS_FIRST, "UNION", "UHRSMAIN")
    assert (found["UNION"].label, found["UNION"].missing) == ("Union status", True)
    agreed = "Not a member but covered by a union contract or collective agreement"
    assert found["UNION"].codes == (("1", "Union member"), ("2", agreed))
    assert (found["UHRSMAIN"].lower, found["UHRSMAIN"].upper, found["UHRSMAIN"].whole) == (0, 99.9, False)


@pytest.mark.parametrize(
    ("text", "kind"), [("88,None", "88"), ("88,88 or more", None), ("0,none", None), ("-1,below", "-1")]
)
def test_what_is_next_to_a_range_and_no_number(tmp_path: Path, text: str, kind: str | None) -> None:
    span = "1-87" if text[:2] in ("88", "0,") else "0-87"
    entry = entries(tmp_path, "book.csv", f"name,code,meaning\nKIDS,{span},\nKIDS,{text}\nSEX,1,m\n", "KIDS", "SEX")[
        "KIDS"
    ]
    assert [raw for raw, _ in entry.codes] == ([kind] if kind else [])


def test_headings_of_french_files_of_modalities(tmp_path: Path) -> None:
    book = (
        "COD_VAR;LIB_VAR;COD_MOD;LIB_MOD;TYPE_VAR;LONG_VAR\nSEXE;Sexe;1;Hommes;CHAR;1\nSEXE;Sexe;2;Femmes;CHAR;1\n"
        "AGED;Âge;0 à 120;Nombre d'années;NUM;3\n"
    )
    found = entries(tmp_path, "varmod.csv", book, "SEXE", "AGED")
    assert (found["SEXE"].label, found["SEXE"].codes) == ("Sexe", (("1", "Hommes"), ("2", "Femmes")))
    assert (found["AGED"].lower, found["AGED"].upper) == (0, 120)


def test_a_pattern_of_times_is_no_value(tmp_path: Path) -> None:
    book = (
        "Variable,Label,Code or Value,Value Description\nWAKE,Wakes at,hh:mm,Time\nWAKE,,77777,Refused\nSEX,Sex,1,m\n"
    )
    entry = entries(tmp_path, "book.csv", book, "WAKE", "SEX")["WAKE"]
    assert (entry.type, "time of day" in entry.remark) == (None, True)


def test_words_of_values_in_mappings(tmp_path: Path) -> None:
    """They were the text of the mapping."""
    book = {
        "SEX": {"values": {"1": {"label": "Male", "frequency": 12}, "2": {"label": "Female", "frequency": 9}}},
        "HOME": {"categories": {"1": {"en": "Own", "fr": "Propre"}, "2": {"en": "Rent", "fr": "Loué"}}},
        "KIDS": {"codes": [{"code": 0, "desc": "None"}, {"code": 1, "desc": "One"}]},
        "PAY": {"range": {"min": 0, "max": 900}, "values": {"-1": {"label": "Refused", "missing": True}}},
    }
    found = entries(tmp_path, "book.json", json.dumps(book), *book)
    assert found["SEX"].codes == (("1", "Male"), ("2", "Female"))
    assert found["HOME"].codes == (("1", "Own"), ("2", "Rent"))
    assert found["KIDS"].codes == (("0", "None"), ("1", "One"))
    assert (found["PAY"].lower, found["PAY"].upper, found["PAY"].codes) == (0, 900, (("-1", "Refused"),))


def test_missing_values_of_a_table_are_none_of_a_required_column(tmp_path: Path) -> None:
    fields = [
        {"name": name, "type": "integer", "constraints": {"minimum": 0, "maximum": 9, "required": name == "A"}}
        for name in "AB"
    ]
    found = entries(tmp_path, "t.json", json.dumps({"fields": fields, "missingValues": ["", "-99"]}), "A", "B")
    assert (found["A"].codes, found["B"].codes) == ((), (("-99", "missing"),))


def test_ranges_and_numbered_lists_of_sas(tmp_path: Path) -> None:
    """Groups of numbers were declared as values of a column that has none of these texts."""
    program = (
        "proc format; value agef low-<18='Child' 18-high='Adult'; value agree 1='Agree' 2='Disagree' other='?'; run;\n"
        "data a; format AGE agef. Q1-Q3 agree.; run;\n"
    )
    found = entries(tmp_path, "formats.sas", program, "AGE", "Q1", "Q2", "Q3")
    assert (found["AGE"].type, found["AGE"].codes) == (None, ())
    assert [found[name].codes for name in ("Q1", "Q3")] == [(("1", "Agree"), ("2", "Disagree"))] * 2


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ({1: "cat", 2: "dog"}, True),
        ({0: "astronaut", 1: "nurse", -9: "refused"}, True),
        ({1: "nurse", 2: "astronaut"}, False),
        ({0: "No", 1: "Yes"}, False),
        ({1: "female", 2: "male"}, False),
        ({1: "ja", 2: "nein"}, False),
        ({1: "only"}, False),
    ],
)
def test_two_labels_may_be_numbered_by_a_program(labels: dict[object, str], told: bool) -> None:
    """Nobody can tell by them: the draft asks, except for words that anybody has."""
    assert numbered_in_order(labels) is told


def test_a_format_of_dates_in_a_label(tmp_path: Path) -> None:
    book = "name,label,type,min,max\nBORN,Birth (DD/MM/YYYY),date,2020-01-01,2020-12-31\nSEX,Sex (1=m),code,,\n"
    assert entries(tmp_path, "b.csv", book, "BORN", "SEX")["BORN"].layout == "%d/%m/%Y"


def test_a_format_of_spreadsheets_says_how_many_decimals(tmp_path: Path) -> None:
    entry = entries(tmp_path, "b.csv", 'name,format,values\nPAY,"#,##0.00",0-900\nSEX,,1=m; 2=f\n', "PAY", "SEX")["PAY"]
    made = draft(["PAY"], {"PAY": entry}, "people")
    assert "lower: 0, upper: 900, decimals: 2" in made.text
