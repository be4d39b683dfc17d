"""Tests of `equistrata federate` and of a complete run on Flower."""

import json
from unittest import mock

import pandas as pd
import pytest
from holders import EFFECT, SCHEMA_FILE, tables
from typer.testing import CliRunner

from equistrata.data.schema import Schema
from equistrata.environments import FLOWER
from equistrata.errors import InputError
from equistrata.flows.cli.console import out
from equistrata.flows.cli.main import app
from equistrata.inference.federated.aggregation import InProcessAggregator
from equistrata.inference.federated.estimate import FederatedPlan, federate
from equistrata.inference.federated.holder import TableHolder
from equistrata.privacy.noise import SeededNoise

ARMS = ("--outcome", "DAYS", "--strata", "SEX", "--arm", "NEW", "--treated", 1, "--control", 0)


@pytest.fixture
def holders(tmp_path):
    """Return the paths of four tables and the path of their schema."""
    for place, frame in enumerate(tables(4, 1500)):
        frame.to_csv(tmp_path / f"{place}.csv", index=False)
    (tmp_path / "visits.yaml").write_text(SCHEMA_FILE)
    return [tmp_path / f"{place}.csv" for place in range(4)], tmp_path / "visits.yaml"


def run(*arguments, columns=140, question=None, command="federate"):
    """Run the command in this process and return its output."""
    with mock.patch.object(out, "_width", columns):  # pytest-xdist sets COLUMNS before the console is made
        return CliRunner().invoke(app, [command, *map(str, arguments)], catch_exceptions=False, input=question).stdout


def test_it_is_the_library_s_estimate(holders, tmp_path):
    paths, schema = holders
    shown = run(*paths, "--schema", schema, *ARMS, "--seed", 5, "--output", tmp_path / "out.json", "--json")
    found = json.loads(shown)
    agreed = FederatedPlan(
        Schema.load(str(schema)), "DAYS", holders=4, strata=("SEX",), arm="NEW", treated=1, control=0
    )
    members = [TableHolder(agreed, path, SeededNoise(20 + i)) for i, path in enumerate(paths)]
    expected = federate(agreed, InProcessAggregator(members)).to_dict()
    assert {key: found[key] for key in expected} == expected
    assert found["private"] is False
    assert found["plan"]["schema_digest"] == Schema.load(str(schema)).digest
    assert json.loads((tmp_path / "out.json").read_text()) == found
    assert found["overall"]["difference"]["lower"] < EFFECT < found["overall"]["difference"]["upper"]


def test_real_coins_differ_from_run_to_run_and_are_called_private(holders):
    paths, schema = holders
    given = (*paths, "--schema", schema, *ARMS, "--trials", 64, "--json")
    first, second = json.loads(run(*given)), json.loads(run(*given))
    assert first["private"]
    assert first["strata"] != second["strata"]


def test_what_people_read(holders):
    paths, schema = holders
    shown = run(*paths, "--schema", schema, *ARMS, "--seed", 1)
    for text in ("SEX=2", "all strata", "mean, treated", "difference", "ε = 1", "simulation", "not private"):
        assert text in shown
    means = run(*paths, "--schema", schema, "--outcome", "DAYS", "--smallest", 50_000)
    assert "—" in means
    assert "not private" not in means


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("--outcome", "JOB"), "numbers"),
        (("--outcome", "DAYS", "--arm", "NEW", "--treated", 1), "all three of them, or none"),
        (("--outcome", "DAYS", "--arm", "NEW", "--treated", 4, "--control", 0), "treated arm is '4'"),
        (("--outcome", "DAYS", "--clip", "3"), "--clip is '3'"),
        (("--outcome", "DAYS", "--clip", "5,3"), "ascending"),
        (("--outcome", "DAYS", "--trials", 0), "number of trials"),
        (("--outcome", "DAYS", "--epsilon", 0), "epsilon"),
        (("--outcome", "DAYS", "--missing", 1), "largest_share"),
        (("--outcome", "DAYS", "--missing", 1, "--largest-share", 0.1), "largest share"),
        (("--outcome", "DAYS", "--aggregator", "cloud"), "'aggregator' is 'cloud'"),
        (("--outcome", "GRADE"), "GRADE"),
    ],
)  # fmt: skip
def test_what_is_refused(holders, change, sentence):
    paths, schema = holders
    with pytest.raises(InputError, match=sentence):
        run(*paths, "--schema", schema, *change)


def test_an_output_that_cannot_be_made_is_refused_before_anything_is_read(holders, tmp_path, monkeypatch):
    paths, schema = holders
    (tmp_path / "out.json").write_text("mine")
    monkeypatch.setattr("equistrata.inference.federated.estimate.federate", lambda *_: pytest.fail("rows were asked"))
    for output in (tmp_path / "out.json", tmp_path / "gone" / "out.json"):
        with pytest.raises(InputError, match="exists already or has no folder"):
            run(*paths, "--schema", schema, *ARMS, "--output", output)
    assert (tmp_path / "out.json").read_text() == "mine"


def test_values_outside_the_declared_range_are_refused_without_a_quote(holders):
    paths, schema = holders
    paths[1].write_text(paths[1].read_text() + "1,1,10.625\n")
    with pytest.raises(InputError, match=r"file '1.csv': column 'DAYS' holds .* outside its declared bounds") as caught:
        run(*paths, "--schema", schema, *ARMS)
    assert "10.625" not in str(caught.value)


def test_a_table_that_is_given_twice_is_refused(holders, tmp_path):
    """There would be two reports for each person in this table, and the price would be twice as large."""
    paths, schema = holders
    (tmp_path / "again.csv").symlink_to(paths[0])
    for again in (paths[0], tmp_path / "again.csv"):
        with pytest.raises(InputError, match="is given twice, so it would count twice"):
            run(*paths, again, "--schema", schema, *ARMS)


def test_bad_input_ends_with_one_sentence_and_status_2(equistrata, holders):
    paths, schema = holders
    done = equistrata("federate", *paths, "--schema", schema, "--outcome", "DAYS", "--level", 1)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_a_holder_answers_each_question_once(holders, tmp_path):
    """The command `federate-answer` is started by the data holders on Flower."""
    paths, schema = holders
    agreed = FederatedPlan(Schema.load(str(schema)), "DAYS", holders=4)
    (tmp_path / "plan.json").write_text(json.dumps(agreed.to_dict(str(schema))))
    given = ("--input", paths[0], "--plan", tmp_path / "plan.json", "--state", tmp_path / "state", "--seed", 3)

    def ask(question):
        asked = {"kind": question.kind, "moduli": question.moduli, "settings": dict(question.settings)}
        return json.loads(run(*given, command="federate-answer", question=json.dumps(asked)))

    assert ask(agreed.sizes()) == [1500]
    answer = ask(agreed.sums([6000]))
    assert answer == TableHolder(agreed, paths[0], SeededNoise(3)).answer(agreed.sums([6000])).tolist()
    with pytest.raises(InputError, match="already"):
        ask(agreed.sums([6000]))
    for broken in ("", "[]", "{}", '{"kind": "sums", "moduli": 3, "settings": {}}'):
        with pytest.raises(InputError, match="a question as JSON"):
            run(*given, command="federate-answer", question=broken)


@pytest.mark.slow
def test_on_flower_it_gives_the_simulation_s_numbers(equistrata, holders, repo_root, flower_python):
    paths, schema = holders
    given = (
        "federate",
        *paths,
        "--schema",
        schema,
        *ARMS,
        "--missing",
        1,
        "--largest-share",
        0.3,
        "--seed",
        5,
        "--json",
    )
    environment = {FLOWER.variable: flower_python, "PYTHONPATH": str(repo_root)}
    real = equistrata(*given, "--aggregator", "flower", "--timeout", 200, **environment)
    assert real.returncode == 0, real.stderr
    simulated = equistrata(*given, **environment)
    found, expected = json.loads(real.stdout), json.loads(simulated.stdout)
    assert (found["simulated"], expected["simulated"]) == (False, True)
    assert (found["strata"], found["overall"], found["stayed"]) == (expected["strata"], expected["overall"], 4)
    assert not any(equistrata.tmp.glob("equistrata-f*"))  # settings, logs and plans are deleted


def test_without_flower_s_environment_it_says_what_to_do(holders, monkeypatch, tmp_path):
    paths, schema = holders
    monkeypatch.setenv(FLOWER.variable, str(tmp_path / "none"))
    with pytest.raises(InputError, match="run equistrata setup flower"):
        run(*paths, "--schema", schema, *ARMS, "--aggregator", "flower")


def test_a_unit_of_several_rows_is_bounded_by_each_holder(holders):
    paths, schema = holders
    for path in paths:
        frame = pd.read_csv(path)
        frame.assign(HOME=[f"home {i // 3}" for i in range(len(frame))]).to_csv(path, index=False)
    bounded = json.loads(
        run(*paths, "--schema", schema, *ARMS, "--seed", 5, "--unit", "HOME", "--at-most", 2, "--json")
    )
    assert bounded["overall"]["rows"]["control"] + bounded["overall"]["rows"]["treated"] == 4 * 500 * 2
    schema.write_text(SCHEMA_FILE + "unit: {column: HOME, at_most: 2}\n")
    declared = json.loads(run(*paths, "--schema", schema, *ARMS, "--seed", 5, "--json"))
    assert (declared["overall"], declared["unit"]) == (bounded["overall"], bounded["unit"])
    named = json.loads(run(*paths, "--schema", schema, *ARMS, "--seed", 5, "--unit", "HOME", "--json"))
    assert named["overall"] == declared["overall"]
    shown = " ".join(run(*paths, "--schema", schema, *ARMS, "--seed", 5).split())
    assert "for every unit at one holder (all rows with one HOME, of which at most 2 are used" in shown
    one = json.loads(run(*paths, "--schema", schema, *ARMS, "--seed", 5, "--at-most", 1, "--json"))
    assert one["unit"] == "all rows with one HOME, of which one is used"
    with pytest.raises(InputError, match="no column 'HOUSE'"):
        run(*paths, "--schema", schema, *ARMS, "--seed", 5, "--unit", "HOUSE", "--at-most", 1)
    with pytest.raises(InputError, match="at_most"):
        run(*paths, "--schema", schema, *ARMS, "--seed", 5, "--unit", "HOME", "--at-most", 0)
