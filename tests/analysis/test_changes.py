"""Tests of the changes between two releases. The tests check the values, the coverage of the
intervals and the errors.
"""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from in_process import command
from known_relations import SCHEMA, people
from scipy.special import ndtr, ndtri

from equistrata.analysis.answers import Answers
from equistrata.analysis.changes import ComparedRelease, changes
from equistrata.analysis.derived import ANSWER
from equistrata.analysis.release import Release
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.data.strata import Strata
from equistrata.data.texts.manifest import write_manifest
from equistrata.errors import InputError
from equistrata.synth.measurements import Measurement
from equistrata.synth.registry import mechanism

SETS = [("G",), ("G", "X"), ("G", "Y"), ("X", "Y")]


def made(table, sigma, seed):
    """Return noisy counts of a table in the form that `changes` needs."""
    rng = np.random.default_rng(seed)
    found = [Measurement(s, (c := table.marginal(s)) + rng.normal(0, sigma, c.shape), sigma) for s in SETS]
    return ComparedRelease(str(seed), SCHEMA, Answers(Evidence(Strata.over(SCHEMA, ()), {(): found}, mechanism("mst"))))


def exact(table, statistic, group):
    inside = table.codes[table.column("G") == group]
    shares = {"proportion": inside[:, SCHEMA.index("Y")].mean(), "count": len(inside)}
    return float(shares.get(statistic, inside[:, SCHEMA.index("X")].mean()))


@pytest.mark.parametrize(("statistic", "of"), [("proportion", {"Y": 1}), ("mean", "X"), ("count", None)])
def test_a_change_is_the_later_number_less_the_former_one(statistic, of):
    tables = people(3000), people(3000, 1).select(SCHEMA.names).take(np.arange(2000))
    former, later = (made(table, 1e-3, seed) for seed, table in enumerate(tables))
    found = changes(former, later, statistic, of, ["G"])
    assert list(found.columns) == [
        "G", "former", "later", *ANSWER, "p_value", "basis",
    ]  # fmt: skip
    for group, line in enumerate(found.to_dict("records")):
        before, after = (exact(table, statistic, group) for table in tables)
        ours = [line["former"], line["later"], line["estimate"]]
        assert ours == pytest.approx([before, after, after - before], abs=0.01)
    times = changes(former, later, statistic, of, ["G"], ratio=True)
    assert times["estimate"].to_numpy() == pytest.approx((found["later"] / found["former"]).to_numpy())
    assert "p_value" not in times.columns


def test_its_error_is_of_both():
    former, later = made(people(2000), 15.0, 0), made(people(2600, 7), 15.0, 1)
    asked = ("proportion", {"Y": 1}, ["G"])
    parts = [each.answers.estimate(*asked)["standard_error"].to_numpy() for each in (former, later)]
    found = changes(former, later, *asked)["standard_error"].to_numpy()
    assert found == pytest.approx(np.hypot(*parts), rel=0.02)


@pytest.mark.slow
def test_intervals_hold_the_change_and_no_change_is_seldom_found():
    """Check the coverage of the intervals in 300 pairs of releases, with a change and without a change.

    The expected miss rate is 5 %, with a standard error of 1.3 %. The rate must be between 1.5 % and 9.5 %. The
    probability of a false alarm is 0.001.
    """
    former_rows, later_rows = people(2000), people(2600, 7)
    for rows in (later_rows, former_rows):
        missed, rejected = [], []
        for seed in range(300):
            former, later = made(former_rows, 15.0, 2 * seed), made(rows, 15.0, 2 * seed + 1)
            line = changes(former, later, "proportion", {"Y": 1}, where={"G": 1}).iloc[0]
            real = exact(rows, "proportion", 0) - exact(former_rows, "proportion", 0)
            missed.append(not line["lower"] <= real <= line["upper"])
            rejected.append(line["p_value"] < 0.05)
        assert 0.015 < np.mean(missed) < 0.095
        if rows is former_rows:
            assert np.mean(rejected) < 0.095


def test_a_change_of_what_was_not_measured_together_has_no_p_value():
    former, later = made(people(3000), 1.0, 0), made(people(3000), 1.0, 1)
    assert ("X", "Z") not in SETS
    for statistic, of, by in (("proportion", {"Z": 1}, "X"), ("count", {"Z": 1}, "X")):
        found = changes(former, later, statistic, of, [by])
        assert found["basis"].eq("implied").all()
        assert found["p_value"].isna().all()
    assert changes(former, later, "proportion", {"Y": 1}, ["G"])["p_value"].notna().all()


@pytest.mark.parametrize("statistic", ["count", "proportion"])
def test_a_change_of_few_rows_is_off_by_the_noise_of_both_months(statistic):
    """The value has 12 rows, and the standard deviation of the noise is about 7. The lower end of the interval is
    therefore 0.
    """
    table = people(3000)
    codes = table.codes.copy()
    codes[:, SCHEMA.index("Y")] = np.where(np.arange(len(codes)) < 12, 1, 0)
    cut = 0
    for seed in range(10):
        sides = [made(replace(table, codes=codes), 15.0, 2 * seed + late) for late in (0, 1)]
        one, other = (each.answers.estimate(statistic, {"Y": 1}).iloc[0] for each in sides)
        found = changes(*sides, statistic, {"Y": 1}).iloc[0]
        scale = 1 if statistic == "count" else 3000
        sigma = np.sqrt(sum(each.answers.counts.table(("Y",)).variance[1] for each in sides)) / scale
        free = [each.answers.answer(statistic, {"Y": 1}).limits[0, 0] for each in sides]
        apart, reach = free[1] - free[0], ndtri(0.975) * sigma
        lower, upper = (
            max(apart - reach, other["lower"] - one["upper"]),
            min(apart + reach, other["upper"] - one["lower"]),
        )
        assert found["lower"] == pytest.approx(min(lower, found["estimate"]), abs=0.02 * reach)
        assert found["upper"] == pytest.approx(max(upper, found["estimate"]), abs=0.02 * reach)
        assert found["p_value"] == pytest.approx(2 * ndtr(-abs(apart) / sigma), abs=0.02)
        cut += one["lower"] == 0 or other["lower"] == 0
    assert cut > 5


def test_what_cannot_be_compared_is_refused():
    former, later = made(people(300), 1.0, 0), made(people(300), 1.0, 1)
    with pytest.raises(InputError, match="both folders are the same release"):
        changes(former, former, "count")
    with pytest.raises(InputError, match="statistic"):
        changes(former, later, "logit", "Y", ["X"])
    columns = tuple(replace(c, values=("x", "y", "z")) if c.name == "R" else c for c in SCHEMA.columns)
    with pytest.raises(InputError, match="column 'R' has different values in the two releases"):
        changes(former, replace(later, schema=replace(SCHEMA, columns=columns)), "proportion", "R")


def test_a_release_is_compared_with_another(folder, tmp_path, monkeypatch, capsys):
    shutil.copytree(folder, other := tmp_path / "other")
    (other / "note.txt").write_text("two different releases")
    write_manifest(other)
    found = Release.open(folder).compare(Release.open(other), "proportion", {"ESR": 1}, "SEX")
    assert found["estimate"].abs().max() == 0
    assert (found["lower"] < 0).all()
    assert found["p_value"].eq(1.0).all()
    asked = ("--difference", "proportion", "ESR=1", "--by", "SEX")
    code, printed, _ = command(monkeypatch, capsys, "estimate", other, folder, *asked)
    assert code == 0
    for word in ("former", "later", "change", "Female", f"{found['later'][0]:.4g}"):
        assert word in printed
    for wrong, sentence in (
        ((folder, folder, *asked), "both folders are the same release"),
        ((other, folder, "proportion", "ESR=1"), "compare two releases with --difference"),
        ((folder, "share", "ESR=1"), "'share' is not a statistic; choose among count"),
        ((folder, "--difference", "count"), "write equistrata estimate FORMER LATER --difference STATISTIC"),
    ):
        code, _, said = command(monkeypatch, capsys, "estimate", *wrong)
        assert code == 2
        assert sentence in " ".join(said.split())
