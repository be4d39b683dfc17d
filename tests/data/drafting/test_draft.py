"""Drafts of schemas: valid as they are, with a question at each open place, and none of the rows unless asked."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equistrata.data.drafting.books import read_codebook
from equistrata.data.drafting.draft import draft
from equistrata.data.drafting.entries import Entry
from equistrata.data.drafting.look import look
from equistrata.data.drafting.rows.dictionaries import from_csv
from equistrata.data.drafting.structure import header_of
from equistrata.data.drafting.tallies import tallies_of, tally
from equistrata.data.drafting.trees import from_json
from equistrata.data.files import documents
from equistrata.data.misfits import misfits
from equistrata.data.problems import load_with_problems, schema_problems
from equistrata.data.schema import Schema
from equistrata.data.sources import FileSource
from equistrata.data.table import CodedTable
from equistrata.errors import InputError

HOSTILE = ["yes", "no", "~", "null", "1e5", "a: b", "{x}", "- c", "#", "'", '"', "ä", "0x10", "", " "]


def schema_of(text: str) -> Schema:
    return Schema.from_dict(documents.parse(text, "draft"), "draft")


def test_whatever_a_book_holds_the_draft_is_valid() -> None:
    entries = {
        "no": Entry.of("no", "x: {y} # 'z'", [(text, text) for text in HOSTILE[:-2]]),
        "A B": Entry.of("A B", "", [], -0.00001, 1e20),
        "C": Entry.of("C", "", [("1", "a"), ("2", "b")], missing=True),
        "D": Entry.of("D", "", [("N", "none"), ("-9", "refused")], 0, 10, missing=True),
        "E": Entry("E", "", "date", (), "2020-01-01", "2020-12-31", layout="%d.%m.%Y"),
    }
    made = draft([*entries], entries, "people: 1")
    schema = schema_of(made.text)
    assert schema.names == tuple(entries)
    assert schema.name == "people: 1"
    assert schema["no"].values == tuple(HOSTILE[:-2])
    assert schema["A B"].bounds == (-0.00001, 1e20)
    assert (schema["C"].values, schema["C"].missing) == ((1, 2, 0), 0)
    assert (schema["D"].codes, schema["D"].missing) == ((("N", "none"), (-9, "refused")), "own")
    assert not made.open


INJECTED = [
    "Income\n  FAKE: {values: [1, 2]}\n#", "a\u2028  FAKE: {lower: 0, upper: 1}", "a\x85FAKE: {}", "\x00\x1b[31m\x7f",
    "\ud800", "\ufeff\ufffe\U0001ffff", "a: b # c \"d\" 'e' \\", "*x &y !z %w @v `u", "{[,]}", "\t|>-?", "ä 😀 \u200d",
]  # fmt: skip


@pytest.mark.parametrize("text", INJECTED)
def test_no_text_adds_to_the_draft_or_breaks_it(text: str) -> None:
    entries = {
        "OPEN": Entry("OPEN", text),
        "DATE": Entry("DATE", text, "date", ((text + "9", text),), "2020-01-01", "2020-12-31", layout="%Y-%m-%d"),
        "LIST": Entry.of("LIST", text, [(f"{text} {each}", text) for each in "abc"]),
        "RAW": Entry("RAW", text, "nominal", ((text + "x", text), ("y", text)), remark=text),
        "NUMBER": Entry.of("NUMBER", text, [(text + "9", text), ("100", text)], 0, 99),
        "PWGTP": Entry.of("PWGTP", text, [], 0, 99),
    }
    odd = f"odd{text.replace(chr(0xD800), '')}"
    named = {odd: Entry.of(odd, text, [("1", "a"), ("2", "b")]), f"{odd} PWGTP": Entry(f"{odd} PWGTP", text)}
    made = draft([*entries, *named], entries | named, text)
    schema = schema_of(made.text)
    assert schema.names == ("DATE", "LIST", "RAW", "NUMBER", "PWGTP", odd)
    assert [*made.open] == ["OPEN", f"{odd} PWGTP"]
    assert schema["LIST"].label.replace("\u200d", "").isprintable()
    assert schema["RAW"].values == (text.replace("\ud800", "") + "x", "y")
    comments = [line for line in made.text.splitlines() if line.strip().startswith("#")]
    assert len(comments) == 8 + 2 * bool(entries["RAW"].remark)


def test_a_draft_that_no_command_would_read_is_refused() -> None:
    long = {"A": Entry.of("A", "x" * (1 << 20), (), 0, 1)}
    with pytest.raises(InputError, match="1,048,576 bytes, the most that is read; leave columns out of the table, or"):
        draft(["A"], long, "people")
    wide = {f"V{n}": Entry.of(f"V{n}", "", (), 0, 1) for n in range(1_001)}
    with pytest.raises(InputError, match="1,000 are the most; leave columns out"):
        draft([*wide], wide, "people")


def test_what_the_book_leaves_to_be_checked() -> None:
    levels = [(str(level), "") for level in range(9)]
    entries = {
        "PAY": Entry.of("PAY", "", (), 0, 99),
        "BMI": Entry.of("BMI", "", (), 10, 80, whole=False),
        "AGE": Entry.of("AGE", "", (), 0, 99, whole=True),
        "EDU": Entry.of("EDU", "", levels),
        "DECILE": Entry.of("DECILE", "", levels, ordered=True),
    }
    text = draft([*entries], entries, "people").text
    schema = schema_of(text)
    assert [schema[name].integer for name in ("PAY", "BMI", "AGE")] == [True, False, True]
    assert [schema[name].ordered for name in ("EDU", "DECILE")] == [False, True]
    checks = [line.rpartition(": ")[2] for line in text.splitlines() if line.startswith("# CHECK")]
    assert checks == ["PAY", "EDU"]
    (means,) = (line for line in text.splitlines() if "add sigma: NUMBER" in line)
    assert means.endswith("to those you need: PAY, BMI, AGE")


def test_identifiers_by_the_book_stay_open() -> None:
    made = draft(["CASE"], {"CASE": Entry("CASE", "Case number", identifier=True)}, "people")
    assert made.open == {"CASE": "by the code book an identifier, which is not released"}


def test_a_draft_of_questions_alone_says_what_is_open(tmp_path: Path) -> None:
    path = tmp_path / "people.yaml"
    path.write_text(draft(["AGE", "b\nc"], {}, "people", {"delimiter": ";"}).text)
    said = r"declares no column: what AGE, \"b\\nc\" may hold is still a QUESTION in its comments; answer it under"
    with pytest.raises(InputError, match=said):
        Schema.load(path)
    schema, problems = load_with_problems(path)
    assert schema is None
    assert len(problems) == 1
    assert re.search(said, problems[0])
    path.write_text("name: people\n")
    with pytest.raises(InputError, match="needs a mapping 'columns'"):
        Schema.load(path)


def test_what_is_open_and_what_is_set_aside() -> None:
    entries = {
        "AGE": Entry.of("AGE", "", (), 0, 99),
        "PWGTP": Entry.of("PWGTP", "Person's weight", (), 1, 99),
        "INDP": Entry("INDP", "Industry"),
        "BAD": Entry.of("BAD", "", [("1", "a"), ("1.0", "b")], 0, 99),
        "GONE": Entry.of("GONE", "", (), 0, 1),
    }
    made = draft(["age", "PWGTP", "INDP", "JOB", "patient_id", "Name", "BAD"], entries, "people")
    assert set(made.open) == {"INDP", "JOB", "patient_id", "Name"}
    assert (made.declared, made.aside, made.unknown) == (["age", "PWGTP", "BAD"], ["PWGTP"], ["GONE"])
    assert schema_of(made.text).default == ("age", "BAD")
    assert "# QUESTION" in made.text


def test_weights_alone_are_not_released(tmp_path: Path) -> None:
    path, entries = tmp_path / "people.yaml", {"PWGTP": Entry.of("PWGTP", "Person's weight", (), 1, 99)}
    for columns, said in (
        (["PWGTP"], "has an empty 'default', so no column is released"),
        (["JOB", "PWGTP"], "declares no column that is released: what JOB may hold is still a QUESTION"),
    ):
        made = draft(columns, entries, "people")
        assert (made.declared, made.released) == (["PWGTP"], [])
        path.write_text(made.text)
        with pytest.raises(InputError, match=said):
            Schema.load(path)
        assert re.search(said, " ".join(load_with_problems(path)[1]))
        path.write_text(made.text.replace("default: []", "default: [PWGTP]"))
        assert Schema.load(path).selected().names == ("PWGTP",)


def test_a_reason_of_many_lines_stays_in_its_comment(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {"A": Entry.of("A", "", (), 0, 1), "B": Entry.of("B", "", (), 0, 1)}
    reasons = {"A": "no\n  FAKE: {values: [1]}\u2028  FALSE: {values: [2]}", "B": ""}
    monkeypatch.setattr("equistrata.data.drafting.draft._problem", lambda column, _: reasons[column])
    text = draft(["A", "B"], entries, "people").text
    assert schema_of(text).names == ("B",)
    assert text.splitlines()[-1].startswith("# A: ")


def test_a_declaration_that_the_schema_would_refuse_is_a_question() -> None:
    many = [(str(code), "") for code in range(10_001)]
    made = draft(["A", "B"], {"A": Entry.of("A", codes=many), "B": Entry.of("B", "", (), 0, 1)}, "people")
    assert made.declared == ["B"]
    assert "10,000 are the most" in made.open["A"]


def looked_at(cells: Sequence[str | None]) -> tuple[dict[str, Entry], dict[str, list[str]]]:
    return look(tally([pd.DataFrame({"A": cells})]))


def messy(folder: Path) -> Path:
    rows = [
        "Nr;Tag;Gewicht;Alter;Ort;Notiz",
        *(
            f"P{i};{1 + i % 28:02}.0{1 + i % 9}.2024;{50 + i % 40},{i % 10};{i % 90 if i % 30 else -9};"
            f"{['Köln', 'Gießen', ''][i % 50 and 1 + (i % 7 == 0)]};Text {i} und mehr"
            for i in range(400)
        ),
    ]
    path = folder / "people.csv"
    path.write_bytes("\n".join(rows).encode("latin-1"))
    return path


def test_a_messy_table_is_drafted_marked_and_refused_until_it_is_confirmed(tmp_path: Path) -> None:
    path = messy(tmp_path)
    columns, file = header_of(path, set())
    assert (columns, file) == (["Nr", "Tag", "Gewicht", "Alter", "Ort", "Notiz"], {"delimiter": ";"})
    tallies, file = tallies_of(path, columns, file)
    assert file == {"delimiter": ";", "encoding": "latin-1", "decimal": ","}
    entries, marks = look(tallies, file)
    made = draft(columns, entries, "people", file, marks)
    assert set(made.open) == {"Nr", "Notiz"}
    document = documents.parse(made.text, "draft")
    (marked,) = schema_problems(document, "draft")[1]
    assert 'confirmed: ["Tag", "Gewicht", "Alter", "Ort"]' in marked
    with pytest.raises(InputError, match="'Tag' of schema draft is marked as 'taken_from_rows'"):
        Schema.from_dict(document, "draft")
    for spec in document["columns"].values():
        assert spec.pop("taken_from_rows")
    schema = Schema.from_dict(document, "draft")
    assert schema["Tag"].layout == "%d.%m.%Y"
    assert schema["Alter"].codes == ((-9, "-9"),)
    assert schema["Ort"].missing == "missing"
    source = FileSource.of(str(path), schema)
    assert len(CodedTable.encode(source.read(schema.names), schema)) == 400


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([str(i) for i in range(300)], "number"),
        ([str(i % 5) for i in range(300)], "number"),
        ([str(i % 3) for i in range(300)], "nominal"),
        ([str(1 + i % 9) for i in range(300)], "nominal"),
        ([f"0{i % 5}" for i in range(300)], "nominal"),
        ([str(i % 5 / 2) for i in range(300)], "nominal"),
        (["0", "1", "2", "3", "A", "B"] * 50, "nominal"),
        (["a", "b"] * 100, "nominal"),
        ([f"person {i}" for i in range(300)], None),
        (["2024-01-31", "2023-02-01"] * 100, "date"),
        (["01/02/2024", "13/02/2024"] * 100, "date"),
        (["2024-01-31T12:00:00Z", "2024-02-28T12:00:00Z"] * 100, "date"),
        ([None] * 10, None),
        (["12 Main St", "x"] + [f"{i} Road" for i in range(300)], None),
    ],
)
def test_kinds_of_columns(cells: list[str | None], kind: str | None) -> None:
    entries, marks = looked_at(cells)
    assert entries["A"].type == kind
    assert bool(marks["A"]) == (kind is not None)


def test_bounds_are_no_rows_values() -> None:
    entry = looked_at([str(i + 0.123) for i in range(301, 702)])[0]["A"]
    assert (entry.lower, entry.upper) == (300.0, 710.0)


def test_sentinels_far_from_all_others() -> None:
    entry = looked_at([*map(str, range(100)), "-9", "999", "N"])[0]["A"]
    assert [raw for raw, _ in entry.codes] == ["N", "-9", "999"]
    assert (entry.lower, entry.upper) == (0.0, 99.0)
    assert looked_at([*map(str, range(-50, 100))])[0]["A"].codes == ()


@pytest.mark.parametrize("sentinel", ["-9.0", "-999.0", "999.9", "99.90"])
def test_sentinels_of_columns_with_decimals(sentinel: str) -> None:
    """Programs write -999 as -999.0 where other cells have decimals: bounds had been drafted from it."""
    cells = [f"{30 + i % 120 / 10:.1f}" for i in range(300)] + [sentinel] * 9 + ["-9.00"] * (sentinel == "-9.0")
    frame = pd.DataFrame({"A": cells})
    entries, marks = look(tally([frame]))
    schema = schema_of(draft(["A"], entries, "people", taken=marks).text.replace("confirmed: []", "confirmed: [A]"))
    assert (schema["A"].bounds, schema["A"].decimals) == ((30.0, 42.0), 1)
    (code,) = (raw for raw, _ in schema["A"].codes)
    assert code == float(sentinel)
    back = CodedTable.encode(frame, schema).decode(np.random.default_rng(0))["A"]
    assert back.dtype.kind == "f"
    assert (back == float(sentinel)).sum() == 9 + (sentinel == "-9.0")


def test_rows_answer_only_what_a_book_does_not() -> None:
    book = Entry.of("A", "Age", (), 0, 99)
    whole, parts = [*map(str, range(60))], [str(age / 4) for age in range(240)]
    for cells, integer, said in ((whole, True, ["integer"]), (parts, False, ["integer", "decimals"])):
        entries, marks = look(tally([pd.DataFrame({"a": cells})]), known={"A": book})
        assert (entries["a"].label, entries["a"].upper, entries["a"].integer) == ("Age", 99.0, integer)
        assert marks == {"a": said}
    sure = Entry.of("A", "Age", (), 0, 99, whole=True)
    assert look(tally([pd.DataFrame({"A": whole})]), known={"A": sure})[1] == {}
    found, marks = look(tally([pd.DataFrame({"A": [*whole, None]})]), known={"A": sure})
    assert (found["A"].missing, marks) == (True, {"A": ["missing"]})
    hidden = Entry("A", "Number", identifier=True)
    assert look(tally([pd.DataFrame({"A": whole})]), known={"A": hidden})[0] == {"A": hidden}


@pytest.mark.parametrize(
    ("cells", "decimal", "decimals"),
    [
        ([f"{i / 4:.2f}" for i in range(100)], ".", 2),
        ([f"{i / 10:.2f}" for i in range(100)], ".", 1),
        ([f"{i / 4:.2f}".replace(".", ",") for i in range(100)], ",", 2),
        ([*(f"{i}.5" for i in range(100)), "-9.125", "N"], ".", 3),
        ([str(i / 7) for i in range(100)], ".", 6),
        ([str(i / 7e5) for i in range(100)], ".", None),
        ([f"{i}e-05" for i in range(1, 100)], ".", 5),
        ([str(i) for i in range(100)], ".", None),
        ([f"{i}.00" for i in range(100)], ".", None),
    ],
)
def test_decimals_of_rows(cells: list[str], decimal: str, decimals: int | None) -> None:
    entries, marks = look(tally([pd.DataFrame({"A": cells})]), {"decimal": decimal})
    assert (entries["A"].type, entries["A"].decimals) == ("number", decimals)
    assert ("decimals" in marks["A"]) is (decimals is not None)
    made = draft(["A"], entries, "people", {"decimal": decimal}, marks).text
    schema = schema_of(made.replace("confirmed: []", "confirmed: [A]"))
    assert schema["A"].decimals == decimals
    coded = CodedTable.encode(pd.DataFrame({"A": [cell.replace(",", ".") for cell in cells]}), schema)
    numbers = pd.to_numeric(coded.decode(np.random.default_rng(0))["A"], errors="coerce").dropna().to_numpy()
    assert decimals is None or np.array_equal(numbers, numbers.round(decimals))


def test_decimals_of_a_book_hold_before_those_of_rows() -> None:
    cells = tally([pd.DataFrame({"A": [f"{i / 8:.3f}" for i in range(200)]})])
    for book in (Entry.of("A", "Pay", decimals=2), Entry.of("A", "Pay", (), 0, 99, whole=False, decimals=2)):
        entries, marks = look(cells, known={"A": book})
        assert entries["A"].decimals == 2
        assert "decimals" not in marks.get("A", [])
    bounded = Entry.of("A", "Pay", (), 0, 10, whole=False)
    entries, marks = look(tally([pd.DataFrame({"A": ["0.5", "9.25", "11.125"]})]), known={"A": bounded})
    assert (entries["A"].decimals, marks) == (2, {"A": ["decimals"]})


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["01", "1", "02"], ("01", "1", "02")),
        (["001", "010", "100"], ("001", "010", "100")),
        ([f"{code:03}" for code in range(60)], tuple(f"{code:03}" for code in range(60))),
        (["1.0", "1", "2"], (1, 2)),
        (["1.0", "1.50", "N"], ("1", "1.5", "N")),
        (["1,0", "1,5", "2,5"], ("1,0", "1,5", "2,5")),
        (["a", " a", "a\x07"], (" a", "a", "a\x07")),
        (["yes", "no", "null|x"], ("no", "null|x", "yes")),
        (["0"], (0, 1)),
        (["1.0", "1"], (0, 1)),
        (["2"], (2,)),
    ],
)
def test_codes_of_rows_fit_the_same_file(tmp_path: Path, cells: list[str], values: tuple[str | int, ...]) -> None:
    path = tmp_path / "people.csv"
    path.write_text("\n".join(["A;B", *[f"{cell};{i / 7:.3f}".replace(".", ",") if "," in cells[0] else f"{cell};{i}"
                                        for i, cell in enumerate(cells * 4)]]))  # fmt: skip
    tallies, file = tallies_of(path, ["A", "B"], {"delimiter": ";"})
    entries, _ = look(tallies, file)
    schema = schema_of(draft(["A", "B"], entries, "people", file).text).select(["A"])
    assert schema["A"].values == values
    assert misfits(FileSource.of(str(path), schema).batches(["A"]), schema) == (len(cells) * 4, [])


def test_a_point_is_no_decimal_in_a_file_of_commas() -> None:
    cells = [*(f"{i}.5" for i in range(50)), *(f"{i},5" for i in range(50))]
    entries, _ = look(tally([pd.DataFrame({"A": cells})]), {"decimal": ","})
    assert entries["A"].type is None


def test_decimal_commas_are_for_csv_files_alone(tmp_path: Path) -> None:
    pd.DataFrame({"A": [f"{i},5" for i in range(50)]}).to_parquet(tmp_path / "people.parquet")
    tallies, file = tallies_of(tmp_path / "people.parquet", ["A"], {})
    assert file == {}
    assert look(tallies)[0]["A"].type is None


def test_a_table_is_counted_a_batch_at_a_time() -> None:
    frame = pd.DataFrame({"A": ["x", None, "x", "y"], "B": [1.0, 2.5, None, 1.0]})
    expected = {"A": {"x": 2, "y": 1, None: 1}, "B": {"1": 2, "2.5": 1, None: 1}}
    assert tally([frame]) == expected
    assert tally([frame[:1].astype("category"), frame[1:]]) == expected


def test_headers_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    for text, said in (("", "is empty"), ("a,b,a\n1,2,3\n", "has columns 1 and 3 of one name"),
                       ("a,b,a,b\n1,2,3,4\n", "columns 1 and 3 of one name; columns 2 and 4 of one name in its"),
                       ("a,\n1,2\n", "has no name for column 2")):  # fmt: skip
        path.write_text(text)
        with pytest.raises(InputError, match=said):
            header_of(path, set())
    with pytest.raises(InputError, match="cannot be read"):
        header_of(tmp_path / "absent.csv", set())


def test_a_name_of_two_lines(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text('a;"b\nc";d\n1;2;3\n')
    assert header_of(path, set()) == (["a", "b\nc", "d"], {"delimiter": ";"})


@pytest.mark.parametrize(("year", "told"), [("14", True), ("1", False)])
def test_dates_without_a_century_stay_open_and_say_why(year: str, told: bool) -> None:
    entries, marks = looked_at([f"{d:02}/{m:02}/{year}" for d in range(1, 29) for m in range(1, 13)] * 3)
    assert entries["A"].type is None
    assert marks == {"A": []}
    assert ("century" in entries["A"].label) is told


def test_times_of_day_of_rows_are_no_kinds_and_timestamps_are_dates(tmp_path: Path) -> None:
    """Twenty-four times had been drafted as values; timestamps with a time zone called identifiers, or free text."""
    entries, marks = looked_at([f"{hour:02}:15" for hour in range(24)] * 50)
    assert entries["A"].type is None
    assert marks == {"A": []}
    assert "a time of day, which is no type here" in entries["A"].label
    minutes = pd.Series(pd.date_range("2024-03-01", periods=500, freq="97min", tz="Europe/Berlin"))
    pd.DataFrame({"A": minutes}).to_parquet(tmp_path / "t.parquet")
    entry = look(tally(FileSource(str(tmp_path / "t.parquet")).batches(["A"])))[0]["A"]
    assert (entry.type, entry.layout, entry.lower, entry.upper) == ("date", "%Y-%m-%d", "2024-01-01", "2024-12-31")


@pytest.mark.parametrize("spelled", [("true", "false"), ("True", "False"), ("TRUE", "FALSE"), ("1", "0")])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_truth_values_fit_however_the_file_spells_them(tmp_path: Path, spelled: tuple[str, str], kind: str) -> None:
    book, path = tmp_path / "book.json", tmp_path / f"people.{kind}"
    book.write_text('{"fields": [{"name": "OK", "type": "boolean"}]}')
    if kind == "csv":
        path.write_text("\n".join(["OK", *spelled]))
    else:
        typed = {"1": 1, "0": 0, "True": True, "False": False}
        pd.DataFrame({"OK": [typed.get(each, each) for each in spelled]}).to_parquet(path)
    schema = schema_of(draft(["OK"], read_codebook(book), "people").text)
    rows = FileSource.of(str(path), schema).read(["OK"])
    assert misfits([rows], schema)[1] == []
    table = CodedTable.encode(rows, schema)
    assert table.codes[:, 0].tolist() == [0, 1]
    assert [*table.decode(np.random.default_rng(0))["OK"]] == ["true", "false"]


def test_truth_values_of_a_field_are_its_own() -> None:
    fields = {
        "A": {"trueValues": ["Y", "yes"], "falseValues": ["N"]},
        "B": {"trueValues": ["0"]},
        "C": {"trueValues": [1, "t"], "falseValues": [0, "f"], "missingValues": ["", "9"]},
        "D": {"missingValues": ["0"]},
    }
    listed = [{"name": name, "type": "boolean"} | field for name, field in fields.items()]
    entries = {entry.name: entry for entry in from_json(json.dumps({"fields": listed}), "book")}
    schema = schema_of(draft([*fields], entries, "people").text)
    assert [schema[name].values for name in "ABCD"] == [
        ("Y", "N"), ("0", "false"), (1, 0, 9, -1), ("true", "false", "0"),
    ]  # fmt: skip
    assert schema["A"].recode == (("yes", "Y"),)
    assert schema["B"].recode == (("False", "false"), ("FALSE", "false"))
    assert schema["C"].recode == (("t", 1), ("f", 0))
    assert ("0", "false") not in schema["D"].recode
    frame = pd.DataFrame({"A": ["yes", "N"], "B": ["0", "FALSE"], "C": ["t", "9"], "D": ["1", "0"]})
    assert misfits([frame], schema)[1] == []


def test_truth_values_of_a_csv_book() -> None:
    entry = next(from_csv("name,type\nOK,boolean\n", "book"))
    assert (entry.type, [raw for raw, _ in entry.codes], ("TRUE", "true") in entry.recode) == (
        "nominal", ["true", "false"], True,
    )  # fmt: skip


def test_blanks_and_case_in_a_header_are_no_other_column() -> None:
    entries = {"sex": Entry.of("sex", "Sex", [("1", "m"), ("2", "f")]), " AGE": Entry.of(" AGE", "Age", (), 0, 9)}
    made = draft(["Sex ", "age"], entries, "people")
    assert (made.declared, made.unknown) == (["Sex ", "age"], [])
    assert schema_of(made.text).names == ("Sex ", "age")
    found, _ = look(tally([pd.DataFrame({"Sex ": ["1", "2"] * 30})]), known=entries)
    assert "Sex " not in found
    assert draft(["Sex "], found, "people").declared == ["Sex "]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_header_ends_as_its_file_ends_lines(tmp_path: Path, end: str) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(end.join(["", "A;B", "1;x", "2;y", ""]).encode())
    assert header_of(path, set()) == (["A", "B"], {"delimiter": ";"})


def test_a_count_of_few_values_is_a_number_with_its_sentinels() -> None:
    entry = looked_at([*(str(i % 7) for i in range(300)), "99", "99", "N", "N"])[0]["A"]
    assert (entry.type, entry.lower, entry.upper, entry.integer) == ("number", 0.0, 6.0, True)
    assert entry.codes == (("N", "N"), ("99", "99"))
    assert "taken for a count; if they are codes" in entry.remark


def test_dates_in_two_layouts_are_both_declared() -> None:
    days = [(1 + i % 12, 1 + i % 28, 2000 + i % 20) for i in range(400)]
    american, iso = ([form.format(*day) for day in days] for form in ("{:02}/{:02}/{}", "{2}-{0:02}-{1:02}"))
    for cells in (american[::2] + iso[1::2], american + iso[:3], (american[12:20] + iso[12:20]) * 50):
        entries, marks = looked_at(cells)
        entry = entries["A"]
        assert (entry.type, marks) == ("date", {"A": ["type", "bounds"]})
        assert {entry.layout, *entry.also} == {"%m/%d/%Y", "%Y-%m-%d"}
        schema = schema_of(draft(["A"], entries, "people").text)
        assert misfits([pd.DataFrame({"A": cells})], schema) == (len(cells), [])
    entry = looked_at([*iso, "none"])[0]["A"]
    assert (entry.type, entry.codes, entry.remark) == ("date", (("none", "none"),), "")


def test_dates_with_names_of_months_and_dates_beside_others() -> None:
    days = [f"{day:02}.03.2001" for day in range(1, 29)] * 2
    named = [f"{day} Apr 2001" for day in range(1, 29)] + [f"June {day}, 2001" for day in range(1, 29)]
    entries, _ = look(tally([pd.DataFrame({"A": days + named[:28] + named[28:]})]))
    assert (entries["A"].layout, {*entries["A"].also}) == ("%d.%m.%Y", {"%d %b %Y", "%B %d, %Y"})
    odd = [f"week {week} of 2001" for week in range(20)]
    entries, _ = look(tally([pd.DataFrame({"A": days + odd})]))
    assert entries["A"].type is None
    assert entries["A"].label.startswith("dates, as %d.%m.%Y, beside cells that are no date")


def test_dates_in_two_layouts_that_one_text_may_be_in_are_asked_for() -> None:
    cells = [f"{1 + i % 12:02}/{13 + i % 12:02}/2020" for i in range(200)]
    cells += [f"{13 + i % 12:02}/{1 + i % 12:02}/2020" for i in range(180)]
    entries, marks = looked_at(cells)
    assert (entries["A"].type, marks) == (None, {"A": []})
    assert entries["A"].label.startswith("dates in the layouts ")


def test_days_that_may_be_months_say_so() -> None:
    entry = looked_at([f"{1 + i % 12:02}/{1 + i // 12 % 12:02}/2020" for i in range(300)])[0]["A"]
    assert (entry.type, entry.layout) == ("date", "%d/%m/%Y")
    assert entry.remark == "every date of A reads as %m/%d/%Y, too; say which is meant"


def test_columns_are_confirmed_by_a_list(tmp_path: Path) -> None:
    rows = pd.DataFrame({"A": [str(i % 3) for i in range(300)], "B": [str(i) for i in range(300)]})
    entries, marks = look(tally([rows]))
    text = draft(["A", "B"], entries, "people", taken=marks).text
    assert "\nconfirmed: []\n" in text
    path = tmp_path / "people.yaml"
    for listed, faults in (
        ("A, B", []),
        ("B", ['confirmed: ["A"]']),
        ("", ['confirmed: ["A", "B"]']),
        ("A, C", ['confirmed: ["B"]', "has 'C' under"]),
    ):
        path.write_text(text.replace("confirmed: []", f"confirmed: [{listed}]"))
        schema, problems = load_with_problems(path)
        assert len(problems) == len(faults)
        assert all(fault in problem for fault, problem in zip(faults, problems, strict=True))
        marked = [problem for problem in problems if "'taken_from_rows'" in problem]
        assert len(marked) == (listed != "A, B")
        if faults:
            with pytest.raises(InputError):
                Schema.load(path)
        else:
            plain = text.replace(', taken_from_rows: ["values"]', "").replace(
                ', taken_from_rows: ["type", "bounds"]', ""
            )
            assert Schema.load(path) == schema == schema_of(plain)
    path.write_text(text.replace("confirmed: []", "confirmed: all"))
    with pytest.raises(InputError, match="needs 'confirmed' to be a list"):
        Schema.load(path)


@pytest.mark.parametrize("form", ["s{:05}", "g{}", "EUR{:05}", "$0{:04}"])
def test_a_letter_or_zeros_before_digits_name_somebody(form: str, tmp_path: Path) -> None:
    """Of a panel, where each pupil has several rows, s00012 had been drafted as the number 12, with s as its unit."""
    path = tmp_path / "people.csv"
    path.write_text("\n".join(["PUPIL", *(form.format(i) for i in range(1, 301) for _ in range(4))]))
    tallies, file = tallies_of(path, ["PUPIL"], {})
    assert file == {}
    assert not look(tallies)[0]["PUPIL"].type
    assert not look(tallies, {"signs": ["EUR", "$"]})[0]["PUPIL"].type


def test_commas_between_thousands_of_rows_are_no_decimal_commas(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("PAY,N\n" + "".join(f'"{i},{500 + i % 400}",{i}\n' for i in range(1, 90)))
    tallies, file = tallies_of(path, ["PAY", "N"], {})
    assert file == {"thousands": ","}
    assert look(tallies, file)[0]["PAY"].upper == 90_000


def test_signs_thousands_and_parentheses_of_rows_are_drafted(tmp_path: Path) -> None:
    rng, path = np.random.default_rng(3), tmp_path / "people.csv"
    amounts, rates = rng.normal(0, 3000, 300), rng.random(300) * 100
    lines = [f'"{f"(${-x:,.2f})" if x < 0 else f"${x:,.2f}"}",{y:.1f} %,{i}' for i, (x, y) in
             enumerate(zip(amounts, rates, strict=True))]  # fmt: skip
    path.write_text("\n".join(["PAY,RATE,NR", *lines]))
    tallies, file = tallies_of(path, ["PAY", "RATE", "NR"], {})
    assert file == {"thousands": ",", "signs": ["$", "%"], "negative": "parentheses"}
    schema = schema_of(draft(["PAY", "RATE", "NR"], look(tallies, file)[0], "people", file).text)
    frame = FileSource.of(str(path), schema).read(["PAY", "RATE"])
    assert np.allclose(pd.to_numeric(frame["PAY"]), amounts.round(2), atol=1e-9)
    assert np.allclose(pd.to_numeric(frame["RATE"]), rates.round(1), atol=1e-9)


def test_what_would_read_other_columns_otherwise_is_not_drafted(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("\n".join(["A;B", *(f"{i}.25;{i},5 kg" for i in range(60))]))
    assert tallies_of(path, ["A", "B"], {"delimiter": ";"})[1] == {"delimiter": ";"}


def test_numbers_of_persons_are_left_out_and_amounts_are_not() -> None:
    """A number of the patient, in a table of admissions, had been drafted as a number from 1 to 17,000."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        {
            "patient": rng.integers(1, 3001, 4000),  # about 2,200 of them
            "income": np.round(np.exp(rng.normal(10, 1, 4000))),  # nearly as many numbers, with gaps
            "minute": rng.integers(0, 1440, 4000) // 2,
            "day": rng.integers(0, 366, 4000),
        }
    )
    found, marks = look(tally([frame]))
    assert [name for name in frame if not found[name].type] == ["patient"]
    made = draft([*frame], found, "visits", taken=marks)
    assert "declare unit: {column: NAME, at_most: ROWS}" in made.open["patient"]
    assert "If they are codes, as of schools, declare 'values'; of people, 'unit': minute, day" in made.text


def test_a_scale_beside_codes_of_missing_cells_is_asked_about() -> None:
    """Declared as ordinal values, -9 had come before 1; as nominal ones, they have no mean."""
    frame = pd.DataFrame({"Q1": [*range(1, 6), -9, -8] * 9, "Q2": [*range(1, 6), None] * 10 + [1] * 3,
                          "GRADE": [5, 6, 7] * 21})  # fmt: skip
    found, marks = look(tally([frame]))
    made = draft([*frame], found, "pupils", taken=marks)
    assert "as it is, these codes are values as the others are: Q1, Q2\n" in made.text
    assert "Then write 'type: ordinal'; as it is, it does not: GRADE\n" in made.text
    book = {"Q1": Entry.of("Q1", "", [(code, "") for code in (1, 2, 3)], ordered=True, absent=[(-9, "refused")])}
    assert "as the others are: Q1\n" in draft(["Q1"], book, "pupils").text
    given = made.text.partition("Then declare numbers, as ")[2].partition(", which")[0]
    schema = schema_of(f"confirmed: [Q1]\ncolumns:\n  Q1: {given}\n")
    assert not misfits([frame[["Q1"]].replace(-8, None)], schema)[1]


def test_zero_below_years_is_a_code_and_not_a_year() -> None:
    years = [*range(1890, 2020), *[0] * 9]
    entry = look(tally([pd.DataFrame({"BUILT": years})]))[0]["BUILT"]
    assert (entry.lower, entry.codes) == (1800.0, (("0", "0"),))
    for numbers in ([*range(12, 56), 0], [*range(500), 0], [*range(-40, 40), 0]):  # weights, pay, temperatures
        assert not look(tally([pd.DataFrame({"X": numbers})]))[0]["X"].codes
