"""Tests of the page that is written by `equistrata release --page`."""

import re
import shlex
import sys
from types import SimpleNamespace

import pytest
from in_process import command

from equistrata.analysis.release import Release
from equistrata.data.columns.column import Column
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.errors import InputError
from equistrata.flows.audit.contents import ROWS, contents_of, means_in
from equistrata.flows.cli import release_page


def test_the_contents_of_a_page_are_those_of_the_folder(folder):
    release = Release.open(folder)
    found = contents_of(release)
    assert len(found.rows.rows) == ROWS
    assert found.rows.headings[0] == "Sex"
    assert {row[0] for row in found.rows.rows} == {"Male", "Female"}  # the first and the last value
    assert {row[0] for row in found.files.rows} == {path.name + "/" * path.is_dir() for path in folder.iterdir()} - {
        "manifest.json"
    }
    assert found.means is None


def test_two_estimates_of_one_mean_are_told_apart():
    mean = {"value": 40.0, "lower": 39.0, "upper": 41.5, "level": 0.99}
    outcomes = {"AGEP": {"coinpress": mean, "strat_coinpress": mean}, "WKHP": {"coinpress": mean}}
    found = means_in(SimpleNamespace(private_means={"outcomes": outcomes}, card={"called": {"AGEP": "Age"}}))
    assert [row[0] for row in found.rows] == ["Age, coinpress", "Age, strat coinpress", "WKHP"]
    assert found.rows[0][1:] == ("40", "39 to 41.5 (99\u00a0%)")


def test_the_next_commands_are_three_and_the_release_answers_the_question(folder, monkeypatch, capsys):
    lines = release_page.next_commands(folder)
    assert [shlex.split(line)[1] for line in lines] == ["verify", "estimate", "publish"]
    assert shlex.split(lines[1])[3:] == ["proportion", "ESR=0", "--by", "SEX"]
    code, _, said = command(monkeypatch, capsys, *shlex.split(lines[1])[1:])
    assert code == 0, said


def test_no_mean_of_dates_is_asked_for():
    """The first column of a table from a hospital is often a date."""
    day = Column("IN", lower=18262, upper=18627, layout="%Y-%m-%d")
    sex, age = Column("SEX", values=(1, 2)), Column("AGE", lower=0, upper=99)

    def asked(*columns, strata=("SEX",)):
        schema = Schema("visits", (*columns, sex))
        return release_page._question(SimpleNamespace(schema=schema, strata=Strata.over(schema, strata)))

    assert asked(day, age) == "mean AGE --by SEX"
    assert asked(day) == "count --by SEX"
    assert asked(day, strata=()) == "proportion SEX=1"
    quarter = Column("QUARTER", values=("2026Q3",))  # each share of this column is 1
    assert asked(quarter, age) == "mean AGE --by SEX"
    assert asked(quarter) == "count --by SEX"


def test_a_command_that_is_not_on_the_path_is_named_as_it_was_called(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [".venv/bin/equistrata"])
    assert release_page._this_command() == ".venv/bin/equistrata"
    monkeypatch.setattr(sys, "argv", ["/lib/equistrata/flows/cli/main.py"])
    assert release_page._this_command() == "equistrata"


def test_a_release_that_has_no_page_is_made_all_the_same(folder, monkeypatch, capsys):
    def refuse(config, workers):
        raise InputError("its measurements were not published")

    monkeypatch.setattr(release_page, "expected_pages", refuse)
    release_page.write_release_page(folder, workers=1)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "no page: its measurements were not published" in shown.err


@pytest.mark.slow
def test_a_release_ends_with_three_commands_and_the_path_of_its_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EQUISTRATA_STATE", str(tmp_path / "state"))
    given = ("--strata", "SEX", "--columns", "SEX,DIS,ESR", "--evaluate", "none", "--output", "made", "--page")
    code, shown, said = command(monkeypatch, capsys, "release", *given)
    assert code == 0, said
    *_, before, blank, last = shown.splitlines()
    assert blank == ""
    assert before == "  equistrata publish made made.zip"
    page = (tmp_path / last).read_text("utf-8")
    assert not re.search(r"(src|href)=.http|<script", page)  # the page does not load other files
    assert len(page) < 1_000_000
