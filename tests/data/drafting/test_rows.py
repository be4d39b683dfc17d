"""Dictionaries in rows: lists of codes in a table of their own, forms (XLSForm), formats in remarks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from workbooks import saved

from equistrata.data.columns.column import number_in
from equistrata.data.drafting.books import read_codebook
from equistrata.data.drafting.draft import draft
from equistrata.data.drafting.entries import Entry
from equistrata.data.drafting.rows.constraints import allowed_in

SECTIONS = """variable,description,type,values,remark
sex,Sex at birth,code,see list SEX,
citizen,Citizenship,code,List: COUNTRY,
town,Town,code,see list TOWN,
edu,Schooling,code,,
born,Date of birth,date,1920-01-01 to 2025-12-31,format DD.MM.YYYY
seen,Seen at,timestamp,2020-01-01 to 2025-12-31,"format DD.MM.YYYY HH:MM, local time"
left,Left on,date,2020-01-01 to 2025-12-31,DD/MM/YYYY in 2024 and YYYY-MM-DD since
moved,Moved on,date,2020-01-01 to 2025-12-31,DD.MM.YY
rent,Rent,"number, 2 decimals",0-9000,EUR

list,code,meaning
SEX,1,male
SEX,2,female
COUNTRY,CH,Switzerland
COUNTRY,DE,Germany
edu,1,low
edu,2,high
"""
FORM: dict[str, list[list[Any]]] = {
    "survey": [
        ["type", "name", "label::English (en)", "label::Français (fr)", "hint", "constraint", "required", "relevant"],
        ["begin_group", "person", "Person"],
        ["select_one sexlist", "sex", "Sex", "Sexe", None, None, "yes"],
        ["integer", "age", "Age", "Âge", None, ". >= 0 and . < 120", "yes"],
        ["integer", "hours", "Hours", "Heures", None, "(. >= 0 and . <= 90) or . = 98", "yes", "${age} > 14"],
        ["decimal", "arm", "Arm in cm", "Bras", None, ".>=5 and .<=40", "yes"],
        ["date", "born", "Birth", "Naissance", None, ". >= date('1920-01-01') and . <= date('2025-12-31')", "yes"],
        ["date", "seen", "Seen", "Vu", None, ". >= date('2020-01-01') and . <= today()", "yes"],
        ["select_multiple crops", "crops", "Crops", "Cultures", None, None, "yes"],
        ["select_one region or_other", "region", "Region", "Région"],
        ["select_one towns", "yn", "A list that is not there"],
        ["note", "thanks", "Thank you"],
    ],
    "choices": [
        ["list_name", "name", "label::English (en)"], ["sexlist", "f", "Female"], ["sexlist", "m", "Male"],
        ["crops", "maize", "Maize"], ["crops", "beans", "Beans"], ["region", "north", "North"],
        ["region", "south", "South"], ["yn", 1, "Yes"], ["yn", 0, "No"],
    ],
    "settings": [["form_title", "form_id"], ["Household", "hh1"]],
}  # fmt: skip


def entries(tmp_path: Path, text: str, *columns: str) -> dict[str, Entry]:
    (tmp_path / "book.csv").write_text(text)
    return read_codebook(tmp_path / "book.csv", columns)


def test_lists_in_a_table_below_that_of_the_columns(tmp_path: Path) -> None:
    found = entries(tmp_path, SECTIONS, "sex", "citizen", "town", "edu", "born", "seen", "left", "moved", "rent")
    assert found["sex"].codes == (("1", "male"), ("2", "female"))
    assert (found["sex"].label, found["citizen"].codes[1]) == ("Sex at birth", ("DE", "Germany"))
    assert found["edu"].codes == (("1", "low"), ("2", "high"))  # a list of the column's own name
    assert found["town"].type is None  # of which no list is there
    assert not {"list", "SEX", "COUNTRY"} & {*found}


def test_a_format_of_dates_in_a_remark(tmp_path: Path) -> None:
    """They were drafted as ISO dates, which no cell was in; of two formats, and of years without a century, it asks."""
    found = entries(tmp_path, SECTIONS, "sex", "citizen", "town", "edu", "born", "seen", "left", "moved", "rent")
    assert (found["born"].layout, found["born"].lower, found["born"].remark) == ("%d.%m.%Y", "1920-01-01", "")
    assert (found["seen"].layout, found["seen"].upper) == ("%d.%m.%Y %H:%M", "2025-12-31")
    assert (found["left"].type, "'DD/MM/YYYY or YYYY-MM-DD', which is not known" in found["left"].remark) == (
        None, True
    )  # fmt: skip
    assert (found["moved"].type, "'DD.MM.YY', which is not known" in found["moved"].remark) == (None, True)


def test_a_format_that_is_known_in_part_is_a_question(tmp_path: Path) -> None:
    """Without its am and pm, it would read no cell."""
    book = "name,type,format,min,max\nA,date,MM/DD/YYYY hh:mm AM,{0}\nB,date,DD.MM.YYYY (local),{0}\n"
    found = entries(tmp_path, book.format("2020-01-01,2020-12-31"), "A", "B")
    assert (found["A"].type, "which is not known" in found["A"].remark) == (None, True)
    assert found["B"].layout == "%d.%m.%Y"


def test_a_format_of_dates_beside_their_bounds(tmp_path: Path) -> None:
    """Its hours had been a code, and MM:SS the words of it."""
    book = 'name,values\nSEEN,"MM/DD/YYYY HH:MM:SS, from 01/31/2025 to 12/31/2025"\nSEX,1=m; 2=f\n'
    entry = entries(tmp_path, book, "SEEN", "SEX")["SEEN"]
    assert (entry.type, entry.layout, entry.codes) == ("date", "%m/%d/%Y %H:%M:%S", ())
    assert (entry.lower, entry.upper) == ("2025-01-31", "2025-12-31")


def test_times_of_data_bases_without_a_format_are_iso_in_any_way(tmp_path: Path) -> None:
    book = "name,type,min,max\nSEEN,timestamp,2020-01-01,2025-12-31\nSEX,code,,\n"
    entry = entries(tmp_path, book, "SEEN", "SEX")["SEEN"]
    assert entry.layout == "%Y-%m-%d %H:%M:%S"
    assert {"%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d"} <= {*entry.also}
    made = draft(["SEEN"], {"SEEN": entry}, "people")
    assert made.declared == ["SEEN"]
    assert "CHECK: the book has no format of SEEN" in made.text


def test_days_of_a_date_in_its_label(tmp_path: Path) -> None:
    book = (
        'column_name,data_type,column_comment\nBORN,date,"Birth, 1900-01-01 to 2025-12-31"\nSEX,char,"Sex: 1=m, 2=f"\n'
        'SEEN,date,"Seen 2020-01-01 to 2020-12-31, told 2021-01-01 to 2021-12-31"\n'
    )
    found = entries(tmp_path, book, "BORN", "SEX", "SEEN")
    assert (found["BORN"].type, found["BORN"].lower, found["BORN"].upper) == ("date", "1900-01-01", "2025-12-31")
    assert (found["SEEN"].type, found["SEX"].codes) == (None, (("1", "m"), ("2", "f")))


def test_a_cell_of_values_goes_on_in_the_row_below(tmp_path: Path) -> None:
    """Its second half was lost."""
    book = (
        'name,label,values\nA,Kind,"1 town, 2 village,"\n,,"3 farm, 4 other"\nB,Sex,"1=m; 2=f"\nC,Age,0-99\n,,99=n/a\n'
    )
    found = entries(tmp_path, book, "A", "B", "C")
    assert [raw for raw, _ in found["A"].codes] == ["1", "2", "3", "4"]
    assert (found["C"].upper, found["C"].codes) == (98, (("99", "n/a"),))


def test_domains_of_maps_and_remarks_in_french(tmp_path: Path) -> None:
    sheets = {
        "Fields": [
            ["Field name", "Field alias", "Domain"],
            ["SURFACE", "Road surface", "dSurface"],
            ["NAME", "Street"],
        ],
        "Domains": [["Domain name", "Code", "Description"], ["dSurface", 1, "Asphalt"], ["dSurface", 2, "Gravel"]],
    }
    found = read_codebook(saved(tmp_path / "roads.xlsx", sheets), ["SURFACE", "NAME"])
    assert found["SURFACE"].codes == (("1", "Asphalt"), ("2", "Gravel"))
    book = "variable;libelle;type;obs\nJOUR;Date;date;format JJ/MM/AAAA, du 01/01/2022 au 31/12/2022\nAGE;Âge;num;\n"
    entry = entries(tmp_path, book, "JOUR", "AGE")["JOUR"]
    assert (entry.layout, entry.lower, entry.upper) == ("%d/%m/%Y", "2022-01-01", "2022-12-31")


def test_decimals_in_words(tmp_path: Path) -> None:
    book = 'name,type,min,max\nA,"number, 2 decimals",0,9\nB,"DECIMAL(10,3)",0,9\nC,decimal(4),0,9\n'
    found = entries(tmp_path, book, "A", "B", "C")
    assert [found[name].decimals for name in "ABC"] == [2, 3, None]  # four, or none: the file says
    assert not found["C"].whole


def test_a_form_and_its_choices(tmp_path: Path) -> None:
    path = saved(tmp_path / "form.xlsx", FORM)
    columns = ["sex", "age", "hours", "arm", "born", "seen", "crops", "region", "yn"]
    found = read_codebook(path, columns)
    assert found["sex"].codes == (("f", "Female"), ("m", "Male"))
    assert found["sex"].label == "Sex"
    assert (found["age"].lower, found["age"].upper, found["age"].integer, found["age"].missing) == (0, 119, True, False)
    assert (found["hours"].upper, found["hours"].codes, found["hours"].missing) == (90, (("98", "missing"),), True)
    assert (found["arm"].lower, found["arm"].upper, found["arm"].whole) == (5, 40, False)
    assert (found["born"].type, found["born"].lower, found["born"].layout) == ("date", "1920-01-01", "%Y-%m-%d")
    assert found["seen"].type is None  # today is no bound
    assert (found["crops"].type, "several answers in one cell" in found["crops"].remark) == (None, True)
    assert found["region"].codes == (("north", "North"), ("south", "South"), ("other", "Other"))
    assert found["region"].missing
    assert (found["yn"].type, found["yn"].codes) == (None, ())
    assert not {"person", "thanks"} & {*found}


@pytest.mark.parametrize(
    "constraint",
    [
        ". >= 0 and . <= 120", "(. >= 0) and (. <= 120)", "((. >= 0 and . <= 120) or . = 999) ", ". > -1 and . < 121",
        ". >= 0 and . <= 120 and . != 99", ". = 5 or . = 7", ". >= 0 or . <= 120", ". >= 0", "not(. > 5 and . < 9)",
        "(. >= 0 and . <= 9) or (. >= 20 and . <= 30)", "(. >= 0 or . = -1) and . <= 9", ". >= 0 and . <= ${age}",
        "(. >= 0 and . <= 9) or selected(., 'x')",
    ],
)  # fmt: skip
def test_bounds_of_a_constraint_leave_out_nothing_that_it_allows(constraint: str) -> None:
    """By trying every whole number; names of other questions stand for 100, and functions for true."""
    lower, upper, codes = allowed_in(constraint, whole=True)
    known = {"not": lambda allowed: not allowed, "selected": lambda *_: True}
    told = (
        constraint.strip().replace("${age}", "100").replace("., 'x'", "0").replace(".", "answer").replace("= ", "== ")
    )
    told = told.replace(">==", ">=").replace("<==", "<=").replace("!==", "!=")
    allowed = {answer for answer in range(-50, 1001) if eval(told, {"answer": answer, **known})}
    if lower is None or upper is None:
        assert not codes
        return
    drafted = {*range(int(lower), int(upper) + 1)} | {int(number_in(raw) or 0) for raw, _ in codes}
    assert allowed <= drafted
    assert len(drafted - allowed) <= constraint.count("!=")


def test_a_row_of_words_that_headings_have_is_no_heading(tmp_path: Path) -> None:
    """The last row was taken for the names of the dictionary's columns, so that all above it were lost."""
    book = "tbl,fld,what it is,values\nVISIT,days,Days,0-365\nVISIT,ward,Ward,1-9\nNOTE,note_text,Type,Minimum\n"
    found = entries(tmp_path, book, "days", "ward", "note_text")
    assert (found["days"].lower, found["days"].upper, found["ward"].upper) == (0, 365, 9)


def test_a_column_may_be_called_as_a_heading_is(tmp_path: Path) -> None:
    found = entries(tmp_path, "Name,Label,Values\nname,Kind of name,1=first; 2=last\nAGE,Age,0-99\n", "name", "AGE")
    assert [raw for raw, _ in found["name"].codes] == ["1", "2"]
    assert "Name" not in found
