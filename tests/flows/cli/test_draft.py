"""`equistrata schema draft`, from a code book and a table to a release."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

import pandas as pd
import pytest
from in_process import command

from equistrata.data.files.manifest import MANIFEST_FORMAT
from equistrata.data.schema import Schema
from equistrata.errors import InputError

BOOK = {
    "SEX": {"description": "Sex", "values": {"1": "Male", "2": "Female"}},
    "AGE": {"description": "Age in years", "values": {"min": 0, "max": 99, "N": "not known"}},
    "JOB": {"description": "Occupation"},
}


def table(folder):
    rows = pd.DataFrame({"SEX": [1, 2] * 150, "AGE": ["N", *map(str, range(99)), "7"] * 2 + ["5"] * 98})
    rows["JOB"] = [f"job {i}" for i in range(300)]
    rows.to_csv(folder / "people.csv", index=False)
    (folder / "book.json").write_text(json.dumps(BOOK))
    return folder


def test_from_a_code_book_to_a_release_in_two_commands(served):
    folder = table(served.home)
    drafted = served("schema", "draft", "people.csv", "--codebook", "book.json", "--output", "people.yaml")
    assert drafted.returncode == 0, drafted.stderr
    assert "2 of 3 columns declared" in drafted.stdout
    assert "JOB (neither values nor bounds: Occupation)" in drafted.stdout + drafted.stderr
    made = served("release", "--input", "people.csv", "--schema", "people.yaml", "--strata", "SEX")
    assert made.returncode == 0, made.stderr
    assert "Age in years" in (folder / "release" / "schema.json").read_text()


def test_labels_that_a_program_made_of_rows_are_no_code_book(tmp_path, monkeypatch, capsys):
    """`encode` of Stata, as pandas for categories, numbers what rows hold: a person's job would be a declared value."""
    monkeypatch.chdir(tmp_path)
    jobs = ["nurse"] * 60 + ["teacher"] * 40 + ["farmer"] * 20
    for name, more in (("without", []), ("with", ["astronaut"])):
        rows = pd.DataFrame({"JOB": pd.Categorical(jobs + more), "KIND": 1})
        rows.to_stata(f"{name}.dta", write_index=False, value_labels={"KIND": {1: "low", 2: "middle", 3: "high"}})
        code, _, told = command(monkeypatch, capsys, "schema", "draft", f"{name}.dta", "--output", f"{name}.yaml")
        assert code == 0, told
        assert "labels in alphabetical order: JOB. Programs" in " ".join(told.split())
        made = Path(f"{name}.yaml")
        assert ("astronaut" in made.read_text()) == (name == "with")
        assert stat.S_IMODE(made.stat().st_mode) == 0o600
        with pytest.raises(InputError, match=r"column 'JOB' .* is marked as 'taken_from_rows'"):
            Schema.load(made)
        made.write_text(made.read_text().replace("confirmed: []", "confirmed: [JOB]"))
        assert Schema.load(made).names == ("JOB", "KIND")  # its labels have an order of their own
    release = tmp_path / "release"
    release.mkdir()
    (release / "manifest.json").write_text(json.dumps({"format": MANIFEST_FORMAT, "files": {}}))
    code, _, told = command(monkeypatch, capsys, "schema", "draft", "with.dta", "--output", "release/people.yaml")
    assert code == 2
    assert "a draft with the labels of JOB is private" in told
    assert not (release / "people.yaml").exists()


def test_a_book_that_says_little_and_a_file_that_writes_numbers_its_own_way(served):
    """Bounds without types, decimal commas, Latin-1, whole numbers as 41,0: no edit between the two commands."""
    head, home = "Geschlecht;Alter;Größe;Kinder;Wochen", served.home
    rows = [f"{'mw'[i % 2]};{i % 90},0;{150 + i % 40},{i % 10};{i % 7};{i % 50 + 1}" for i in range(300)]
    rows[7] = rows[7].rpartition(";")[0] + ";"
    (home / "people.csv").write_bytes("\n".join([head, *rows, ""]).encode("latin-1"))
    book = ["Merkmal;Bezeichnung;Werte", "Geschlecht;Geschlecht;m = männlich, w = weiblich", "Alter;Alter;0 bis 99"]
    book += ["Größe;Größe in cm;150 bis 200", "Kinder;Kinder;0-9", 'Wochen;Wochen im Jahr;"1-52; leer"', ""]
    (home / "book.csv").write_text("\n".join(book))
    drafted = served("schema", "draft", "people.csv", "--codebook", "book.csv", "--output", "people.yaml")
    assert drafted.returncode == 0, drafted.stderr
    assert "5 of 5 columns declared" in drafted.stdout
    assert "read of the file: 1 of 4 columns of numbers have decimals" in " ".join(drafted.stderr.split())
    assert 'file: {delimiter: ";", encoding: "latin-1", decimal: ","}' in (home / "people.yaml").read_text()
    made = served("release", "--input", "people.csv", "--schema", "people.yaml", "--strata", "Geschlecht")
    assert made.returncode == 0, made.stderr
    released = pd.read_parquet(home / "release" / "synthetic.parquet")
    assert {*released["Geschlecht"]} == {"m", "w"}
    for name, low, high in (("Alter", 0, 99), ("Größe", 150, 200), ("Kinder", 0, 9), ("Wochen", 1, 52)):
        cells = released[name].dropna()
        assert cells.between(low, high).all()
        assert (cells % 1 == 0).all() == (name != "Größe")


def test_decimals_where_the_book_says_whole_numbers_are_told(equistrata):
    folder = equistrata.home
    (folder / "people.csv").write_text("AGE,N\n" + "".join(f"{i}.5,{i}\n" for i in range(50)))
    (folder / "book.csv").write_text("name,type,min,max\nAGE,integer,0,99\nN,integer,0,99\n")
    drafted = equistrata("schema", "draft", "people.csv", "--codebook", "book.csv", "--output", "people.yaml")
    assert "decimals: in the file, where the book says whole numbers: AGE" in drafted.stderr
    assert "# CHECK: the book says whole numbers, and the file has decimals" in (folder / "people.yaml").read_text()
    (folder / "people.csv").write_text("AGE,N\n")
    drafted = equistrata("schema", "draft", "people.csv", "--codebook", "book.csv", "--output", "new.yaml")
    assert drafted.returncode == 0
    assert "holds no rows" in drafted.stderr


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
    assert "open: JOB\n" in drafted.stderr  # captured, so without what rows say of it
    assert "nearly all cells differ" in (folder / "people.yaml").read_text()
    assert "confirm each 'taken_from_rows' under 'confirmed'" in drafted.stderr
    refused = equistrata("release", "--input", "people.csv", "--schema", "people.yaml")
    assert refused.returncode == 2
    assert "is marked as 'taken_from_rows'" in refused.stderr
    assert not (folder / "release").exists()


def test_a_draft_of_rows_is_put_into_no_release(equistrata):
    table(equistrata.home)
    release = equistrata.home / "release"
    (release / "inner").mkdir(parents=True)
    (release / "manifest.json").write_text(json.dumps({"format": MANIFEST_FORMAT, "files": {}}))
    refused = equistrata("schema", "draft", "people.csv", "--look", "--output", "release/inner/people.yaml")
    assert refused.returncode == 2
    assert "which is to be published; name a file outside it" in refused.stderr
    assert not (release / "inner" / "people.yaml").exists()


def test_a_look_that_a_complete_book_leaves_nothing_to_marks_nothing(equistrata):
    folder = equistrata.home
    (folder / "people.csv").write_text("AGE;PAY\n" + "".join(f"{i};{i},5\n" for i in range(50)))
    pay = {"type": "number", "min": 0, "max": 99, "multipleOf": 0.1}
    book = {"AGE": {"type": "integer", "min": 0, "max": 99}, "PAY": pay}
    (folder / "book.json").write_text(json.dumps(book))
    draft = ("schema", "draft", "people.csv", "--look", "--output", "people.yaml", "--codebook", "book.json")
    drafted = equistrata(*draft)
    assert drafted.returncode == 0, drafted.stderr
    text = (folder / "people.yaml").read_text()
    assert 'file: {delimiter: ";", decimal: ","}' in text
    assert "taken_from_rows" not in text + drafted.stderr
    assert "only how the file writes its cells" in drafted.stderr
    assert "PRIVATE" not in text
    fits = equistrata("schema", "check", "people.yaml", "--input", "people.csv")
    assert fits.returncode == 0, fits.stdout


def test_questions_alone_are_no_marks_and_later_commands_say_what_is_open(equistrata):
    folder = equistrata.home
    (folder / "people.csv").write_text("NOTE\n" + "".join(f"note {i}\n" for i in range(50)))
    drafted = equistrata("schema", "draft", "people.csv", "--look", "--output", "people.yaml")
    assert drafted.returncode == 0, drafted.stderr
    assert "taken_from_rows" not in (folder / "people.yaml").read_text() + drafted.stderr
    assert "as private as they are" in (folder / "people.yaml").read_text()
    assert stat.S_IMODE((folder / "people.yaml").stat().st_mode) == 0o600
    for words in (("release", "--schema"), ("schema", "check")):
        refused = equistrata(*words, "people.yaml", "--input", "people.csv")
        assert refused.returncode == 2
        assert "NOTE may hold is still a QUESTION" in " ".join((refused.stdout + refused.stderr).split())


def test_an_output_that_exists_stays(equistrata):
    folder = table(equistrata.home)
    (folder / "people.yaml").write_text("mine")
    refused = equistrata("schema", "draft", "people.csv", "--output", "people.yaml")
    assert refused.returncode == 2
    assert "exists; choose another --output" in refused.stderr
    assert (folder / "people.yaml").read_text() == "mine"
    forced = equistrata("schema", "draft", "people.csv", "--output", "people.yaml", "--force")
    assert forced.returncode == 0
    assert "# QUESTION" in (folder / "people.yaml").read_text()
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_a_draft_of_survey_weights_alone_says_that_it_releases_nothing(equistrata):
    folder = equistrata.home
    (folder / "people.csv").write_text("JOB,PWGTP\na,1\nb,2\n")
    (folder / "book.json").write_text(json.dumps({"PWGTP": {"description": "Weight", "values": {"min": 1, "max": 9}}}))
    drafted = equistrata("schema", "draft", "people.csv", "--codebook", "book.json", "--output", "people.yaml")
    assert drafted.returncode == 0, drafted.stderr
    assert "no column is declared that is released by default" in " ".join(drafted.stderr.split())
    refused = equistrata("release", "--input", "people.csv", "--schema", "people.yaml")
    assert refused.returncode == 2
    assert "declares no column that is released" in " ".join(refused.stderr.split())


def test_a_draft_that_cannot_be_written_is_a_sentence(tmp_path, monkeypatch, capsys):
    """On a file system that is read-only the removal of what was not made failed, too."""
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
        monkeypatch, capsys, "schema", "draft", "people.csv", "--codebook", "book.json", "--output", made
    )
    assert (code, "'people.yaml' cannot be made (read-only file system)" in said) == (2, True)
