"""Tests that an ambiguous entry of a code book becomes a question with all of its readings."""

from __future__ import annotations

import pytest

from equistrata.data.drafting.column import BookColumn
from equistrata.data.drafting.dictionary import read_dictionary
from equistrata.data.drafting.doubt import Decision, decide_declaration


def row(values: str = "", label: str = "", **more: str) -> Decision:
    """Return the decision for a row of a code book."""
    line = {"name": "X", "label": label, "values": values, **more}
    return decide_declaration(read_dictionary([[*line], [*line.values()]], "book").columns["X"])


@pytest.mark.parametrize(
    ("values", "why", "kinds"),
    [
        ("ZA=South Africa; NA=Namibia; BW=Botswana", "NA (Namibia) can be a value, or", ["values", "values"]),
        ("None=No insurance; Private; Public", "None (No insurance) can be a value, or", ["values", "values"]),
        ("bb=N/A (under 16); 1=Yes; 2=No", "bb (N/A (under 16)) can be a value, or", ["values", "values"]),
        ("0,5-1,5", "has commas, which may be decimal points", ["lower"]),
        ("0-120 years", 'its numbers are followed by "years"', ["lower"]),
        (
            "0=none; 1..96; 97=97 or more; 98=refused",
            "0 (none), 97 (97 or more), 98 (refused) in addition",
            ["lower"] * 3,
        ),
        ("1..5; 9=refused", "9 (refused) in addition to the numbers 1 to 5", ["lower", "lower"]),
        ("0=worst; 10=best", "only the ends of the scale have labels", ["values", "lower"]),
        ("1=low; 2; 3; 4; 5=high", "only some of its values have labels", ["values"]),
        ("1; 2; 9", "9 often stands for a missing cell", ["values", "lower"]),
        ("-9; 1; 2", "-9 often stands for a missing cell", ["values", "lower"]),
        ("0=1; 1=0", "0, 1 is a code, but also the label of another code", ["values", "values"]),
        ("Male=1; Female=2", "its codes can be on the right", ["values", "values"]),
        (
            "0=0 children; 1=1 child; 2=2 or more children",
            "2 (2 or more children) seems to be a count",
            ["values", "lower"],
        ),
        ("; ".join(map(str, range(100))), "each value seems to be a count", ["values", "lower"]),
        ("; ".join(f"{age}={age}" for age in (*range(90), 95)), "each value seems to be a count", ["values", "lower"]),
        ("0=none; 8=Don't know; 9=Refused", "0 (none) is the only answer", ["values"]),
        ("1=low; 4=middle; 7=high", "only the ends and the middle of the scale", ["values", "lower"]),
        ("0=none; 1=one; 2=two and above", "2 (two and above) seems to be a count", ["values", "lower"]),
        ("17=17 or younger; 18=18; 19=19", "17 (17 or younger) seems to be a count", ["values", "lower"]),
        ("1=a; 2=b; all other=c", "all other (c) may stand for several values", ["values"]),
        ("0; 1; 2; 3+", "3+ may stand for several values", ["values"]),
        ("1=low; 5=middle; 10=high", "only the ends and the middle of the scale", ["values", "lower"]),
        ("M - Male; F - Female", "the book's values could not be read: M - Male; F - Female", []),
        ("{1: yes; 2: no}", "the book's values could not be read", []),
        ("0-17; 18-64; 65-99", "some of its values are ranges of numbers", ["values"]),
        ("see appendix", "the book's values could not be read: see appendix", []),
        ("Free", "the book lists only one value", []),
        ("1, 2, ..., 10", "the book's values could not be read: ...", []),
        ("any number, see notes", "the book's values could not be read: any number; see notes", []),
        ("1 Yes, 2 No", "the book's values could not be read: 1 Yes; 2 No", []),
        ("1=Yes, maybe, 2=No", "the book's values could not be read: maybe", []),
    ],
)
def test_doubtful_values_are_questions(values: str, why: str, kinds: list[str]) -> None:
    found = row(values)
    assert found.spec is None
    assert why in found.why
    assert ["values" if "values" in spec else "lower" for _, spec in found.readings] == kinds


@pytest.mark.parametrize(
    "values",
    ["1=Male; 2=Female", "0=<5 years; 1=>=5 years", "a; b; c", "1=a; 2=b; 3=c; 9=Refused", "01=a; 02=b", "10=a; 12=b",
     "17=High school; 19=1 or more years of college", "1,2,3"],
)  # fmt: skip
def test_plain_lists_are_declared(values: str) -> None:
    found = row(values)
    assert found.spec is not None
    assert found.spec["type"] == "nominal"


def test_labels_are_kept_exactly() -> None:
    found = row("0=<5 years; 1=>=5 years").spec
    assert found is not None
    assert found["labels"] == {0: "<5 years", 1: ">=5 years"}


def test_cigarettes() -> None:
    """The value 97 is a number, and the values 98 and 99 are codes."""
    found = row("0 = none, 1 to 96 = cigarettes, 97 = 97 or more, 98 = refused, 99 = unknown")
    first = found.readings[0][1]
    assert (first["lower"], first["upper"], first["codes"]) == (0, 97, {98: "refused", 99: "unknown"})


def test_labels_and_notes_that_speak_of_codes_are_questions() -> None:
    found = row("", "Age in years (99 = unknown)", lower="0", upper="99", type="integer")
    assert found.why.startswith("its label mentions 99, which the book does not list")
    assert found.readings[0][1]["codes"] == {99: "unknown"}
    assert found.readings[0][1]["upper"] == 98
    assert row("0..99", note="999 if refused").why == "the book notes: 999 if refused"
    assert row("0..99", note="of the person").spec is not None
    for text in ("Weight (999 if not done)", "Income: -1 when unknown", "Rooms, 99 for none", "Size; refused = 77"):
        assert "but does not list it" in row("0..50", text).why
        assert "but does not list it" in row("0..50", "A label", description=text).why
    assert row("0..50", "Size (999 if not done)", missing="999").spec is not None
    assert row("1=a; 2=b", "Group (1=a, 2=b)").spec is not None


def test_zero_is_a_number_where_the_book_says_none_of_an_amount() -> None:
    wage = BookColumn("WAGP", "Wages", "integer", (("0", "None"),), 4, 999999)
    assert decide_declaration(wage).spec == {
        "label": "Wages",
        "type": "number",
        "lower": 0,
        "upper": 999999,
        "integer": True,
    }
    age = BookColumn("AGEP", "", "integer", (("0", "Under 1 year"),), 1, 99)
    assert decide_declaration(age).spec == {"type": "number", "lower": 0, "upper": 99, "integer": True}
    persons = decide_declaration(BookColumn("NP", "", "integer", (("0", "Vacant"), ("1", "One person")), 2, 20))
    assert [(spec["lower"], spec.get("codes")) for _, spec in persons.readings] == [
        (0, None), (1, {0: "Vacant"}), (2, {0: "Vacant", 1: "One person"}),
    ]  # fmt: skip


def test_what_the_format_calls_missing_ends_the_bounds_and_is_asked_between_them() -> None:
    ages = BookColumn("AGE", "", "integer", (), 0, 99, (("99", "refused"),))
    assert decide_declaration(ages).spec == {
        "type": "number",
        "lower": 0,
        "upper": 98,
        "integer": True,
        "codes": {99: "refused"},
    }
    between = decide_declaration(BookColumn("AGE", "", "integer", (), 0, 120, (("99", "refused"),)))
    assert "99 is a code for missing, but within the bounds" in between.why


def test_types_that_contradict_bounds_and_least_numbers_that_are_missing_are_asked() -> None:
    scale = row("", "", type="nominal", lower="1", upper="5")
    assert "the book declares values, but also has bounds" in scale.why
    assert ["values" if "values" in spec else "lower" for _, spec in scale.readings] == ["lower", "values"]
    ages = decide_declaration(BookColumn("AGE", "", "integer", (), -9.0, 85.0, (("-9", "refused"),)))
    assert "-9 is a code for missing, but also the lower bound" in ages.why
    assert (ages.readings[0][1]["lower"], ages.readings[0][1]["codes"]) == (0, {-9: "refused"})
    assert row("1=a; 2=b", "Group", description="7 = unknown").spec is None


def test_types_that_contradict_what_is_listed_are_asked() -> None:
    integers = row("", type="integer", lower="0.5", upper="9")
    assert "the book declares integers, but its bounds have decimals" in integers.why
    assert "the book declares numbers, but lists texts" in row("low; high", type="number").why
    assert "its bounds 9 and 0 are not a range" in row("", type="integer", lower="9", upper="0").why
    for missing in ("-9 refused", "-9..-1", "negative values"):
        found = row("0..50", missing=missing)
        assert found.why == f"its missing values could not be read: {missing}"
        assert "codes" not in found.readings[0][1]


def test_labels_of_no_answer_alone_are_codes_beside_numbers() -> None:
    found = row("98=Don't know; 99=Refused", type="integer")
    assert (found.spec, found.shape) == (None, "{lower: ..., upper: ..., integer: true, codes: {98: ..., 99: ...}}")


def test_codes_that_are_texts_without_a_list_are_asked() -> None:
    found = decide_declaration(BookColumn("PUMA", "", "text", (), "00100", "70301"))
    assert 'codes from "00100" to "70301", but no list' in found.why
    assert [spec for _, spec in found.readings] == [{"values": "open"}]
    few = decide_declaration(BookColumn("RACNUM", "", "text", (), "1", "6"))
    assert [spec["values"] for _, spec in few.readings] == ["open", ["1", "2", "3", "4", "5", "6"]]


@pytest.mark.parametrize(
    ("name", "label"),
    [("id", ""), ("HHID", ""), ("pid", ""), ("X", "Household number"),
     ("PATIENT_ID", ""), ("Last Name", ""), ("lname", ""), ("NAME_LAST", ""), ("SERIALNO", ""),
     ("X", "Surname"), ("q1", "E-mail address"), ("SSN", "")],
)  # fmt: skip
def test_names_and_identifiers_are_never_drafted(name: str, label: str) -> None:
    assert decide_declaration(BookColumn(name, label, "", (("a", "b"), ("c", "d")))).personal


def test_dates_of_birth_are_left_out_with_a_line_to_declare_them() -> None:
    days = BookColumn("DOB", "", "date", (), "1920-01-01", "2010-12-31", layout="%Y-%m-%d")
    assert decide_declaration(days).personal
    assert (
        decide_declaration(days).shape == '{type: date, format: "%Y-%m-%d", lower: "1920-01-01", upper: "2010-12-31"}'
    )
    since = decide_declaration(BookColumn("SINCE", "", "date", (), "1920-01-01", "2010-12-31"))
    assert [spec["format"] for _, spec in since.readings] == ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y"]
