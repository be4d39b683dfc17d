"""What dictionaries that agencies and archives publish were drafted wrongly from, each by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from equistrata.data.drafting.books import read_codebook
from equistrata.data.drafting.cells.choices import listed_in
from equistrata.data.drafting.entries import Entry
from equistrata.data.drafting.structure import structure_of


def entries(folder: Path, name: str, text: str, *columns: str) -> dict[str, Entry]:
    (folder / name).write_text(text, encoding="utf-8")
    return read_codebook(folder / name, columns)


@pytest.mark.parametrize(
    ("cell", "codes", "bounds"),
    [
        ("['No' 'Yes, once'\n 'not asked']", [("No", ""), ("Yes, once", ""), ("not asked", "")], (None, None)),
        ("1=Male; 2=Female; All else=Missing", [("1", "Male"), ("2", "Female"), ("", "Missing")], (None, None)),
        ("'1' = 'Yes'\n'2' = 'No'\nMissing = Not asked", [("1", "Yes"), ("2", "No"), ("", "Not asked")], (None, None)),
        ("1' = 'Hot'\n'2 '= 'Cold'", [("1", "Hot"), ("2", "Cold")], (None, None)),
        ("25 - 250\n9,995 = More than 250", [("9995", "More than 250")], ("25", "250")),
        (
            "1= secure, 2= insecure (low, very low); NA = refused",
            [("1", "secure"), ("2", "insecure (low, very low)"), ("", "refused")],
            (None, None),
        ),
        ("1 = Yes; 2 = No, missing = NA", [("1", "Yes"), ("2", "No"), ("", "NA")], (None, None)),
        ("Q1, Q2, Q3 and Q4", [("Q1", ""), ("Q2", ""), ("Q3", ""), ("Q4", "")], (None, None)),
        ("calculation= one sixth of the weight", [], (None, None)),
        ("Male=1, Female=2, Missing=9", [("1", "Male"), ("2", "Female"), ("9", "Missing")], (None, None)),
    ],
)
def test_cells_that_had_been_read_wrongly(
    cell: str, codes: list[tuple[str, str]], bounds: tuple[str | None, str | None]
) -> None:
    assert listed_in(cell) == (codes, *bounds)


def test_a_range_of_missing_values_in_spss_is_no_word(tmp_path: Path) -> None:
    """THRU had been a value, so that all codes of the column were texts."""
    text = """VARIABLE LABELS
    JOB  "Has a job"
    PAY  "Pay"
.
VALUE LABELS
    /JOB 1 "Yes" 3 "No" 6 "Valid skip" 7 "Don't know" 9 "Not stated"
    /PAY 99996 "Valid skip" 99999 "Not stated"
.
MISSING VALUES
    JOB (6 THRU 9)
    PAY (99996 THRU HI)
.
"""
    found = entries(tmp_path, "labels.sps", text, "JOB", "PAY")
    assert found["JOB"].values == [1, 3, 6, 7, 9]
    assert (found["PAY"].type, [raw for raw, _ in found["PAY"].codes]) == (None, ["99996", "99999"])


def test_a_row_for_each_value_under_headings_of_surveys(tmp_path: Path) -> None:
    text = """table,field name,code/format,label,note
person,SEEN,(DD/MM/YYYY),,
person,HOUR,(HH:MM),,
person,TOWN,see latest list of towns,https://towns.example,
person,SEX,1,Male,
person,SEX,2,Female,
person,ROAD,1-9999,,
person,ROAD,-1,Unknown,
"""
    found = entries(tmp_path, "guide.csv", text, "SEEN", "HOUR", "TOWN", "SEX", "ROAD")
    assert found["SEX"].codes == (("1", "Male"), ("2", "Female"))
    assert (found["ROAD"].lower, found["ROAD"].upper, found["ROAD"].codes) == (1, 9999, (("-1", "Unknown"),))
    assert [found[name].type for name in ("SEEN", "HOUR", "TOWN")] == [None] * 3
    assert "dates" in found["SEEN"].remark
    assert "time of day" in found["HOUR"].remark


def test_values_that_a_book_marks_as_none(tmp_path: Path) -> None:
    """Two rows with words had been one cell that lists values: "Yes" and "a lot"."""
    text = """question_id,option_id,option_label,is_missing
Q1,1,"Yes, a lot",false
Q1,2,No,false
AGE,0-99,,false
AGE,120,Skipped,true
"""
    found = entries(tmp_path, "options.csv", text, "Q1", "AGE")
    assert found["Q1"].codes == (("1", "Yes, a lot"), ("2", "No"))
    assert (found["AGE"].lower, found["AGE"].upper, found["AGE"].codes) == (0, 99, (("120", "Skipped"),))
    assert not found["Q1"].missing
    alone = 'variable,value label\nQ1,"Yes, a lot"\nQ1,No\nQ2,Left\nQ2,Right\n'
    found = entries(tmp_path, "words.csv", alone, "Q1", "Q2")
    assert found["Q1"].codes == (("Yes, a lot", ""), ("No", ""))


def test_a_second_column_of_words_is_the_label_where_the_first_has_values(tmp_path: Path) -> None:
    text = """| Variable Name | Variable Description | Variable Label |
|---|---|---|
| SEX | Gender | 1=Male; 2=Female; All else=Missing |
| AGE | Age at screening (0-99) | Age |
"""
    found = entries(tmp_path, "book.md", text, "SEX", "AGE")
    assert (found["SEX"].label, found["SEX"].codes, found["SEX"].missing) == (
        "Gender", (("1", "Male"), ("2", "Female")), True,
    )  # fmt: skip
    assert (found["AGE"].label, found["AGE"].lower, found["AGE"].upper) == ("Age", 0, 99)


def test_names_files_of_c45(tmp_path: Path) -> None:
    text = """| census rows
>50K, <=50K.

age: continuous.
job: Private, Self-emp, 7th-8th.
sex: Female, Male.
"""
    found = entries(tmp_path, "people.names", text, "age", "job", "sex")
    assert [raw for raw, _ in found["job"].codes] == ["Private", "Self-emp", "7th-8th"]
    assert [raw for raw, _ in found["sex"].codes] == ["Female", "Male"]
    assert found["age"].type is None


def test_a_question_mark_alone_is_an_absent_cell(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age,sex\n?,Male\n40,?\n")
    book = {"age": Entry.of("age", "", (), 0, 99), "sex": Entry.of("sex", "", [("Male", ""), ("Female", "")])}
    found = structure_of(path, ["age", "sex"], book, {})
    assert (found.file, found.absent) == ({"absent": ["?"]}, {"age", "sex"})
    book["sex"] = Entry.of("sex", "", [("Male", ""), ("Female", ""), ("?", "other")])
    assert structure_of(path, ["age", "sex"], book, {}).file == {}


def test_a_column_that_the_table_lacks_is_no_code_of_the_one_above(tmp_path: Path) -> None:
    """Bedroom had been a value of BATHS. A code of two words stands before a tab."""
    text = """BATHS: Baths above grade

Bedroom: Bedrooms above grade

WALL: Wall

       Brick\tBrick
       Wd Sdng\tWood Siding
       Wood\tWood

SEX: Sex
       M\tMale
       F\tFemale
"""
    found = entries(tmp_path, "description.txt", text, "BATHS", "WALL", "SEX")
    assert (found["BATHS"].type, found["BATHS"].codes) == (None, ())
    assert [raw for raw, _ in found["WALL"].codes] == ["Brick", "Wd Sdng", "Wood"]


def test_the_least_and_greatest_value_beside_a_mean_are_no_bounds(tmp_path: Path) -> None:
    """They are what rows hold, and had been declared as public."""
    text = 'name,label,value_labels,min,median,max,mean\nage,Age,,40,82,100,80.5\nsex,Sex,"1. male,2. female",,,,\n'
    found = entries(tmp_path, "codebook.csv", text, "age", "sex")
    assert (found["age"].type, "what rows hold" in found["age"].remark) == (None, True)
    assert found["sex"].codes == (("1", "male"), ("2", "female"))
    found = entries(tmp_path, "plain.csv", "name,label,min,max\nage,Age,0,99\nsex,Sex,,\n", "age", "sex")
    assert (found["age"].lower, found["age"].upper) == (0, 99)


def test_words_about_a_column_are_no_values(tmp_path: Path) -> None:
    """A comma had made two values of them."""
    text = 'code name,code description,valid range\nsolo,"One company, no others",1\ngoals,Goals,1-5\n'
    found = entries(tmp_path, "codebook.csv", text, "solo", "goals")
    assert (found["solo"].codes, found["solo"].label) == ((), "One company, no others")
    assert (found["goals"].lower, found["goals"].upper, found["goals"].label) == (1, 5, "Goals")


def test_a_kind_of_columns_is_no_code(tmp_path: Path) -> None:
    """Each had the value "trait", since a column is called "level"."""
    text = "name,item,range,level\nsex,Your sex,1 = Male; 2 = Female,trait\nage,Your age,0-99,trait\nid,Number,,state\n"
    found = entries(tmp_path, "items.csv", text, "sex", "age", "id")
    assert found["sex"].codes == (("1", "Male"), ("2", "Female"))
    assert (found["age"].type, found["age"].codes, found["id"].codes) == ("number", (), ())


def test_words_before_numbers_with_decimals_and_a_type_in_brackets(tmp_path: Path) -> None:
    cell = "Oppose: -2 / Rather oppose: -1 / PNR: -0.1 / Support: 1"
    assert [raw for raw, _ in listed_in(cell)[0]] == ["-2", "-1", "-0.1", "1"]
    assert listed_in("[string variable]") == ([], None, None)
    assert [raw for raw, _ in listed_in("[M, F]")[0]] == ["M", "F"]


def test_na_as_r_writes_it_is_no_label(tmp_path: Path) -> None:
    found = entries(tmp_path, "schema.csv", "variable,label,values\nyear,NA,0-9\nsex,Sex,0-1\n", "year", "sex")
    assert (found["year"].label, found["year"].upper, found["sex"].label) == ("", 9, "Sex")


def test_sections_of_a_text(tmp_path: Path) -> None:
    """Words of its notes had been values."""
    text = """NAME   LABEL
V1     Case
V2     HH.2. Race

=====================
V1     Case
=====================
VALID CODES:
-----------
Range: 0001-261,263-2323

NOTES:
-----
Case 0262 was dropped.
TYPE:
----
Numeric   4

=====================
V2     HH.2. Race
=====================
VALID CODES:
-----------
1. White
2. Black, and any other
   race

MISSING CODES:
-------------
-4. NA (blank recorded)

REFERENCE:
---------
Y24a. - Y24e. (other race)

=====================
V3     Age
=====================
VALID CODES:
-----------
17. 17 years old
18. 18 years old . . .
90. 90 years old or older

MISSING CODES:
-------------
-9. Refused

=====================
V4     Days
=====================
VALID CODES:
-----------
1-63. Days

=====================
V5     Weight
=====================
TYPE:
----
Numeric   4
"""
    found = entries(tmp_path, "codebook.txt", text, "V1", "V2", "V3", "V4", "V5")
    assert (found["V1"].type, "no range" in found["V1"].remark) == (None, True)
    assert found["V2"].codes == (("1", "White"), ("2", "Black, and any other race"), ("-4", "NA (blank recorded)"))
    assert (found["V3"].lower, found["V3"].upper, found["V3"].codes) == (17, 90, (("-9", "Refused"),))
    assert (found["V4"].lower, found["V4"].upper, found["V5"].type) == (1, 63, None)


@pytest.mark.parametrize(
    ("label", "codes", "bounds"),
    [
        ("school (binary: 'GP' - Gabriel P. or 'MS' - Mousinho)", [("GP", "Gabriel P."), ("MS", "Mousinho")], None),
        ("school (numeric: 0 - none, 1 - some (4th grade) or 2 – all)",
         [("0", "none"), ("1", "some (4th grade)"), ("2", "all")], None),
        ("help (binary: yes or no)", [("yes", ""), ("no", "")], None),
        ("kin (nominal: 'mother', 'father' or 'other')", [("mother", ""), ("father", ""), ("other", "")], None),
        ("health (numeric: from 1 - very bad to 5 - very good)", [], (1, 5)),
        ("grade (numeric: from 0 to 20, output target)", [], (0, 20)),
        ("failures (numeric: n if 1<=n<3, else 4)", [], None),
        ("job (nominal: 'teacher', 'health' care related, civil 'services')", [], None),
        ('a factor with levels "a b" (words, more), "c".', [("a b", "words, more"), ("c", "c")], None),
        ("Race; a factor with levels: Black; White.", [("Black", ""), ("White", "")], None),
    ],
)  # fmt: skip
def test_values_in_the_words_about_a_column(
    tmp_path: Path, label: str, codes: list[tuple[str, str]], bounds: tuple[float, float] | None
) -> None:
    """Codes in parentheses had lost their last one, and the label ended within them."""
    found = entries(
        tmp_path, "book.md", f"| Variable | Description |\n|---|---|\n| A | {label} |\n| B | - |\n", "A", "B"
    )
    lower, upper = bounds or (None, None)
    assert ([*found["A"].codes], found["A"].lower, found["A"].upper) == (codes, lower, upper)


def test_words_of_a_web_page_within_other_tags(tmp_path: Path) -> None:
    """What a definition has as code had been left out."""
    text = """<html><body><dl><dt>sex</dt><dd><p>Factor with levels <code>"f"</code>, <code>"m"</code>.</p></dd>
<dt>mood</dt><dd><p>coding: <code>1</code> = low, <code>2</code> = high.</p></dd></dl></body></html>"""
    found = entries(tmp_path, "help.html", text, "sex", "mood")
    assert [raw for raw, _ in found["sex"].codes] == ["f", "m"]
    assert [raw for raw, _ in found["mood"].codes] == ["1", "2"]


def test_a_class_of_columns_is_no_code(tmp_path: Path) -> None:
    """Each had its class, 6 or 2, for its only value."""
    text = "code,category,description,variable\n6,Age,At 18,law1\n6,Age,At 21,law2\n2,Sale,Licence,law3\n"
    found = entries(tmp_path, "codebook.csv", text, "law1", "law2", "law3")
    assert [found[name].codes for name in ("law1", "law2", "law3")] == [()] * 3


def test_values_between_commas_after_each_name(tmp_path: Path) -> None:
    """Lines of another section had been codes of the last column."""
    text = """1. Class: recurrence, no-recurrence.
2. size: 0-4, 5-9,
         10-14.
3. deg: 1, 2, 3.
4. cured: yes, no.

8. Missing Values: (denoted by "?")
   Attribute #:  Number of instances with missing values:
   6.             8
   9.             1.
"""
    found = entries(tmp_path, "cases.names", text, "Class", "size", "deg", "cured")
    values = {name: [raw for raw, _ in entry.codes] for name, entry in found.items()}
    assert values["Class"] == ["recurrence", "no-recurrence"]
    assert (values["size"], values["deg"], values["cured"]) == (["0-4", "5-9", "10-14"], ["1", "2", "3"], ["yes", "no"])


@pytest.mark.parametrize("cell", ["FALSE/ TRUE", "Female/Not female", "Elective/Not elective"])
def test_two_values_with_a_slash(cell: str) -> None:
    assert [raw for raw, _ in listed_in(cell)[0]] == [part.strip() for part in cell.split("/")]
    assert listed_in("mg/L") == ([], None, None)
