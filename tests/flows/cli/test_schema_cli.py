"""Tests of `equistrata schema check`, which lists all problems at once for the owner of the rows."""

import json

import pytest
from in_process import command
from made_up_people import PEOPLE_SCHEMA, made_up_people
from rich.console import Console

from equistrata.data.schema import Schema

CANARY = "canary-8841"
MESSY = PEOPLE_SCHEMA + "impossible:\n  - {AGE: [0], JOB: ['yes']}\n"


@pytest.fixture
def messy(tmp_path):
    frame = made_up_people(50).astype(object)
    frame.loc[:, "AGE"], frame.loc[:, "JOB"] = 30, "no"
    frame.loc[3, "GROUP"], frame.loc[4, "GROUP"] = CANARY, CANARY + "b"
    frame.loc[5, "AGE"], frame.loc[6, "AGE"], frame.loc[7, "AGE"] = 8841, CANARY, None
    frame.loc[8, "AGE"], frame.loc[8, "JOB"] = 12, "yes"
    frame.drop(columns="SEX").to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "people.yaml").write_text(MESSY)
    return tmp_path


def check(monkeypatch, capsys, folder, *more):
    return command(monkeypatch, capsys, "schema", "check", folder / "people.yaml", *more)


def test_all_that_does_not_fit_is_told_without_a_value(messy, monkeypatch, capsys):
    code, told, error = check(monkeypatch, capsys, messy, "--input", messy / "people.csv")
    assert code == 2
    for each in ("no such column", "undeclared values", "out of bounds", "not numbers", "missing cells", "AGE × JOB"):
        assert each in told
    assert error == "error: file 'people.csv' does not fit the schema; correct what is listed\n"
    assert "canary" not in told + error
    assert "8841" not in told + error


def test_json(messy, monkeypatch, capsys):
    code, told, _ = check(monkeypatch, capsys, messy, "--input", messy / "people.csv", "--json")
    document = json.loads(told)
    assert code == 2
    assert not document["fits"]
    assert document["rows"] == 50
    assert all(each.pop("remedy") for each in document["misfits"])
    assert {"columns": ["GROUP"], "fault": "undeclared values", "cells": 2, "distinct": 2} in document["misfits"]
    assert {"columns": ["SEX"], "fault": "no such column", "cells": 0, "distinct": None} in document["misfits"]
    assert document["unchecked"] == []
    assert "canary" not in told
    code, told, error = check(monkeypatch, capsys, messy, "--json")
    assert (code, error) == (0, "")
    assert json.loads(told)["fits"] is True


def test_values_are_shown_in_a_terminal_alone(messy, monkeypatch, capsys):
    given = ("--input", messy / "people.csv", "--show")
    code, told, error = check(monkeypatch, capsys, messy, *given)
    assert (code, told) == (2, "")
    assert "only works in a terminal" in error
    monkeypatch.setattr("equistrata.flows.cli.schema.out", Console(force_terminal=True, width=200))
    code, told, error = check(monkeypatch, capsys, messy, *given)
    assert code == 2
    assert f"{CANARY}; {CANARY}b" in told
    assert "AGE=12, JOB=yes" in told
    assert "canary" not in error


def test_every_problem_of_the_file_is_told_and_the_table_checked_by_the_rest(messy, monkeypatch, capsys):
    bad = MESSY.replace("values: [1, 2]", "values: [1, 1]").replace("upper: 1000000", "upper: -1")
    (messy / "people.yaml").write_text(bad)
    code, told, error = check(monkeypatch, capsys, messy, "--input", messy / "people.csv")
    assert code == 2
    assert error.count("schema: column") == 2
    assert error.endswith("has problems; correct what is listed\n")
    assert "undeclared values" in told
    assert "no such column" not in told  # the declaration of SEX is not valid


def test_help_says_what_is_private(monkeypatch, capsys):
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 300)
    _, told, _ = command(monkeypatch, capsys, "schema", "check", "--help")
    assert "up to 20 per column. They are private" in told
    assert "so it is private" in told


def test_open_columns_fit_whatever_they_hold(tmp_path, monkeypatch, capsys):
    made_up_people(50).to_csv(tmp_path / "people.csv", index=False)
    open_jobs = PEOPLE_SCHEMA.replace("JOB: {values: ['no', 'yes']}", "JOB: {values: open}")
    (tmp_path / "people.yaml").write_text(open_jobs)
    code, out, _ = check(monkeypatch, capsys, tmp_path, "--input", tmp_path / "people.csv")
    assert code == 0
    assert "found by a release" in out
    plan = ("plan", "--schema", tmp_path / "people.yaml", "--synthesizer", "mst", "--rows", 5000)
    code, out, err = command(monkeypatch, capsys, *plan, "--columns", "AGE,JOB", "--strata", "")
    assert code == 0
    assert "JOB: planned with 100 values" in " ".join((out + err).split())
    code, out, err = command(monkeypatch, capsys, *plan, "--columns", "AGE,JOB", "--strata", "JOB")
    assert code == 2
    assert "stratum column 'JOB' is declared as 'values: open'" in " ".join((out + err).split())


def test_each_misfit_says_what_to_write_in_its_line(messy, monkeypatch, capsys):
    _, told, _ = check(monkeypatch, capsys, messy, "--input", messy / "people.csv")
    assert "\nAGE: missing cells; declare missing: own.\n" in told
    assert "\nGROUP: undeclared values; list them under 'values', or" in told
    assert "all others with 'others'; --show prints them.\n" in told


def test_columns_that_were_not_checked_are_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "people.csv").write_text("A,C,NOTE\n1,2,x\n")
    text = "default: [A]\ncolumns: {A: {lower: 0, upper: 9}, B: {lower: 9, upper: 0}, D: {lower: 0, upper: 9}}"
    (tmp_path / "people.yaml").write_text(text)
    code, told, _ = check(monkeypatch, capsys, tmp_path, "--input", tmp_path / "people.csv")
    assert code == 2
    assert "people.csv fits the columns that are declared correctly.\nNot checked: B (declared incorrectly); " in told
    assert "D (not in the file and not released by default); C, NOTE (not declared).\n" in told
    _, told, _ = check(monkeypatch, capsys, tmp_path, "--input", tmp_path / "people.csv", "--json")
    assert json.loads(told)["unchecked"] == ["B", "D", "C", "NOTE"]
    (tmp_path / "people.yaml").write_text("columns: {B: {lower: 9, upper: 0}}")
    code, told, _ = check(monkeypatch, capsys, tmp_path, "--input", tmp_path / "people.csv")
    assert (code, told) == (2, "people.csv was not checked, because no column is declared correctly.\n")


def test_a_file_without_a_header_line_is_not_quoted(tmp_path, monkeypatch, capsys):
    (tmp_path / "people.csv").write_text(f"{CANARY},8841\n{CANARY},2\n")
    (tmp_path / "people.yaml").write_text("columns: {A: {lower: 0, upper: 9}}")
    for form in ((), ("--json",)):
        code, told, error = check(monkeypatch, capsys, tmp_path, "--input", tmp_path / "people.csv", *form)
        assert code == 2
        assert "canary" not in told + error


def test_a_header_that_differs_by_case_or_blanks_is_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "people.csv").write_text("sex ,Age\n1,2\n")
    (tmp_path / "people.yaml").write_text("columns: {sex: {values: [1, 2]}, age: {lower: 0, upper: 9}}")
    _, told, _ = check(monkeypatch, capsys, tmp_path, "--input", tmp_path / "people.csv")
    assert "sex: no such column; the header line has 'sex ' instead of 'sex'; use the same spelling in both." in told
    assert "age: no such column; the header line has 'Age' instead of 'age'; use the same spelling in both." in told


def test_rows_of_other_cells_and_doubled_columns_are_told_with_all_else(tmp_path, monkeypatch, capsys):
    lines = ["A,B,A,C", *["1,2,3,4"] * 3, "1,2,canary", '1,2,3,"4\n4"', "1,2,3,4,canary", "1,2,3,40"]
    (tmp_path / "people.csv").write_text("\n".join(lines))
    bound = "{lower: 0, upper: 9}"
    (tmp_path / "people.yaml").write_text(f"columns: {{A: {bound}, B: {bound}, C: {bound}}}")
    code, said, _ = check(monkeypatch, capsys, tmp_path, "--input", tmp_path / "people.csv", "--json")
    document = json.loads(said)
    assert (code, document["rows"], document["fits"]) == (2, 5, False)
    assert document["file"][0].startswith("columns 1 and 3 are both named 'A' (ignoring blanks); rename one")
    assert "line 5 has 3 cells, but the header has 4; line 8 has 5 cells" in document["file"][1]
    assert [(each["columns"], each["fault"]) for each in document["misfits"]] == [
        (["C"], "not numbers"),
        (["C"], "out of bounds"),
    ]
    assert document["unchecked"] == ["A"]
    code, said, err = check(monkeypatch, capsys, tmp_path, "--input", tmp_path / "people.csv")
    told = " ".join((said + err).split())
    assert "file: columns 1 and 3 are both named 'A'" in told
    assert "Not checked: A (twice in the file)" in told
    assert "canary" not in told


def test_a_file_that_only_has_rows_of_other_cells_does_not_fit(tmp_path, monkeypatch, capsys):
    (tmp_path / "people.csv").write_text("A\n1\n2,3\n" + "4,5\n" * 20)
    (tmp_path / "people.yaml").write_text("columns: {A: {lower: 0, upper: 9}}")
    code, said, err = check(monkeypatch, capsys, tmp_path, "--input", tmp_path / "people.csv")
    assert code == 2
    told = " ".join((said + err).split())
    assert "and 13 more rows. These rows were not checked" in told
    assert "fits the columns that are declared correctly, as far as it was checked" in told


@pytest.mark.parametrize(("header", "rows"), [("A,B", "ü"), ("A,Bü", "€"), ("A,B", "€")])
def test_rows_in_another_encoding_are_told_with_all_else(header, rows, tmp_path, monkeypatch, capsys):
    encoding = "cp1252"
    (tmp_path / "people.csv").write_bytes(f"{header}\n".encode(encoding) + f"10,{rows}\n5,x\n".encode(encoding))
    name = header.partition(",")[2]
    (tmp_path / "people.yaml").write_text(f"columns: {{A: {{lower: 0, upper: 9}}, {name}: {{values: [x, {rows}]}}}}")
    code, said, _ = check(monkeypatch, capsys, tmp_path, "--input", tmp_path / "people.csv", "--json")
    document = json.loads(said)
    assert code == 2
    assert document["file"] == [
        f"the file is not UTF-8 text; declare file: {{encoding: {encoding}}}, or save it as UTF-8"
    ]
    assert [(each["columns"], each["fault"]) for each in document["misfits"]] == [(["A"], "out of bounds")]


def test_the_digest_is_that_of_a_release_s_card(tmp_path, monkeypatch, capsys):
    (tmp_path / "people.yaml").write_text(PEOPLE_SCHEMA)
    code, told, _ = check(monkeypatch, capsys, tmp_path)
    assert code == 0
    assert Schema.load(tmp_path / "people.yaml").selected().digest[:16] in told


@pytest.mark.parametrize("missing", ["missing: x", "missing: z"])
def test_an_encoding_and_an_absent_column_hide_no_other_problem(missing, tmp_path, monkeypatch, capsys):
    # The column names show the encoding of the header, although one of the declared columns is absent.
    (tmp_path / "people.csv").write_bytes("A,Bü\n10,ü\n5,x\n".encode("latin-1"))
    columns = (
        f"{{A: {{lower: 0, upper: 9}}, Bü: {{values: [x, ü]}}, C: {{values: [x, y], {missing}}}, D: {{values: [1]}}}}"
    )
    (tmp_path / "people.yaml").write_text(f"columns: {columns}")
    code, said, _ = check(monkeypatch, capsys, tmp_path, "--input", tmp_path / "people.csv", "--json")
    document = json.loads(said)
    assert code == 2
    assert len(document["problems"]) == ("z" in missing)
    assert document["file"] == ["the file is not UTF-8 text; declare file: {encoding: cp1252}, or save it as UTF-8"]
    absent = {each["columns"][0] for each in document["misfits"] if each["fault"] == "no such column"}
    assert absent == ({"D"} if "z" in missing else {"C", "D"})


def test_a_delimiter_that_is_not_declared_is_said(tmp_path, monkeypatch, capsys):
    (tmp_path / "people.csv").write_text("A;B\n1;2\n")
    (tmp_path / "people.yaml").write_text("columns: {A: {lower: 0, upper: 9}, B: {lower: 0, upper: 9}}")
    code, said, _ = check(monkeypatch, capsys, tmp_path, "--input", tmp_path / "people.csv", "--json")
    assert code == 2
    assert 'declare the delimiter, such as file: {delimiter: ";"}' in json.loads(said)["file"][0]


def test_a_file_that_cannot_be_read_hides_no_problem_of_the_schema(tmp_path, monkeypatch, capsys):
    (tmp_path / "people.csv").write_bytes(b"")
    (tmp_path / "people.yaml").write_text("columns: {A: {lower: 0, upper: 9}, B: {lower: 9, upper: 0}}")
    code, said, err = check(monkeypatch, capsys, tmp_path, "--input", tmp_path / "people.csv")
    told = " ".join((said + err).split())
    assert code == 2
    assert "column 'B' of schema" in told
    assert "is empty; it needs a header line" in told


@pytest.mark.parametrize(
    ("value", "noted"), [("=cmd", True), ("@x", True), ("-1+1", True), ("-9", False), ("a=b", False)]
)
def test_values_that_a_spreadsheet_would_run_are_noted(value, noted, tmp_path, monkeypatch, capsys):
    (tmp_path / "people.yaml").write_text(
        f"columns: {{A: {{lower: 0, upper: 9}}, B: {{values: [x, {json.dumps(value)}]}}}}"
    )
    code, said, _ = check(monkeypatch, capsys, tmp_path)
    assert code == 0
    assert ("values of B begin with =, +, - or @" in " ".join(said.split())) == noted


def test_units_of_a_coded_table_are_read_as_its_other_columns(tmp_path, monkeypatch, capsys):
    """The option `file` of a schema describes how raw tables are written, and a table of released codes is a plain CSV
    file.
    """
    (tmp_path / "people.yaml").write_text(
        "file: {delimiter: ';'}\nunit: {column: ID, at_most: 2}\ncolumns:\n  SEX: {values: [1, 2]}\n"
    )
    (tmp_path / "coded.csv").write_text("ID,SEX\na,1\na,2\nb,1\n")
    code, told, error = check(monkeypatch, capsys, tmp_path, "--input", tmp_path / "coded.csv", "--coded", "--json")
    assert (code, error) == (0, "")
    assert json.loads(told)["units_by_rows"] == [1, 1]


def test_the_survey_weight_is_checked_as_a_column_that_is_released(tmp_path, monkeypatch, capsys):
    text = "default: [A]\ncolumns: {A: {lower: 0, upper: 9}}\nsurvey_weight: {column: W, upper: 9}"
    (tmp_path / "people.yaml").write_text(text)
    for rows, code, says in (
        ("A,W\n1,99\n", 0, "fits"),
        ("A,W\n1,\n2,3\n", 2, "W: missing cells; each row needs a weight"),
        ("A\n1\n", 2, "W: no such"),
    ):
        (tmp_path / "people.csv").write_text(rows)
        found, told, _ = check(monkeypatch, capsys, tmp_path, "--input", tmp_path / "people.csv")
        assert (found, says in told, "Not checked" in told) == (code, True, False)


def test_an_id_that_repeats_is_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "people.csv").write_text("ID,AGE\n1,3\n1,4\n2,5\n")
    (tmp_path / "people.yaml").write_text("unit: {column: ID}\ncolumns: {AGE: {lower: 0, upper: 9}}")
    code, _, err = check(monkeypatch, capsys, tmp_path, "--input", tmp_path / "people.csv")
    assert code == 2
    assert "several rows have the same 'ID'" in err
