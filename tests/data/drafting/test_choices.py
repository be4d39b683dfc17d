"""Cells of code books as agencies publish them: lists with words, ranges in words, and blanks."""

from pathlib import Path

import pytest

from equistrata.data.drafting.books import read_codebook
from equistrata.data.drafting.cells.choices import beside_in, listed_in
from equistrata.data.drafting.draft import draft
from equistrata.data.drafting.spans import span_in

SEX = [("1", "Male"), ("2", "Female")]
NUMBERS = [("1", ""), ("2", ""), ("3", "")]
ETHNIC = [("1", "White"), ("2", "Black; African"), ("3", "Asian")]


@pytest.mark.parametrize(
    ("cell", "codes", "lower", "upper"),
    [
        ("1 = White\n2 = Black; African\n3 = Asian", ETHNIC, None, None),
        ("1=White, 2=Black; African, 3=Asian", ETHNIC, None, None),
        ("1: White | 2: Black; African | 3: Asian", ETHNIC, None, None),
        ("1 - White; 2 - Black; African; 3 - Asian", ETHNIC, None, None),
        ("PRV - Private; MCD - Medicaid, state", [("PRV", "Private"), ("MCD", "Medicaid, state")], None, None),
        (
            "1: Yes, 2: No, 9: Don't know, refused",
            [("1", "Yes"), ("2", "No"), ("9", "Don't know, refused")],
            None,
            None,
        ),
        ("EMP (employed), RET (retired)", [("EMP", "employed"), ("RET", "retired")], None, None),
        ("TV (cable), TV (dish)", [("TV (cable)", ""), ("TV (dish)", "")], None, None),
        ("(1) Male (2) Female", [("1", "Male"), ("2", "Female")], None, None),
        ("1. Male\n2. Female", [("1", "Male"), ("2", "Female")], None, None),
        ("1=Male 2=Female", [("1", "Male"), ("2", "Female")], None, None),
        ("1=Yes/0=No", [("1", "Yes"), ("0", "No")], None, None),
        ("1 Male, 2 Female", SEX, None, None),
        ("1 Male; 2 Female", SEX, None, None),
        ("1 Male 2 Female", SEX, None, None),
        ("1-Male 2-Female", SEX, None, None),
        ("1. Male 2. Female", SEX, None, None),
        ("[1] Male [2] Female", SEX, None, None),
        ("1 'Male' 2 'Female'", SEX, None, None),
        ("1 → Male; 2 → Female", SEX, None, None),
        ("Male=1, Female=2", SEX, None, None),
        ("Male (1), Female (2)", SEX, None, None),
        ('{"Male": 1, "Female": 2}', SEX, None, None),
        ("Male: 1024, Female: 998", [("Male", "1024"), ("Female", "998")], None, None),  # rows of each
        ("Male: 48, Female: 52", [("Male", "48"), ("Female", "52")], None, None),  # per cent
        ("NA=Namibia; ZA=South Africa", [("NA", "Namibia"), ("ZA", "South Africa")], None, None),
        ("1=Yes; NA=Not asked; 2=No", [("1", "Yes"), ("", "Not asked"), ("2", "No")], None, None),
        ("M Male, F Female", [("M", "Male"), ("F", "Female")], None, None),
        ("1 Male, 2 Female, . missing", [*SEX, ("", "missing")], None, None),
        (
            "ENG English\nFRE French\nblank missing",
            [("ENG", "English"), ("FRE", "French"), ("", "missing")],
            None,
            None,
        ),
        ("M, F; 9=unknown", [("M", ""), ("F", ""), ("9", "unknown")], None, None),
        ("north, south; . = not known", [("north", ""), ("south", ""), ("", "not known")], None, None),
        ("1, 2, 3 | -9: refused | -8: not asked", [*NUMBERS, ("-9", "refused"), ("-8", "not asked")], None, None),
        ("1, 2, 3, 99=don't know", [*NUMBERS, ("99", "don't know")], None, None),
        ("yes/no; Blank: N/A", [("yes", ""), ("no", ""), ("", "N/A")], None, None),
        ("US English, UK English", [("US English", ""), ("UK English", "")], None, None),
        ("Value = 1 Label = Male | Value = 2 Label = Female | Value =  Label = N/A", [*SEX, ("", "N/A")], None, None),
        ("0..90\nBlanco por pase", [("", "")], "0", "90"),
        ("1 Under 18, 2 18 to 64, 3 65+ years", [("1", "Under 18"), ("2", "18 to 64"), ("3", "65+ years")], None, None),
        ("1 person", [], None, None),
        ("-9 - Refused", [("-9", "Refused")], None, None),
        ("99 refused", [("99", "refused")], None, None),
        ("5 point scale", [], None, None),
        ("I agree, I disagree", [("I agree", ""), ("I disagree", "")], None, None),
        ("Good / Fair / Poor", [("Good", ""), ("Fair", ""), ("Poor", "")], None, None),
        ("['Yes' 'No' nan\n 'Not done, yet']", [("Yes", ""), ("No", ""), ("", ""), ("Not done, yet", "")], None, None),
        ("0 = No / 1 = Yes", [("0", "No"), ("1", "Yes")], None, None),
        ("yes/no", [("yes", ""), ("no", "")], None, None),
        ("'a','b'", [("a", ""), ("b", "")], None, None),
        ("[M, F]", [("M", ""), ("F", "")], None, None),
        (">=0, <=120", [], "0", "120"),
        ("≥0 and ≤120", [], "0", "120"),
        ("0 ≤ x ≤ 99", [], "0", "99"),
        ("(0, 99)", [], "0", "99"),
        ("de 0 a 99", [], "0", "99"),
        ("1 bis 99", [], "1", "99"),
        ("0 bis 20.000", [], "0", "20000"),
        ("4,0 bis 12,5", [], "4.0", "12.5"),
        ("0 - 20.125", [], "0", "20.125"),
        ("ja / nein", [("ja", ""), ("nein", "")], None, None),
        ("Numeric (0-99)", [], "0", "99"),
        ("18-65 (99 = missing)", [("99", "missing")], "18", "65"),
        ("1 to 7, where 1 = not at all", [("1", "not at all")], "1", "7"),
        ("0 = None 1-30 = Days 77 = Refused", [("0", "None"), ("77", "Refused")], "1", "30"),
        ("1 => 'Yes', 0 => 'No'", [("1", "Yes"), ("0", "No")], None, None),
        ("{1: 'Yes', 0: 'No'}", [("1", "Yes"), ("0", "No")], None, None),
        ("['a', 'b']", [("a", ""), ("b", "")], None, None),
        ("0=No; 1=Yes; Blank: N/A", [("0", "No"), ("1", "Yes"), ("", "N/A")], None, None),
        ("0 - No | 1 - Yes | (blank) - N/A", [("0", "No"), ("1", "Yes"), ("", "N/A")], None, None),
        ("1-5 scale\n-9: refused\n-8: not asked", [("-9", "refused"), ("-8", "not asked")], "1", "5"),
        ("0–99; 998 (refused); 999 (unknown)", [("998", "refused"), ("999", "unknown")], "0", "99"),
        ("1=Strongly disagree ... 5=Strongly agree", [], "1", "5"),
        ("1-5 scale", [], "1", "5"),
        ("Range: 0 to 120", [], "0", "120"),
        ("Integer, 0 to 120 years", [], "0", "120"),
        ("between 0 and 120", [], "0", "120"),
        ("Min=0, Max=99", [], "0", "99"),
        ("$0 - $250,000", [], "0", "250000"),
        ("0,0 - 99,9", [], "0.0", "99.9"),
        ("€0 – €1.000.000", [], "0", "1000000"),
        ("1 (never) - 5 (always)", [], "1", "5"),
        ("2025-01-01 to 2025-12-31", [], "2025-01-01", "2025-12-31"),
        ("01.01.2025 – 31.12.2025", [], "01.01.2025", "31.12.2025"),
        ("0,1", [("0", ""), ("1", "")], None, None),  # two values
        ("[0, 120]", [], "0", "120"),
        ("0 - None; 1 - 1 child; 2 - 2 or more", [("0", "None"), ("1", "1 child"), ("2", "2 or more")], None, None),
        ("<15; 15-64; 65+", [("<15", ""), ("15-64", ""), ("65+", "")], None, None),  # groups
        ("0 - 17 years; 18 - 64 years", [("0 - 17 years", ""), ("18 - 64 years", "")], None, None),
        ("1: 18-24; 2: 25-34", [("1", "18-24"), ("2", "25-34")], None, None),
        ("10, 20, 30 or 40", [("10", ""), ("20", ""), ("30", ""), ("40", "")], None, None),
        ("Range 30–200; missing = -1", [("-1", "missing")], "30", "200"),
        ("valid: 0-50; 98 = refused", [("98", "refused")], "0", "50"),
        ("yes [1] / no [0]", [("1", "yes"), ("0", "no")], None, None),
        ("M=Male F=Female", [("M", "Male"), ("F", "Female")], None, None),
        ("0 to 23 hours, -1 if unknown", [("-1", "if unknown")], "0", "23"),
        ("USD thousands (0 - 1,500)", [], "0", "1500"),
        ("1 = never ... 5 = always, 6 = don't know", [("6", "don't know")], "1", "5"),
        ("(text entry, 18 - 99)", [], "18", "99"),
        ("YYYY: 1900 - 2007", [], "1900", "2007"),
        ("0 no income\n0 + income (currency) 0-250000", [], None, None),  # two of one code: no values
        ("AGE >= 18", [], None, None),
        ("9:00-17:00", [], None, None),
        ("00-99", [], None, None),
        ("{" * 3000, [], None, None),
    ],
)
def test_cells(cell: str, codes: list[tuple[str, str]], lower: str | None, upper: str | None) -> None:
    assert listed_in(cell) == (codes, lower, upper)


@pytest.mark.parametrize(
    "cell",
    [
        "e.g. A12, B07", "such as 1, 2 or 3", "red, green, blue, etc.", "1, 2, 3, ..., 10", "1=Mo, 2=Tu, ..., 7=Su",
        "N=123", "numeric, 2 decimal places", "Min 18, median 44, max 93", "Mean: 45, SD: 12", "1-3: low, 4-6: high",
        "Total (a, b), other (c, d", "za, ab, usw.", "M - 12, F - 15", "0-10, where 0 is worst", "]0, 100]", "[0;1]",
        "5-point scale: 1 = bad, 5 = good", "code of the school, 6 digits", "1 = yes; missing otherwise",
        "0 - 4: child; 5 and over: adult", "01=Jan ... 12=Dec",
    ],
)  # fmt: skip
def test_what_is_no_list_of_all_values_is_a_question(cell: str) -> None:
    """All of these had been values."""
    assert listed_in(cell) == ([], None, None)


def test_ranges_in_a_column_of_codes_have_no_words() -> None:
    assert span_in("0..99") == ("0", "99")
    assert span_in("1-2 times") is None
    assert beside_in("Blank") == [("", "missing")]


CSV = {
    "two header rows": "Variable,,Values,,\nName,Label,Codes,Min,Max\nSEX,Sex,1=Male|2=Female,,\nAGE,Age,,0,99\n"
    "DAY,Day,,2025-01-01,2025-12-31\n",
    "titles": "Visits 2025\nVersion 3\n"
    "Variable,Description,Type,Valid Values\nSEX,Sex,Categorical,1: Male | 2: Female\n"
    "AGE,Age,Integer,0..99\nDAY,Day,Date,2025-01-01..2025-12-31\n",
    "a table of Markdown": "| Data element | Long name | Permitted values |\n|---|---|---|\n"
    "| SEX | Sex | 1=Male; 2=Female |\n"
    "| AGE | Age | 0 - 99 |\n| DAY | Day | 2025-01-01 to 2025-12-31 |\n",
    "two labels": "Variable,Label,Values,Label\nSEX,Sex,1,Male\nSEX,Sex,2,Female\nAGE,Age,0-99,\n"
    "DAY,Day,2025-01-01 to 2025-12-31,\n",
    "values and a range": "Field,Label,Values,Valid range\nSEX,Sex,1=Male;2=Female,\nAGE,Age,,0 to 99\n"
    "DAY,Day,,2025-01-01 to 2025-12-31\n",
}
JSON = {
    "ranges": """[{"name": "SEX", "label": "Sex", "values": {"1": "Male", "2": "Female"}},
        {"name": "AGE", "label": "Age", "type": "integer", "range": [0, 99], "missing_values": {"-9": "refused"}},
        {"name": "DAY", "label": "Day", "type": "date", "range": ["2025-01-01", "2025-12-31"]}]""",
    "JSON Schema": """{"$schema": "https://json-schema.org/draft/2020-12/schema", "properties": {
        "SEX": {"title": "Sex", "missing": 2, "oneOf": [{"const": 1, "title": "Male"},
                {"const": 2, "title": "Female"}]},
        "AGE": {"title": "Age", "type": "integer", "minimum": 0, "maximum": 99, "missing": {"-9": "refused"}},
        "DAY": {"title": "Day", "type": "string", "format": "date", "formatMinimum": "2025-01-01",
                "formatMaximum": "2025-12-31"}}}""",
}


@pytest.mark.parametrize("book", [*CSV.values(), *JSON.values()], ids=[*CSV, *JSON])
def test_books(tmp_path: Path, book: str) -> None:
    path = tmp_path / "book"
    path.write_text("\ufeff" * (book[0] == "V") + book)
    found = read_codebook(path)
    assert [*found] == ["SEX", "AGE", "DAY"]
    assert (found["SEX"].label, found["SEX"].codes) == ("Sex", (("1", "Male"), ("2", "Female")))
    age, day = found["AGE"], found["DAY"]
    assert (age.type, age.lower, age.upper) == ("number", 0, 99)
    assert age.codes == ((("-9", "refused"),) if "refused" in book else ())
    assert (day.type, day.lower, day.upper, day.layout) == ("date", "2025-01-01", "2025-12-31", "%Y-%m-%d")


@pytest.mark.parametrize(
    ("given", "ends"),
    [
        ("0,250.000,5", None),
        ("0;99,9", (0, 99.9)),
        ('0,"250,000"', (0, 250000)),
        ("€0;€1.000.000", (0, 1000000)),
        ("0 %;50 %", (0, 50)),
    ],
)
def test_bounds_as_they_are_written(tmp_path: Path, given: str, ends: tuple[float, float] | None) -> None:
    mark = ";" if ";" in given else ","
    (tmp_path / "book.csv").write_text(
        mark.join(["variable", "label", "minimum", "maximum"]) + f"\nA{mark}a{mark}{given}\n"
    )
    found = read_codebook(tmp_path / "book.csv")["A"]
    assert (found.lower, found.upper) == (ends or (0, 250))


def test_csv_on_the_web(tmp_path: Path) -> None:
    (tmp_path / "people.csv-metadata.json").write_text("""{"@context": "http://www.w3.org/ns/csvw", "url": "people.csv",
        "null": ["-9", ""], "tableSchema": {"columns": [
        {"name": "sex", "titles": "SEX", "datatype": {"base": "string", "format": "F|M"}, "required": true},
        {"titles": {"en": ["AGE", "Age in years"]}, "datatype": {"base": "integer", "minimum": 0, "maximum": 99}},
        {"name": "day", "datatype": {"base": "date", "format": "dd/MM/yyyy", "minInclusive": "2025-01-01",
         "maxInclusive": "2025-12-31"}}, {"name": "about", "virtual": true}]}}""")
    found = read_codebook(tmp_path / "people.csv-metadata.json")
    assert [*found] == ["sex", "SEX", "AGE", "Age in years", "day"]
    assert found["SEX"].codes[:2] == (("F", ""), ("M", ""))
    assert not found["sex"].missing
    age = found["AGE"]
    assert (age.type, age.lower, age.upper, age.codes, age.integer) == ("number", 0, 99, (("-9", "missing"),), True)
    assert found["day"].layout == "%d/%m/%Y"
    assert age.missing


def test_dates_and_cells_without_a_value_of_ddi(tmp_path: Path) -> None:
    missing = '<catgry missing="Y"><catValu>.</catValu><labl>N/A</labl></catgry>'
    values = "<catgry><catValu>1</catValu></catgry><catgry><catValu>2</catValu></catgry>"
    (tmp_path / "book.xml").write_text(
        '<codeBook><var name="DAY"><valrng><range min="2025-01-01" max="2025-12-31"/></valrng></var>'
        f'<var name="SEX">{values}{missing}</var><var name="JOB">{values}</var></codeBook>'
    )
    found = read_codebook(tmp_path / "book.xml")
    day = found["DAY"]
    assert (day.type, day.lower, day.upper, day.layout) == ("date", "2025-01-01", "2025-12-31", "%Y-%m-%d")
    assert (found["SEX"].missing, found["JOB"].missing) == (True, False)


def test_a_german_book(tmp_path: Path) -> None:
    book = "Merkmal;Beschreibung;Typ;Wertebereich;Fehlende Werte\n"
    book += "Tag;Aufnahme;Datum (TT.MM.JJJJ);01.01.2025 - 31.12.2025;\n"
    book += "Alter;Jahre;Ganzzahl;18 bis 95;leer\nGröße;cm;Dezimalzahl;140 bis 210;-9 = k. A.; leer\n"
    (tmp_path / "book.csv").write_bytes(book.replace("-9 = k. A.; leer", '"-9 = k. A.; leer"').encode("latin-1"))
    day, age, height = read_codebook(tmp_path / "book.csv").values()
    assert (day.type, day.layout, day.lower, day.upper) == ("date", "%d.%m.%Y", "2025-01-01", "2025-12-31")
    assert (age.integer, age.missing, age.codes) == (True, True, ())
    assert (height.integer, height.allows_decimals, height.codes) == (None, True, (("-9", "k. A."),))
    assert height.missing


def test_words_of_absent_cells_are_drafted(tmp_path: Path) -> None:
    (tmp_path / "book.csv").write_text("variable,values\nA,0=No; 1=Yes; Blank=not in universe\nB,x; y; blank\n")
    entries = read_codebook(tmp_path / "book.csv")
    made = draft(["A", "B"], entries, "people").text
    assert 'labels: {0: "No", 1: "Yes", -1: "not in universe"}' in made
    assert 'B: {type: nominal, values: ["x", "y", "missing"], missing: "missing"}' in made
