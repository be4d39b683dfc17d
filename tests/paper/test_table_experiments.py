"""`python -m paper table experiments`: the library's numbers, and what it refuses."""

import json
from dataclasses import replace

import pytest

from equistrata.errors import InputError
from paper.federated import TABLES, as_users_would, simulate


@pytest.fixture
def run(paper):
    """What the command prints; raises InputError with what it says where it refuses."""

    def call(*arguments):
        result = paper("table", "experiments", *arguments)
        if result.returncode == 2:
            raise InputError(result.stderr)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return call


def rows_of(setting, seed=0):
    return [(row.method, row.trials, row.epsilon, row.coverage, row.width) for row in simulate(setting, seed=seed)]


def test_a_table_is_the_papers_setting(run):
    given = ("--table", 2, "--rounds", 40, "--trials", 256, "--epsilon", "0.4,1.9", "--json")
    found = json.loads(run(*given))
    setting = replace(TABLES[2], rounds=40, trials=(256,), epsilons=(0.4, 1.9))
    assert (found["table"], found["seed"]) == (2, 0)
    assert found["setting"]["target"] == "sate"
    assert found["setting"]["orders"] == [2, 128]
    assert found["setting"]["variances"] == "exact"
    shown = [(r["method"], r["trials"], r["epsilon"], r["coverage"], r["width"]) for r in found["rows"]]
    assert shown == rows_of(setting)
    assert run(*given) == run(*given, "--workers", 1)


def test_private_variances_bring_the_defaults_of_the_product(run):
    given = ("--variances", "private", "--arms", "60,90", "--rounds", 30, "--trials", 8, "--epsilon", 1, "--seed", 3)
    found = json.loads(run(*given, "--json"))
    expected = replace(as_users_would(TABLES[3]), arms=(60, 90), rounds=30, trials=(8,), epsilons=(1.0,))
    assert found["setting"]["orders"] is None
    assert found["setting"]["maximum"] == 0.25
    shown = [(r["method"], r["trials"], r["epsilon"], r["coverage"], r["width"]) for r in found["rows"]]
    assert shown == rows_of(expected, seed=3)


def test_the_table_for_people_to_read(run):
    shown = run("--table", 4, "--rounds", 20, "--trials", 256, "--epsilon", 1)
    assert "SATE, exact variances (not private)" in shown
    assert "poisson-binomial" in shown
    assert "∞" in shown
    assert "private variances" in run("--variances", "private", "--rounds", 10, "--trials", 4, "--epsilon", 1)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (("--table", 8), "no table 8"),
        (("--table", 0), "no table 0"),
        (("--arms", "300"), "give 2 numbers"),
        (("--arms", "1,300", "--rounds", 1), "two rows"),
        (("--epsilon", "a"), "--epsilon is 'a'"),
        (("--trials", "0", "--rounds", 1), "number of trials"),
        (("--delta", 2, "--rounds", 1), "delta"),
        (("--rounds", 0), "at least one round"),
        (("--variances", "guessed"), "variances"),
    ],
)
def test_what_is_refused(run, given, sentence):
    with pytest.raises(InputError, match=sentence):
        run(*given)
