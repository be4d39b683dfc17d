"""`python -m paper table ratio`: what it prints, and how it refuses."""

import json

import pytest


def test_json(paper):
    result = paper("table", "ratio", "--table", "2", "--repetitions", "3", "--json")
    assert result.returncode == 0, result.stderr
    cells = json.loads(result.stdout)
    assert len(cells) == 64
    assert all(set(cell) == {"n", "weighted", "epsilon", "method", "width", "coverage", "score"} for cell in cells)
    assert {cell["method"] for cell in cells} == {"public", "none", "monte-carlo", "analytical"}
    assert {cell["epsilon"] for cell in cells} == {0.2, 0.5, 1.0, 4.0}
    again = paper("table", "ratio", "--table", "2", "--repetitions", "3", "--seed", "1", "--json")
    assert json.loads(again.stdout) != cells


def test_table_for_people(paper):
    result = paper("table", "ratio", "--repetitions", "2", "--composition", "basic")
    assert result.returncode == 0, result.stderr
    assert "analytical" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--table", "5"], "there is no table 5"),
        (["--composition", "advanced"], "composition is 'advanced'"),
        (["--repetitions", "0"], "repetitions is 0"),
    ],
)
def test_bad_settings_are_refused(paper, arguments, sentence):
    result = paper("table", "ratio", *arguments)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""
