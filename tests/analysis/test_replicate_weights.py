"""Tests of replicate weights: the standard errors of a survey package, and the coverage of
intervals for a population.
"""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from in_process import command
from plain_release import release
from scipy.stats import t as student

from equistrata.analysis.answers import Answers
from equistrata.analysis.contents.replicate_weights import replicate_weights
from equistrata.analysis.release import Release
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.synth.registry import mechanism
from equistrata.synth.synthesizer import StratifiedSynthesizer

SCHEMA = Schema.from_dict({
    "columns": {"G": {"values": [1, 2, 3]}, "Y": {"values": [0, 1]}, "X": {"values": [1, 2, 5, 9], "type": "ordinal"}},
    "survey_weight": {"column": "PW", "upper": 100},
})  # fmt: skip


def population(people=240_000):
    """Return a population. Each person is in the sample with probability 1/PW, which depends on all the columns."""
    rng = np.random.default_rng(0)
    group = rng.choice(3, people, p=[0.6, 0.3, 0.1])
    yes = rng.random(people) < np.array([0.3, 0.5, 0.7])[group]
    number = np.array([1, 2, 5, 9])[rng.integers(0, 2, people) + group]
    weight = np.exp(rng.normal(3.0 + 0.2 * group - 0.2 * yes + 0.03 * number, 0.4)).clip(2, 100).round()
    return pd.DataFrame({"G": group + 1, "Y": yes.astype(int), "X": number, "PW": weight})


def sample_of(people, seed):
    rng = np.random.default_rng([seed, 1])
    return people[rng.random(len(people)) * people["PW"] < 1].reset_index(drop=True)


def released(sample, epsilon, seed=0):
    """Return the answers and the rows of a release of a sample."""
    made = StratifiedSynthesizer("mst", ["G"], epsilon=epsilon, delta=1e-9, seed=seed, selection="shared").fit(
        CodedTable.encode(sample, SCHEMA)
    )
    answers = Answers(Evidence.of(Strata.over(SCHEMA, ("G",)), made.measurements_, mechanism("mst")))
    rng = np.random.default_rng(seed)
    return answers, made.model_.sample(None, rng).select(SCHEMA.names).decode(rng)


def share(yes, inside, weight):
    return (weight * yes * inside).sum() / (weight * inside).sum()


def replicated(estimate, weight, replicates):
    """Return an estimate and its standard error.

    The variance is 4/R times the sum of squared differences from the estimate.
    """
    centre = estimate(weight)
    off = [estimate(replicates[name].to_numpy()) - centre for name in replicates]
    return centre, np.sqrt(4 / len(off) * np.sum(np.square(off)))


def questions(rows):
    """Return the arguments of each question, the rows with the value and the rows of the group."""
    every = np.ones(len(rows), dtype=bool)
    for name in ("G", "Y", "X"):
        for value in sorted(rows[name].unique()):
            yield ("proportion", {name: value}), (rows[name] == value).to_numpy(), every
    for group in (1, 2, 3):
        yield ("proportion", {"Y": 1}, (), {"G": group}), (rows["Y"] == 1).to_numpy(), (rows["G"] == group).to_numpy()


def test_errors_of_measured_shares_are_those_of_privacy_and_sampling_that_readers_have():
    answers, rows = released(sample_of(population(), 0), 1.0)
    weight = rows["PW"].to_numpy()
    for effect in (1.0, 4.0):
        found = replicate_weights(answers, rows, SCHEMA, 80, effect)
        assert list(found) == [f"PW{place}" for place in range(1, 81)]
        assert (found.to_numpy() >= weight[:, None] / 2).all()
        ratios = []
        for question, yes, inside in questions(rows):
            line = answers.estimate(*question, population=True, design_effect=effect).iloc[0]
            if line["basis"] != "measured":  # the misfit of weights by two columns is not included
                continue
            _, error = replicated(lambda w, yes=yes, inside=inside: share(yes, inside, w), weight, found)
            ratios.append(error / line["standard_error"])
        assert np.median(ratios) == pytest.approx(1.0, abs=0.2)
        assert np.mean((np.array(ratios) > 0.8) & (np.array(ratios) < 1.3)) > 0.8


@pytest.mark.slow
def test_intervals_hold_in_the_population_that_the_table_is_a_sample_of():
    people, inside = population(), []
    real = [(people[name] == value)[group].mean() for name, value, group in _asked(people)]
    far = student.ppf(0.975, 79)
    for seed in range(25):
        answers, rows = released(sample_of(people, seed), 1.0, seed)
        found = replicate_weights(answers, rows, SCHEMA, 80, 1.0)
        for truth, (_, yes, group) in zip(real, questions(rows), strict=True):
            centre, error = replicated(
                lambda w, yes=yes, group=group: share(yes, group, w), rows["PW"].to_numpy(), found
            )
            inside.append(abs(centre - truth) < far * error)
    assert np.mean(inside) > 0.93


def _asked(people):
    for name in ("G", "Y", "X"):
        for value in sorted(people[name].unique()):
            yield name, value, slice(None)
    for group in (1, 2, 3):
        yield "Y", 1, people["G"] == group


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("weights")
    sample_of(population(), 0).head(2000).to_csv(home / "rows.csv", index=False)
    (home / "totals.csv").write_text("G,population\n1,45000\n2,30000\n3,9000\n")
    (home / "schema.yaml").write_text(
        "columns: {G: {values: [1, 2, 3]}, Y: {values: [0, 1]}}\nsurvey_weight: {column: PW, upper: 100}\n"
    )
    for name, more in {"free": {}, "met": {"controls": str(home / "totals.csv")}, "people": {"expand": True}}.items():
        release({
            "source": "csv", "input": str(home / "rows.csv"), "schema": str(home / "schema.yaml"), "strata": ("G",),
            "columns": ("G", "Y"), "evaluate": "none", "output": str(home / name), "seed": 1, **more,
        })  # fmt: skip
    return home


def test_every_column_meets_totals_of_people(folder):
    opened = Release.open(folder / "met")
    rows, found = opened.rows(labels=False), opened.replicate_weights()
    sums = found.groupby(rows["G"]).sum()
    assert sums.to_numpy() == pytest.approx(np.array([[45_000.0], [30_000], [9_000]]) * np.ones((1, 80)), rel=1e-9)
    free = Release.open(folder / "free").replicate_weights()
    assert free.sum().std() > 100
    pd.testing.assert_frame_equal(found, opened.replicate_weights(workers=2))
    assert not found.equals(opened.replicate_weights(seed=1))


def test_svy_reads_the_file_and_has_the_errors_of_the_formula(folder, tmp_path, monkeypatch, capsys):
    svy = pytest.importorskip("svy", reason="svy is not installed: pip install svy")
    polars = pytest.importorskip("polars")
    place = tmp_path / "rows.parquet"
    code, printed, _ = command(
        monkeypatch, capsys, "replicate", str(folder / "free"), "--weights", "80", "--output", str(place)
    )
    assert (code, printed) == (0, f"80 replicate weights in {place}\n")
    rows = pd.read_parquet(place)
    weights = rows[[f"PW{number}" for number in range(1, 81)]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = polars.DataFrame({name: rows[name].to_numpy() for name in rows})
        design = svy.Design(wgt="PW", rep_wgts=svy.SdrWgts(prefix="PW", n_reps=80))
        asked = {"by": "G", "method": "replication", "variance_center": "estimate"}
        found = svy.Sample(data, design).estimation.mean("Y", **asked).to_polars()
    for line in found.to_dicts():
        group = (rows["G"] == int(line["G"])).to_numpy()
        expected = replicated(lambda w, g=group: share(rows["Y"].to_numpy(), g, w), rows["PW"].to_numpy(), weights)
        assert (line["est"], line["se"]) == pytest.approx(expected, rel=1e-9)


def test_files_are_made_once_and_whole(folder, tmp_path, monkeypatch, capsys):
    def run(name, place, *more):
        return command(monkeypatch, capsys, "replicate", str(folder / name), "--output", str(place), *more)

    place = tmp_path / "rows.csv"
    assert run("free", place, "--weights", "3", "--design-effect", "2")[0] == 0
    rows = pd.read_csv(place)
    assert list(rows) == ["G", "Y", "PW", "PW1", "PW2", "PW3"]
    assert rows["PW"].tolist() == pytest.approx(Release.open(folder / "free").rows(labels=False)["PW"].tolist())
    for name, path, more, says in [
        ("free", place, ("--weights", "3"), "exists already"),
        ("free", tmp_path / "rows.txt", ("--weights", "3"), "name a .parquet or .csv file"),
        ("free", tmp_path / "tables", ("--design-effect", "3"), "--design-effect only applies to replicate weights"),
        ("free", tmp_path / "rows2.csv", ("--weights", "3", "--replicates", "4"), "give one of them"),
        ("people", tmp_path / "rows2.csv", ("--weights", "3"), "is a person (expand)"),
    ]:
        code, _, said = run(name, path, *more)
        assert code == 2
        assert says in re.sub(r"\s+", " ", said)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]
    with pytest.raises(InputError, match="give 1 or more"):
        Release.open(folder / "free").replicate_weights(design_effect=0.5)
