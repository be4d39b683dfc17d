"""Tests of the YAML file of a draft and of its open questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from equistrata.data.drafting.column import BookColumn
from equistrata.data.drafting.draft import draft
from equistrata.data.problems import load_with_problems
from equistrata.data.questions import asked, readings
from equistrata.data.schema import Schema
from equistrata.data.texts.documents import parse
from equistrata.errors import InputError

SEX = BookColumn("SEX", "Sex: of the person", values=(("1", "Male"), ("2", 'a "woman"')))
HOURS = BookColumn("HOURS", "", "integer", (("99", "99 or more"),), lower=1, upper=98)
WEIGHT = BookColumn("PWGTP", "Weight", "integer", lower=1, upper=9999)
COLUMNS = ["SEX", "no", "HOURS", "NAME"]
NO = BookColumn("no", "", "number", lower=0.00001, upper=0.5, decimals=5)
BOOK = {"SEX": SEX, "no": NO, "HOURS": HOURS}


def written(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def test_what_is_declared_reads_back() -> None:
    made = draft(COLUMNS, BOOK, "people")
    schema = Schema.from_dict(parse(made.text, "draft"))
    assert (made.declared, schema.names) == (["SEX", "no"], ("SEX", "no"))
    assert (schema["SEX"].label, dict(schema["SEX"].labels)) == (SEX.label, {1: "Male", 2: 'a "woman"'})
    assert schema["no"].bounds == (0.00001, 0.5)
    assert [*made.asked] == ["HOURS"]
    assert [*made.left_out] == ["NAME"]
    assert "PRIVATE" not in made.text


def test_no_command_takes_an_open_question_about_a_column_that_it_releases(tmp_path: Path) -> None:
    made = draft(COLUMNS, BOOK, "people")
    schema = Schema.load(written(tmp_path / "people.yaml", made.text))
    assert asked(made.text, {"SEX"}) == ["HOURS"]
    for select in (schema.selected, lambda: schema.select(["SEX", "HOURS"])):
        with pytest.raises(
            InputError, match=r"column 'HOURS' of schema 'people' is a QUESTION: remove \"# \" from one"
        ):
            select()
    assert schema.select(["SEX"]).names == ("SEX",)
    with pytest.raises(InputError, match="unknown column 'NAME'"):
        schema.select(["NAME"])
    loaded, problems = load_with_problems(tmp_path / "people.yaml")
    assert loaded is not None
    assert [problem.partition(":")[0] for problem in problems] == [
        f"column 'HOURS' of schema {tmp_path / 'people.yaml'} is a QUESTION"
    ]


@pytest.mark.parametrize("choice", [0, 1])
def test_a_line_that_is_uncommented_answers_and_deleted_lines_leave_a_column_out(tmp_path: Path, choice: int) -> None:
    made = draft(COLUMNS, BOOK, "people")
    lines = made.text.splitlines(keepends=True)
    places = [place for place, line in enumerate(lines) if line.startswith("  # HOURS: ")]
    specs = [spec for _, spec in readings(made.text, "HOURS")]
    lines[places[choice]] = lines[places[choice]].replace("# ", "", 1)
    schema = Schema.load(written(tmp_path / "people.yaml", "".join(lines))).selected()
    assert schema["HOURS"].bounds == (specs[choice]["lower"], specs[choice]["upper"])
    left = "".join(line for line in made.text.splitlines(keepends=True) if "HOURS" not in line)
    assert Schema.load(written(tmp_path / "people.yaml", left)).selected().names == ("SEX", "no")


def test_names_that_yaml_quotes_are_asked_by_their_names(tmp_path: Path) -> None:
    name = 'hours: "a" # week'
    made = draft(["SEX", name], {"SEX": SEX, name: BookColumn(name, "", "integer", (("99", "x"),), 1, 98)}, "people")
    assert asked(made.text, {"SEX"}) == [name]
    assert len(readings(made.text, name)) == 2
    with pytest.raises(InputError, match="is a QUESTION"):
        Schema.load(written(tmp_path / "people.yaml", made.text)).select([name])


def test_survey_weights_are_not_released_by_default_and_questions_are(tmp_path: Path) -> None:
    made = draft(["SEX", "PWGTP", "HOURS"], BOOK | {"PWGTP": WEIGHT}, "people")
    assert made.aside == ["PWGTP"]
    schema = Schema.load(written(tmp_path / "people.yaml", made.text))
    assert schema.default == ("SEX", "HOURS")
    assert schema.select(["PWGTP"]).names == ("PWGTP",)


def test_a_draft_without_a_column_says_what_is_in_its_comments(tmp_path: Path) -> None:
    made = draft(["HOURS", "NAME"], BOOK, "people")
    path = written(tmp_path / "people.yaml", made.text)
    with pytest.raises(InputError, match="declares no column, because these are only comments: HOURS, NAME"):
        Schema.load(path)
    assert "declares no column" in load_with_problems(path)[1][0]


def test_what_a_schema_refuses_is_left_out_with_the_reason() -> None:
    wide = BookColumn("N", "", "integer", lower=0, upper=2.0**60)
    made = draft(["SEX", "N"], BOOK | {"N": wide}, "people")
    assert "where whole numbers are not exact" in made.left_out["N"]


def test_labels_that_a_program_may_have_made_are_marked() -> None:
    jobs = BookColumn("JOB", "", "nominal", (("1", "nurse"), ("2", "pilot")), from_rows=True)
    made = draft(["JOB"], {"JOB": jobs}, "people")
    assert made.taken == {"JOB": ["labels"]}
    assert 'taken_from_rows: ["labels"]' in made.text
    assert made.text.startswith("# A DRAFT FROM PRIVATE ROWS")


def test_columns_of_the_book_alone_and_names_that_differ_by_case() -> None:
    made = draft(["sex "], BOOK, "people")
    assert made.declared == ["sex "]
    assert made.unknown == ["no", "HOURS"]
