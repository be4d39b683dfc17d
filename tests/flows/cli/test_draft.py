"""Tests of `equistrata schema draft`, from a code book and a table to a release."""

from __future__ import annotations

import errno
import json
import os
import shlex
import stat
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from in_process import command

from equistrata.data.schema import Schema
from equistrata.data.table_check import count_rows_by_declaration
from equistrata.data.texts.manifest import MANIFEST_FORMAT
from equistrata.errors import InputError
from equistrata.flows.config.release import delta_for

BOOK = """name,label,type,values,lower,upper,missing
SEX,Sex,,1=Male; 2=Female,,,
AGE,Age in years,integer,,0,99,N=not known
JOB,Occupation,,,,,
"""
DOUBTFUL = BOOK + "HOURS,Hours,,0..98; 99=99 or more,,,\n"


def table(folder):
    rows = pd.DataFrame({"SEX": [1, 2] * 150, "AGE": ["N", *map(str, range(99)), "7"] * 2 + ["5"] * 98})
    rows["JOB"] = [f"job {i}" for i in range(300)]
    rows.to_csv(folder / "people.csv", index=False)
    (folder / "book.csv").write_text(BOOK)
    return folder


def test_from_a_code_book_to_a_release_in_two_commands(served):
    folder = table(served.home)
    drafted = served("schema", "draft", "people.csv", "--codebook", "book.csv", "--output", "people.yaml")
    assert drafted.returncode == 0, drafted.stderr
    assert "2 of 3 columns declared" in drafted.stdout
    assert "left out: JOB (the book has neither values nor bounds)" in drafted.stdout + drafted.stderr
    made = served("release", "--input", "people.csv", "--schema", "people.yaml", "--strata", "SEX")
    assert made.returncode == 0, made.stderr
    assert "Age in years" in (folder / "release" / "schema.json").read_text()


def test_labels_that_a_program_made_of_rows_are_no_code_book(tmp_path, monkeypatch, capsys):
    """The command `encode` of Stata and the categories of pandas number the values in the rows, so the job of a single
    person would be declared as a value.
    """
    monkeypatch.chdir(tmp_path)
    jobs = ["nurse"] * 60 + ["teacher"] * 40 + ["farmer"] * 20
    for name, more in (("without", []), ("with", ["astronaut"])):
        rows = pd.DataFrame({"JOB": pd.Categorical(jobs + more), "KIND": 1})
        rows.to_stata(f"{name}.dta", write_index=False, value_labels={"KIND": {1: "low", 2: "middle", 3: "high"}})
        code, _, told = command(monkeypatch, capsys, "schema", "draft", f"{name}.dta", "--output", f"{name}.yaml")
        assert code == 0, told
        assert "labels in alphabetical order: JOB. Such labels" in " ".join(told.split())
        made = Path(f"{name}.yaml")
        assert ("astronaut" in made.read_text()) == (name == "with")
        assert stat.S_IMODE(made.stat().st_mode) == 0o600
        with pytest.raises(InputError, match=r"column 'JOB' .* is marked as 'taken_from_rows'"):
            Schema.load(made)
        assert command(monkeypatch, capsys, "schema", "confirm", f"{name}.yaml", "--columns", "JOB")[0] == 0
        assert Schema.load(made).names == ("JOB", "KIND")  # its labels are not in alphabetical order
    release = tmp_path / "release"
    release.mkdir()
    (release / "manifest.json").write_text(json.dumps({"format": MANIFEST_FORMAT, "files": {}}))
    code, _, told = command(monkeypatch, capsys, "schema", "draft", "with.dta", "--output", "release/people.yaml")
    assert code == 2
    assert "a draft with values from the rows is private" in told
    assert not (release / "people.yaml").exists()


def test_a_question_is_refused_until_it_is_answered_and_other_columns_are_released(served):
    folder = table(served.home)
    rows = pd.read_csv(folder / "people.csv")
    rows.assign(HOURS=[*range(100)] * 3).to_csv(folder / "people.csv", index=False)
    (folder / "book.csv").write_text(DOUBTFUL)
    drafted = served("schema", "draft", "people.csv", "--codebook", "book.csv", "--output", "people.yaml")
    assert "question: HOURS (99 (99 or more) in addition to the numbers 0 to 98)" in drafted.stderr
    release = ("release", "--input", "people.csv", "--schema", "people.yaml", "--strata", "SEX")
    refused = served(*release)
    assert refused.returncode == 2
    assert "column 'HOURS' of schema 'people' is a QUESTION" in " ".join(refused.stderr.split())
    assert not (folder / "release").exists()
    checked = served("schema", "check", "people.yaml", "--input", "people.csv")
    assert checked.returncode == 2
    assert "rows that each reading fits" not in checked.stdout + checked.stderr  # it is private
    assert served(*release, "--columns", "SEX,AGE", "--output", "some").returncode == 0
    text = (folder / "people.yaml").read_text()
    (folder / "people.yaml").write_text(text.replace("  # HOURS:", "  HOURS:", 1))
    made = served(*release)
    assert made.returncode == 0, made.stderr
    assert "HOURS" in pd.read_parquet(folder / "release" / "synthetic.parquet")


def test_a_check_counts_the_rows_that_each_reading_fits(tmp_path):
    hours = "HOURS\n" + "".join(f"{i}\n" for i in range(100)) + "x\n"
    (tmp_path / "people.csv").write_text(hours)
    (tmp_path / "people.yaml").write_text(
        "columns:\n  SEX: {values: [1, 2]}\n  # QUESTION HOURS: why. How.\n"
        "  # HOURS: {lower: 0, upper: 99, integer: true}  # all are numbers\n"
        "  # HOURS: {lower: 0, upper: 89, integer: true, codes: {x: none}}  # x is a code\n"
    )
    schema = Schema.load(tmp_path / "people.yaml")
    found = count_rows_by_declaration(tmp_path / "people.csv", str(tmp_path / "people.yaml"), schema)
    assert found == [("HOURS", "all are numbers", 100, 101), ("HOURS", "x is a code", 91, 101)]


def test_a_template_is_filled_in_and_drafted(equistrata):
    folder = equistrata.home
    (folder / "people.csv").write_text("SEX;AGE\nF;3\nM;5\n")
    made = equistrata("schema", "draft", "people.csv", "--template", "book.csv")
    assert made.returncode == 0, made.stderr
    lines = (folder / "book.csv").read_text().splitlines()
    assert [line.partition(",")[0] for line in lines] == ["name", "SEX", "AGE"]
    filled = [lines[0], "SEX,Sex,nominal,F; M,,,,,,", "AGE,Age,integer,,0,99,,,,", ""]
    (folder / "book.csv").write_text("\n".join(filled))
    drafted = equistrata("schema", "draft", "people.csv", "--codebook", "book.csv", "--output", "people.yaml")
    assert "2 of 2 columns declared" in drafted.stdout
    assert 'file: {delimiter: ";"}' in (folder / "people.yaml").read_text()
    assert equistrata("schema", "check", "people.yaml", "--input", "people.csv").returncode == 0
    for words in ((), ("--output", "a.yaml", "--template", "b.csv")):
        refused = equistrata("schema", "draft", "people.csv", *words)
        assert refused.returncode == 2
        assert "give --output for a schema, or --template" in " ".join(refused.stderr.split())


def test_a_book_that_is_not_read_names_the_formats_and_the_template(equistrata):
    table(equistrata.home)
    (equistrata.home / "book.txt").write_text("SEX  1\n    Sex\n         1 .Male\n")
    refused = equistrata("schema", "draft", "people.csv", "--codebook", "book.txt", "--output", "people.yaml")
    assert refused.returncode == 2
    said = " ".join(refused.stderr.split())
    assert "is in none of the supported formats, which are Frictionless Table Schema" in said
    assert "equistrata schema draft FILE --template book.csv writes" in said


def test_a_stata_file_is_drafted_checked_and_released_without_another_book(served):
    home, labels = served.home, {"SEX": {1: "Male", 2: "Female"}, "JOB": {0: "no", 1: "yes"}}
    rows = pd.DataFrame({"SEX": [1, 2] * 150, "JOB": [0, 0, 1] * 100, "AGE": [*range(100)] * 3})
    rows.to_stata(home / "people.dta", write_index=False, value_labels=labels, variable_labels={"SEX": "Sex"})
    drafted = served("schema", "draft", "people.dta", "--output", "people.yaml")
    assert drafted.returncode == 0, drafted.stderr
    assert "2 of 3 columns declared" in drafted.stdout
    fits = served("schema", "check", "people.yaml", "--input", "people.dta")
    assert fits.returncode == 0, fits.stdout
    made = served("release", "--input", "people.dta", "--schema", "people.yaml", "--strata", "SEX")
    assert made.returncode == 0, made.stderr
    released = pd.read_parquet(home / "release" / "synthetic.parquet")
    assert {*released["SEX"]} == {1, 2}
    assert abs((released["JOB"] == 1).mean() - 1 / 3) < 0.2


def test_a_draft_of_rows_is_private_and_refused_until_it_is_confirmed(equistrata):
    folder = table(equistrata.home)
    drafted = equistrata("schema", "draft", "people.csv", "--look", "--output", "people.yaml")
    assert drafted.returncode == 0, drafted.stderr
    assert stat.S_IMODE((folder / "people.yaml").stat().st_mode) == 0o600
    assert "job 17" not in drafted.stdout + drafted.stderr
    assert "left out: JOB\n" in drafted.stderr  # The output is captured, so it does not describe the rows.
    assert "many different texts" in (folder / "people.yaml").read_text()
    assert "equistrata schema confirm people.yaml" in " ".join(drafted.stderr.split())
    refused = equistrata("release", "--input", "people.csv", "--schema", "people.yaml")
    assert refused.returncode == 2
    assert "is marked as 'taken_from_rows'" in refused.stderr
    assert not (folder / "release").exists()
    wrong = equistrata("schema", "confirm", "people.yaml", "--columns", "JOB")
    assert "column 'JOB' of schema people.yaml is not marked" in " ".join(wrong.stderr.split())
    assert equistrata("schema", "confirm", "people.yaml").returncode == 2
    assert "confirmed 1 of" in equistrata("schema", "confirm", "people.yaml", "--columns", "SEX").stdout
    every = equistrata("schema", "confirm", "people.yaml", "--all-as-public")
    assert every.returncode == 0, every.stderr
    assert Schema.load(folder / "people.yaml").names == ("SEX",)
    assert stat.S_IMODE((folder / "people.yaml").stat().st_mode) == 0o600


def test_a_draft_of_rows_is_put_into_no_release(equistrata):
    table(equistrata.home)
    release = equistrata.home / "release"
    (release / "inner").mkdir(parents=True)
    (release / "manifest.json").write_text(json.dumps({"format": MANIFEST_FORMAT, "files": {}}))
    refused = equistrata("schema", "draft", "people.csv", "--look", "--output", "release/inner/people.yaml")
    assert refused.returncode == 2
    assert "which is to be published; name a file outside it" in refused.stderr
    assert not (release / "inner" / "people.yaml").exists()


def test_later_commands_say_what_a_draft_without_a_column_leaves_out(equistrata):
    folder = equistrata.home
    (folder / "people.csv").write_text("NOTE\n" + "".join(f"note {i}\n" for i in range(50)))
    drafted = equistrata("schema", "draft", "people.csv", "--look", "--output", "people.yaml")
    assert drafted.returncode == 0, drafted.stderr
    assert "taken_from_rows" not in (folder / "people.yaml").read_text() + drafted.stderr
    assert stat.S_IMODE((folder / "people.yaml").stat().st_mode) == 0o600
    for words in (("release", "--schema"), ("schema", "check")):
        refused = equistrata(*words, "people.yaml", "--input", "people.csv")
        assert refused.returncode == 2
        assert "because these are only comments: NOTE" in " ".join((refused.stdout + refused.stderr).split())


def test_an_output_that_exists_stays(equistrata):
    folder = table(equistrata.home)
    (folder / "people.yaml").write_text("mine")
    refused = equistrata("schema", "draft", "people.csv", "--output", "people.yaml")
    assert refused.returncode == 2
    assert "exists; choose another one" in refused.stderr
    assert (folder / "people.yaml").read_text() == "mine"
    forced = equistrata("schema", "draft", "people.csv", "--output", "people.yaml", "--force")
    assert forced.returncode == 0
    assert "# LEFT OUT JOB: not in the book" in (folder / "people.yaml").read_text()
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_a_draft_of_survey_weights_alone_says_that_it_releases_nothing(equistrata):
    folder = equistrata.home
    (folder / "people.csv").write_text("JOB,PWGTP\na,1\nb,2\n")
    (folder / "book.csv").write_text("name,label,lower,upper\nPWGTP,Weight,1,9\n")
    drafted = equistrata("schema", "draft", "people.csv", "--codebook", "book.csv", "--output", "people.yaml")
    assert drafted.returncode == 0, drafted.stderr
    assert "declared, not released by default: PWGTP" in " ".join(drafted.stderr.split())
    refused = equistrata("release", "--input", "people.csv", "--schema", "people.yaml")
    assert refused.returncode == 2
    assert "has an empty 'default', so no column is released" in " ".join(refused.stderr.split())


def test_a_draft_that_cannot_be_written_is_a_sentence(tmp_path, monkeypatch, capsys):
    """On a read-only file system, the removal of the missing file failed as well."""
    table(tmp_path)
    monkeypatch.chdir(tmp_path)
    made = "people.yaml"

    def refuse(original):
        def refusing(path, *given, **named):
            if made in str(path):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
            return original(path, *given, **named)

        return refusing

    monkeypatch.setattr(os, "open", refuse(os.open))
    monkeypatch.setattr(os, "unlink", refuse(os.unlink))
    code, _, said = command(
        monkeypatch, capsys, "schema", "draft", "people.csv", "--codebook", "book.csv", "--output", made
    )
    assert (code, "'people.yaml' cannot be made (read-only file system)" in said) == (2, True)


def test_a_folder_to_work_in_leads_to_a_release_by_the_commands_it_prints(served):
    folder = table(served.home)
    made = served("init", "people.csv", "--codebook", "book.csv", "--strata", "SEX", "--units", "300")
    assert made.returncode == 0, made.stderr
    steps = made.stdout.partition("next:\n")[2].splitlines()
    assert steps[0] == "  cd people"
    served = replace(served, home=folder / "people")
    for step in steps[1:]:
        name, *arguments = shlex.split(step)
        assert name == "equistrata"
        done = served(*arguments)
        assert done.returncode == 0, done.stderr
    (card,) = (folder / "people" / "releases").glob("*/card.json")
    found = json.loads(card.read_text())
    assert found["ledger"]["dataset"] == "people"
    assert list(found["config"]["strata"]) == ["SEX"]
    assert found["guarantee"]["delta"] == delta_for(300)


def test_a_folder_to_work_in_is_made_whole_or_not_at_all(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(table(tmp_path))
    (tmp_path / "there").mkdir()
    for given, why in {
        ("people.csv",): "the columns of 'people.csv' are not described",
        ("people.csv", "--codebook", "book.csv", "--strata", "RACE"): "no column 'RACE'",
        ("nowhere.csv", "--look"): "nowhere.csv",
        ("people.csv", "--folder", "there", "--look"): "'there' exists",
    }.items():
        code, _, told = command(monkeypatch, capsys, "init", *given)
        assert code == 2
        assert why in told
        assert sorted(path.name for path in tmp_path.iterdir()) == ["book.csv", "people.csv", "there"]
    code, told, error = command(monkeypatch, capsys, "init", "people.csv", "--look", "--strata", "JOB")
    assert code == 0
    assert "to declare: column JOB, which defines strata" in error
    assert "schema confirm people.yaml --all-as-public" in told
    assert stat.S_IMODE((tmp_path / "people" / "people.yaml").stat().st_mode) == 0o600
