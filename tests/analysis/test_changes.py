"""Changes between two releases: what they are, how often intervals hold them, and what is refused."""

import shutil
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from in_process import command
from known_relations import SCHEMA, people

import equistrata.analysis.answers
import equistrata.analysis.changes
from equistrata.analysis.answers import Answers
from equistrata.analysis.bases import implied
from equistrata.analysis.changes import changes, of_one_series
from equistrata.analysis.release import Release
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.data.files.manifest import write_manifest
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.errors import InputError
from equistrata.synth.measurements import Measurement
from equistrata.synth.registry import mechanism

MONTH = {"series": {"name": "year"}, "ledger": {"ledger": "a", "dataset": "people"}}
SETS = [("G",), ("G", "X"), ("G", "Y"), ("X", "Y")]


@dataclass(frozen=True)
class Made:
    """What `changes` needs of a release: noisy counts of a table."""

    manifest: str
    answers: Answers
    schema: Schema = SCHEMA
    card: Any = field(default_factory=dict)

    @classmethod
    def of(cls, table: Any, sigma: float, seed: int) -> "Made":
        rng = np.random.default_rng(seed)
        found = [Measurement(s, (c := table.marginal(s)) + rng.normal(0, sigma, c.shape), sigma) for s in SETS]
        return cls(str(seed), Answers(Evidence(Strata.over(SCHEMA, ()), {(): found}, mechanism("mst"))))

    def estimate(self, *asked: Any, **more: Any) -> Any:
        return self.answers.estimate(*asked, **more)


def exact(table: Any, statistic: str, group: int) -> float:
    inside = table.codes[table.column("G") == group]
    shares = {"proportion": inside[:, SCHEMA.index("Y")].mean(), "count": len(inside)}
    return float(shares.get(statistic, inside[:, SCHEMA.index("X")].mean()))


@pytest.mark.parametrize(("statistic", "of"), [("proportion", {"Y": 1}), ("mean", "X"), ("count", None)])
def test_a_change_is_the_later_number_less_the_former_one(statistic, of):
    tables = people(3000), people(3000, 1).select(SCHEMA.names).take(np.arange(2000))
    former, later = (Made.of(table, 1e-3, seed) for seed, table in enumerate(tables))
    found = changes(former, later, statistic, of, ["G"])
    assert list(found.columns) == [
        "G", "former", "later", "estimate", "lower", "upper", "standard_error", "p_value", "basis",
    ]  # fmt: skip
    for group, line in enumerate(found.to_dict("records")):
        before, after = (exact(table, statistic, group) for table in tables)
        ours = [line["former"], line["later"], line["estimate"]]
        assert ours == pytest.approx([before, after, after - before], abs=0.01)
    times = changes(former, later, statistic, of, ["G"], ratio=True)
    assert times["estimate"].to_numpy() == pytest.approx((found["later"] / found["former"]).to_numpy())
    assert "p_value" not in times.columns


def test_its_error_is_of_both():
    former, later = Made.of(people(2000), 15.0, 0), Made.of(people(2600, 7), 15.0, 1)
    asked = ("proportion", {"Y": 1}, ["G"])
    parts = [each.estimate(*asked)["standard_error"].to_numpy() for each in (former, later)]
    found = changes(former, later, *asked)["standard_error"].to_numpy()
    assert found == pytest.approx(np.hypot(*parts), rel=0.02)


def test_each_release_is_asked_once(monkeypatch):
    asked = []
    honest = equistrata.analysis.answers.question
    monkeypatch.setattr(equistrata.analysis.answers, "question", lambda *words: asked.append(words) or honest(*words))
    former, later = Made.of(people(2000), 15.0, 0), Made.of(people(2600, 7), 15.0, 1)
    changes(former, later, "proportion", {"Y": 1}, ["G"])
    assert len(asked) == 2
    first = later.estimate("proportion", {"Y": 1}, ["G"])
    assert len(asked) == 2
    assert len(later.estimate("proportion", {"Y": 0}, ["G"])) == len(first)
    assert len(asked) == 3


@pytest.mark.slow
def test_intervals_hold_the_change_and_no_change_is_seldom_found():
    """300 pairs of releases: 95 % intervals miss in 5 % ± 1.3 %, so more than 9.5 % or less than 1.5 % is chance once
    in a thousand tests. Once with a change, once with the same table."""
    former_rows, later_rows = people(2000), people(2600, 7)
    for rows in (later_rows, former_rows):
        missed, rejected = [], []
        for seed in range(300):
            former, later = Made.of(former_rows, 15.0, 2 * seed), Made.of(rows, 15.0, 2 * seed + 1)
            line = changes(former, later, "proportion", {"Y": 1}, where={"G": 1}).iloc[0]
            real = exact(rows, "proportion", 0) - exact(former_rows, "proportion", 0)
            missed.append(not line["lower"] <= real <= line["upper"])
            rejected.append(line["p_value"] < 0.05)
        assert 0.015 < np.mean(missed) < 0.095
        if rows is former_rows:
            assert np.mean(rejected) < 0.095


def test_a_change_of_what_was_not_measured_together_has_no_p_value():
    former, later = Made.of(people(3000), 1.0, 0), Made.of(people(3000), 1.0, 1)
    assert ("X", "Z") not in SETS
    for statistic, of, by in (("proportion", {"Z": 1}, "X"), ("count", {"Z": 1}, "X")):
        found = changes(former, later, statistic, of, [by])
        assert found["basis"].eq("implied").all()
        assert found["p_value"].isna().all()
    assert changes(former, later, "proportion", {"Y": 1}, ["G"])["p_value"].notna().all()


@pytest.mark.parametrize(("statistic", "of"), [("proportion", {"Z": 1}), ("count", {"Z": 1})])
def test_what_both_models_leave_out_is_in_no_change(statistic, of, monkeypatch):
    former, later = (replace(Made.of(people(3000), 1.0, seed), card=MONTH) for seed in (0, 1))
    asked = (statistic, of, ["X"])
    one, other = (each.estimate(*asked) for each in (former, later))
    shares = [
        each.answers.misfit_share(each.answers.asked(*asked, None), found)
        for each, found in ((former, one), (later, other))
    ]
    assert all(((share > 0.5) & (share <= 1)).all() for share in shares)  # σ is 1 row
    down, up = other["estimate"] - other["lower"], one["upper"] - one["estimate"]
    open_ended = ((one["lower"] > 0) & (other["lower"] > 0)).to_numpy()
    assert open_ended.sum() > 1
    for common in (0.0, 0.8):
        monkeypatch.setattr(equistrata.analysis.changes, "misfit_in_common", lambda one, other, r=common: r)
        found = changes(former, later, *asked)
        expected = down**2 + up**2 - 2 * common * np.sqrt(shares[0] * shares[1]) * down * up
        reach = (found["estimate"] - found["lower"]).to_numpy()
        assert reach[open_ended] ** 2 == pytest.approx(expected.to_numpy()[open_ended])
    apart = changes(former, replace(later, card={}), *asked)  # perhaps of other people
    assert ((apart["estimate"] - apart["lower"])[open_ended] > reach[open_ended]).all()


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"series": None, "ledger": None},
        {"series": {"name": "year"}},
        {"series": {"name": "quarter"}, "ledger": {"ledger": "a", "dataset": "people"}},
        {"series": {"name": "year"}, "ledger": {"ledger": "b", "dataset": "people"}},
        {"series": {"name": "year"}, "ledger": {"ledger": "a", "dataset": "homes"}},
    ],
)
def test_months_of_one_series_are_of_one_name_ledger_and_data_set(other):
    assert of_one_series(MONTH, {**MONTH, "rows": 5})
    assert not of_one_series(MONTH, other)
    assert not of_one_series({}, {})


def test_errors_of_what_follows_from_models_are_worked_out_once_a_release(monkeypatch):
    """The interval of each month needs them, and so does what their change has in common."""
    worked, honest = [], implied.with_margins
    monkeypatch.setattr(implied, "with_margins", lambda *given: worked.append(given) or honest(*given))
    former, later = (replace(Made.of(people(3000), 1.0, seed), card=MONTH) for seed in (0, 1))
    changes(former, later, "proportion", {"Z": 1}, ["X"])
    assert len(worked) == 2
    later.estimate("difference", {"Z": 1}, ["X"])
    assert len(worked) == 3


def test_no_misfit_is_in_what_was_measured():
    made = Made.of(people(3000), 1.0, 0)
    asked = made.answers.asked("proportion", {"Y": 1}, ["G"], None)
    assert (made.answers.misfit_share(asked, made.estimate("proportion", {"Y": 1}, ["G"])) == 0).all()


def test_what_cannot_be_compared_is_refused():
    former, later = Made.of(people(300), 1.0, 0), Made.of(people(300), 1.0, 1)
    with pytest.raises(InputError, match="both folders are the same release"):
        changes(former, former, "count")
    with pytest.raises(InputError, match="statistic"):
        changes(former, later, "logit", "Y", ["X"])
    columns = tuple(replace(c, values=("x", "y", "z")) if c.name == "R" else c for c in SCHEMA.columns)
    with pytest.raises(InputError, match="column 'R' has other values in one of the releases"):
        changes(former, replace(later, schema=replace(SCHEMA, columns=columns)), "proportion", "R")


def test_a_release_is_compared_with_another(folder, tmp_path, monkeypatch, capsys):
    shutil.copytree(folder, other := tmp_path / "other")
    (other / "note.txt").write_text("another one")
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
        ((other, folder, "proportion", "ESR=1"), "two releases are compared with --difference"),
        ((folder, "share", "ESR=1"), "'share' is no statistic; choose among count"),
        ((folder, "--difference", "count"), "give equistrata estimate FORMER LATER --difference STATISTIC"),
    ):
        code, _, said = command(monkeypatch, capsys, "estimate", *wrong)
        assert code == 2
        assert sentence in " ".join(said.split())
