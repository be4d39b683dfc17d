"""Drafts of schemas: valid as they are, with a question at each open place, and none of the rows unless asked."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from equistrata.data import documents
from equistrata.data.drafting.draft import draft
from equistrata.data.drafting.entries import Entry
from equistrata.data.drafting.look import header_of, lacking, look, rows_of
from equistrata.data.problems import schema_problems
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


def test_a_declaration_that_the_schema_would_refuse_is_a_question() -> None:
    many = [(str(code), "") for code in range(10_001)]
    made = draft(["A", "B"], {"A": Entry.of("A", codes=many), "B": Entry.of("B", "", (), 0, 1)}, "people")
    assert made.declared == ["B"]
    assert "10,000 are the most" in made.open["A"]


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
    frame, file = rows_of(path, columns, file)
    assert file == {"delimiter": ";", "encoding": "latin-1", "decimal": ","}
    entries, marks = look(frame, ",")
    made = draft(columns, entries, "people", file, marks)
    assert set(made.open) == {"Nr", "Notiz"}
    document = documents.parse(made.text, "draft")
    assert len(schema_problems(document, "draft")[1]) == 4
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
        ([str(i % 5) for i in range(300)], "nominal"),
        (["a", "b"] * 100, "nominal"),
        ([f"person {i}" for i in range(300)], None),
        (["2024-01-31", "2023-02-01"] * 100, "date"),
        (["01/02/2024", "13/02/2024"] * 100, "date"),
        ([None] * 10, None),
        (["12 Main St", "x"] + [f"{i} Road" for i in range(300)], None),
    ],
)
def test_kinds_of_columns(cells: list[str | None], kind: str | None) -> None:
    entries, marks = look(pd.DataFrame({"A": cells}))
    assert entries["A"].type == kind
    assert bool(marks["A"]) == (kind is not None)


def test_bounds_are_no_rows_values() -> None:
    entry = look(pd.DataFrame({"A": [str(i + 0.123) for i in range(301, 702)]}))[0]["A"]
    assert (entry.lower, entry.upper) == (300.0, 710.0)


def test_sentinels_far_from_all_others() -> None:
    entry = look(pd.DataFrame({"A": [*map(str, range(100)), "-9", "999", "N"]}))[0]["A"]
    assert [raw for raw, _ in entry.codes] == ["N", "-9", "999"]
    assert (entry.lower, entry.upper) == (0.0, 99.0)
    assert look(pd.DataFrame({"A": [*map(str, range(-50, 100))]}))[0]["A"].codes == ()


def test_missing_cells_of_which_a_book_says_nothing() -> None:
    entry, frame = Entry.of("A", "", (), 0, 9), pd.DataFrame({"A": ["1", None]})
    assert (found := lacking(entry, frame)) is not None
    assert found.missing
    assert lacking(found, frame) is None
    assert lacking(entry, frame.dropna()) is None


def test_headers_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    for text, said in (("", "is empty"), ("a,a\n1,2\n", "two columns of one name"), ("a,\n1,2\n", "without a name")):
        path.write_text(text)
        with pytest.raises(InputError, match=said):
            header_of(path, set())
    with pytest.raises(InputError, match="cannot be read"):
        header_of(tmp_path / "absent.csv", set())


def test_a_name_of_two_lines(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text('a;"b\nc";d\n1;2;3\n')
    assert header_of(path, set()) == (["a", "b\nc", "d"], {"delimiter": ";"})
