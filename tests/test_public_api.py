"""Tests of the public names, the time of the import, and the examples for a notebook."""

import inspect
import re
import subprocess
import sys
import typing

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

import equistrata
from equistrata.errors import InputError

NAMES = {
    "AIM", "GEM", "MST", "Coinpress", "Ledger", "Release", "Schema", "Strata", "StratifiedSynthesizer",
    "audit", "combine", "plan", "publish", "quality_report", "ratio", "read_table", "release", "score",
}  # fmt: skip
HEAVY = ("prefect", "sklearn", "pandas", "numpy", "scipy", "matplotlib", "pyarrow", "opendp")


def test_the_public_names_are_these():
    """The list is fixed.

    If a name is added or renamed, this set, docs/api.md and CHANGELOG.md must be changed as well.
    """
    assert set(equistrata.__all__) == NAMES
    assert set(equistrata.__dir__()) >= NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_name_is_there_and_documented(name):
    value = getattr(equistrata, name)
    assert value.__name__ == name
    assert inspect.getdoc(value)
    assert value is getattr(equistrata, name)


def test_editors_and_mypy_know_the_same_names():
    """The imports under TYPE_CHECKING must be the same as the imports in `__getattr__`."""
    source = inspect.getsource(equistrata)
    block = source.split("if TYPE_CHECKING:")[1].split("__all__")[0]
    lines = [line.split("#")[0].split() for line in block.strip().splitlines()]
    typed = {name.strip(","): line[1] for line in lines for name in line[3:]}
    assert set(typed) == NAMES
    for name, module in typed.items():
        assert module == f"equistrata.{equistrata._MODULES.get(name, 'api')}"


@pytest.mark.parametrize(
    "name", ["audit", "plan", "publish", "quality_report", "ratio", "read_table", "release", "score"]
)
def test_a_function_says_what_it_takes_and_gives(name):
    function = getattr(equistrata, name)
    assert "return" in function.__annotations__
    assert all(p.annotation is not p.empty for p in inspect.signature(function).parameters.values())


def test_another_name_is_refused():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = equistrata.Nothing


def test_the_import_is_light(repo_root):
    """The processor time is measured in a new interpreter, so that other programs have no effect."""
    program = f"""
import sys, time
start = time.process_time()
import equistrata
print(time.process_time() - start)
print([name for name in {HEAVY} if name in sys.modules])
from equistrata import Schema, StratifiedSynthesizer, read_table, score
print([name for name in ("prefect", "sklearn", "matplotlib", "torch") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=repo_root, capture_output=True, text=True, check=True)
    seconds, at_once, later = done.stdout.splitlines()
    assert float(seconds) < 0.3
    assert at_once == later == "[]"


def test_ten_lines_of_a_notebook():
    table = equistrata.read_table(None, "acs_employment")
    assert table.schema.names == equistrata.Schema.load("acs_employment").selected().names
    part = table.select(["SEX", "MAR", "ESR"])
    assert len(equistrata.Strata.over(part.schema, ["SEX"]).keys) == 2
    synthesizer = equistrata.StratifiedSynthesizer(equistrata.MST(), ["SEX"], epsilon=1, delta=1e-9, seed=0).fit(part)
    rows = synthesizer.sample()
    scores = equistrata.score(part, rows, ["SEX"])
    assert 0 < scores.parity_error < 0.5
    assert scores.accuracy is None


@pytest.fixture(scope="module")
def people():
    table = equistrata.read_table(None, "acs_employment").select(["SEX", "MAR", "ESR"]).take(slice(2000))
    return table, table.decode(np.random.default_rng(0))


def test_the_synthesizer_is_an_estimator_of_scikit_learn(people):
    table, frame = people
    settings = {"strata": ["SEX"], "random_state": 0, "schema": table.schema}
    synthesizer = equistrata.StratifiedSynthesizer("mst", **settings)
    with pytest.raises(NotFittedError, match="not fitted yet") as caught:
        clone(synthesizer).sample()
    assert isinstance(caught.value, InputError)
    steps = [("same", FunctionTransformer()), ("synthesizer", clone(synthesizer))]
    fitted = Pipeline(steps).fit(frame)
    again = equistrata.StratifiedSynthesizer("mst", ["SEX"], seed=0).fit(table)
    assert fitted[-1].sample(50, seed=1).equals(again.sample(50, seed=1))
    assert fitted.score(frame) == again.score(table)
    assert fitted.score(frame) == pytest.approx(-equistrata.score(frame, again.sample()).workload3)
    words = again.sample(50, seed=1, labels=True)["MAR"]
    assert [table.schema["MAR"].words(value) for value in again.sample(50, seed=1)["MAR"]] == words.tolist()
    found = GridSearchCV(synthesizer, {"epsilon": [0.01, 10.0]}, cv=2).fit(frame)
    assert found.best_params_ == {"epsilon": 10.0}
    with pytest.raises(InputError, match="have the same meaning"):
        clone(synthesizer).set_params(seed=1)


def test_a_repr_is_short_and_shows_no_row(people):
    table, frame = people
    synthesizer = equistrata.StratifiedSynthesizer("aim", ["SEX"], epsilon=3.0, seed=0).fit(table)
    assert repr(synthesizer) == "StratifiedSynthesizer(mechanism='aim', strata=['SEX'], epsilon=3.0, seed=0)"
    scores = equistrata.score(frame, synthesizer.sample(), ["SEX"])
    wide = equistrata.Schema.load("acs_employment")
    for shown in (table, table.schema, wide, equistrata.Strata.over(wide, ["SEX"]), synthesizer.model_, scores):
        assert len(repr(shown)) < 300
    assert not re.search(r"\d", repr(table))
    assert "<td>SEX</td>" in table.schema._repr_html_()
    assert f"<td>{scores.workload3:.4f}</td>" in scores._repr_html_()


def test_read_table_takes_a_data_frame_and_prints_no_row_of_what_it_does_not_take():
    """The rows of a data frame used to be read as the path of a file and were then printed in an error message."""
    schema = equistrata.Schema.from_dict({"columns": {"SEX": {"values": [1, 2], "missing": 2}}})
    frame = pd.DataFrame({"SEX": [1, 2, None]})
    assert equistrata.read_table(frame, schema).codes[:, 0].tolist() == [0, 1, 1]
    for given, told in (
        (pd.DataFrame({"SEX": [8675309]}), "a value that the schema does not declare"),
        (pd.DataFrame({"AGE": [8675309]}), "'SEX' .* is not in the table"),
        (pd.DataFrame([[8675309, 1]], columns=["SEX", "SEX"]), "'SEX' .* is in the table twice"),
        ({"SEX": [8675309]}, "a pandas data frame, not a dict"),
        (frame["SEX"], "a pandas data frame, not a Series"),
        ("SEX\n8675309\n", r"with this name \(it has unprintable characters\)"),
        ("SEX,AGE 8675309 " * 1000, "the table is too long"),
        ("8675309\0", r"unprintable|zero byte"),
    ):
        with pytest.raises(equistrata.errors.InputError, match=told) as caught:
            equistrata.read_table(given, schema)
        assert "8675309" not in str(caught.value)
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_read_table_reads_what_a_schema_declares(tmp_path):
    people = tmp_path / "people.csv"
    people.write_text("SEX,AGE,PAY\n1,30,9.5\n2,61,\n")
    (tmp_path / "people.yaml").write_text(
        "columns:\n  SEX: {values: [1, 2]}\n  AGE: {lower: 0, upper: 99, edges: [0, 50, 99]}\n"
        "  PAY: {lower: 0, upper: 10}\n"
    )
    with pytest.raises(InputError, match="'PAY' has missing cells"):
        equistrata.read_table(people, tmp_path / "people.yaml")
    with (tmp_path / "people.yaml").open("a") as file:
        file.write("default: [SEX, AGE]\n")  # the column PAY is only used for means
    table = equistrata.read_table(people, tmp_path / "people.yaml")
    assert table.schema.names == ("SEX", "AGE")
    assert table.codes.tolist() == [[0, 0], [1, 1]]
    people.write_text("SEX,AGE,PAY\n3,30,9.5\n")
    with pytest.raises(InputError, match="SEX"):
        equistrata.read_table(people, tmp_path / "people.yaml")


def test_a_synthesis_is_planned_as_by_the_command():
    """This call used to return the plan of a proportion without a warning."""
    found = equistrata.plan(synthesizer="mst", strata=["SEX"], rows=3000)
    assert (found["quantity"], found["mechanism"]) == ("synthesis", "MST")
    with pytest.raises(InputError, match="give a synthesizer"):
        equistrata.plan(columns=["SEX", "ESR"])


def test_plan_is_what_the_command_prints():
    found = equistrata.plan("WKHP", reference=38, relative_error=0.02, strata=["SEX"])
    assert [part["stratum"] for part in found["strata"]] == ["SEX=1", "SEX=2"]
    assert {part["status"] for part in found["strata"]} == {"readable"}
    with pytest.raises(InputError, match="beta"):
        equistrata.plan(effect=0.1, beta=2)


def test_ratio_draws_secure_noise_unless_told_otherwise():
    """The standard deviation of the noise is about .002, so the probability of an error above .1 is less than 10⁻⁹."""
    from equistrata.privacy.noise import SeededNoise

    ones = [1.0] * 2000
    found = equistrata.ratio([0.5] * 2000, ones, epsilon=1, delta=1e-6)
    assert found.lower < found.value < found.upper
    assert abs(found.value - 0.5) < 0.1
    twice = [equistrata.ratio([0.5] * 2000, ones, epsilon=1, delta=1e-6, noise=SeededNoise(1)).value for _ in range(2)]
    assert twice[0] == twice[1] != found.value


def test_hints_can_be_read():
    assert typing.get_type_hints(equistrata.plan)["return"] == dict[str, typing.Any]


@pytest.mark.slow
def test_release_audit_and_publish_as_the_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EQUISTRATA_STATE", str(tmp_path / "state"))
    folder = equistrata.release(strata=["SEX"], output="made", evaluate="none")
    assert (tmp_path / folder / "card.json").exists()
    report = equistrata.audit(folder)
    assert list((tmp_path / report).glob("*audit.html"))
    assert equistrata.publish(folder, "public.zip").files > 4
    with pytest.raises(InputError, match="unknown setting 'epsilons'"):
        equistrata.release(epsilons=1, output="other")
