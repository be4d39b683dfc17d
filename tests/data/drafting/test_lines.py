"""Texts that name a column on a line, with its codes after it or on the lines below."""

from __future__ import annotations

from pathlib import Path

import pytest

from equistrata.data.drafting.books import read_codebook
from equistrata.data.drafting.draft import Draft, draft
from equistrata.data.drafting.entries import Entry

RECODE = """Name     Label                              Len Dec Type  Values
---------------------------------------------------------------------
CASEID   Case identification                 15   0  AN
V012     Respondent's current age             2   0  N    15:49
V025     Type of place of residence           1   0  N        1   Urban
                                                              2   Rural
V437     Weight in kilograms (1 dec.)         4   0  N    100:1500
                                                           9994   Not present
                                                       (m) 9999   Missing
                                                        (na)      Not applicable
V714     Currently working                    1   0  N        0   No
                                                              1   Yes
                                                          (m) 9   Missing
"""
LISTED = """RB090: SEX
1    Male
2    Female

RB090_F
1    filled
-1   missing

RB050: WEIGHT
0.01 - 9999.99   Weight (format 4.2)

INCTOT  Total income
 Codes: INCTOT is a 7-digit numeric code. 9999999 = N/A.

PL060: HOURS
Values: 1-80, 99 = not known
"""
ALONE = """pid
  Person identifier

smoker: Smoking status
  never
  former
  current

marital
  Marital status at interview
  single
  married

region
  * North East
  * South

job
  a, b or c

notes: Notes
  Free text of the interviewer.
  It was not read again.
"""


def entries(tmp_path: Path, text: str, *columns: str) -> dict[str, Entry]:
    (tmp_path / "book.txt").write_text(text)
    return read_codebook(tmp_path / "book.txt", columns)


def drafted(entry: Entry) -> Draft:
    return draft([entry.name], {entry.name: entry}, "people")


def test_the_first_code_stands_on_the_line_of_its_column(tmp_path: Path) -> None:
    """As in recode manuals. It was lost, so that its rows had a value that nobody declared."""
    found = entries(tmp_path, RECODE, "CASEID", "V012", "V025", "V437", "V714")
    assert found["CASEID"].type is None
    assert (found["V012"].label, found["V012"].lower, found["V012"].upper) == ("Respondent's current age", 15, 49)
    assert found["V025"].label == "Type of place of residence"
    assert found["V025"].codes == (("1", "Urban"), ("2", "Rural"))
    assert (found["V437"].lower, found["V437"].upper, found["V437"].missing) == (100, 1500, True)
    assert found["V437"].codes == (("9994", "Not present"), ("9999", "Missing"))
    assert found["V714"].codes == (("0", "No"), ("1", "Yes"), ("9", "Missing"))


def test_a_name_alone_on_its_line_begins_a_column(tmp_path: Path) -> None:
    """Its codes were those of the column above."""
    found = entries(tmp_path, LISTED, "RB090", "RB090_F", "RB050", "INCTOT", "PL060")
    assert found["RB090"].codes == (("1", "Male"), ("2", "Female"))
    assert found["RB090_F"].codes == (("1", "filled"), ("-1", "missing"))
    assert (found["RB050"].type, found["RB050"].lower, found["RB050"].upper) == ("number", 0.01, 9999.99)


def test_words_about_a_column_are_no_code(tmp_path: Path) -> None:
    found = entries(tmp_path, LISTED, "RB090", "RB090_F", "RB050", "INCTOT", "PL060")
    assert (found["INCTOT"].type, found["INCTOT"].codes) == (None, ())
    assert (found["PL060"].lower, found["PL060"].upper, found["PL060"].codes) == (1, 80, (("99", "not known"),))


def test_words_alone_on_lines_are_values_to_be_checked(tmp_path: Path) -> None:
    found = entries(tmp_path, ALONE, "pid", "smoker", "marital", "region", "job", "notes")
    values = {name: [raw for raw, _ in entry.codes] for name, entry in found.items() if entry.type}
    assert values == {
        "smoker": ["never", "former", "current"], "marital": ["single", "married"], "region": ["North East", "South"],
    }  # fmt: skip
    assert (found["pid"].label, found["marital"].label) == ("Person identifier", "Marital status at interview")
    asked = "# CHECK: the book lists these words below smoker, without codes; are they all of its values?"
    assert asked in drafted(found["smoker"]).text


@pytest.mark.parametrize(
    ("codes", "bounds", "said"),
    [
        ([("99", "refused")], (0, 99), (0, 98)),
        ([("97", "refused"), ("98", "don't know"), ("99", "no answer")], (0, 99), (0, 96)),
        ([("-1", "refused")], (-1, 40), (0, 40)),
        ([("99", "99 or older")], (0, 99), (0, 99)),
        ([("99", "refused")], (0, 98), (0, 98)),
        ([("99", "refused")], (0, 120), None),
        ([("-2", "refused")], (-9, 120), None),
        ([("9.9", "refused")], (0.5, 9.9), None),
    ],
)
def test_a_code_of_no_answer_within_the_range_is_no_number(
    codes: list[tuple[str, str]], bounds: tuple[float, float], said: tuple[float, float] | None
) -> None:
    """At an end, the range ends before it; between the ends, nobody can say which 99 is an age."""
    for entry in (Entry.of("AGE", "Age", codes, *bounds), Entry.of("AGE", "Age", [], *bounds, absent=codes)):
        if codes[0][1] == "99 or older" and not entry.codes:
            continue
        made = drafted(entry)
        if said is None:
            assert entry.type is None
            assert "by the book no number, and one of the range" in made.open["AGE"]
        elif codes[0][1] != "99 or older":
            assert (entry.lower, entry.upper, entry.codes) == (*said, tuple(codes))
            assert made.declared == ["AGE"]


@pytest.mark.parametrize(
    ("codes", "bounds", "upper"),
    [
        ([("5", "Value greater than or equal to 5.00")], ("0", "4.99"), 5),
        ([("80", "80 years and over")], ("0", "79"), 80),
        ([("99", "Refused")], ("0", "98"), 98),
        ([("5", "above")], ("0", "4.9"), 5),
        ([("6", "above")], ("0", "4.99"), 4.99),
    ],
)
def test_what_is_at_the_next_step_of_a_range_ends_it(
    codes: list[tuple[str, str]], bounds: tuple[str, str], upper: float
) -> None:
    entry = Entry.of("RATIO", "Ratio", codes, *bounds)
    assert (entry.upper, [raw for raw, _ in entry.codes]) == (upper, [raw for raw, _ in codes if float(raw) > upper])
    assert entry.whole == ("." not in bounds[1])


def test_bounds_that_are_written_with_decimals_allow_them() -> None:
    assert not Entry.of("WEIGHT", "Weight", [], "2.0", "200.0").whole
    assert Entry.of("WEIGHT", "Weight", [], 2.0, 200.0).whole


def test_a_list_of_every_number_is_a_number() -> None:
    """As of ages and years in code books that programs write."""
    ages = [("000", "Less than 1 year old"), *((f"{age:03}", str(age)) for age in range(1, 101)), ("999", "Missing")]
    entry = Entry.of("AGE", "Age", ages)
    assert (entry.type, entry.lower, entry.upper, entry.codes) == ("number", 0, 100, (("999", "Missing"),))
    scale = [("0", "not at all"), *((str(step), str(step)) for step in range(1, 10)), ("10", "completely")]
    assert Entry.of("TRUST", "Trust", scale).type == "nominal"
    gaps = [(str(number), str(number)) for number in range(0, 100, 2)]
    assert Entry.of("SCORE", "Score", gaps).type == "nominal"
