"""Tests of the steps of a release without an orchestrator."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equistrata.data.sources import FileSource
from equistrata.data.table import CodedTable
from equistrata.eval.scores.scores import score
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.flow import join_job
from equistrata.flows.release.measuring.means import estimate_means
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.steps import describing, drawing, fitting, reading, scoring, streams
from equistrata.flows.run.guard import StepFailed
from equistrata.flows.run.workspace import HELD_OUT, SYNTHETIC, Workspace
from equistrata.inference.means.clip import MOST_BEYOND
from equistrata.inference.means.coinpress import Coinpress
from equistrata.privacy.budget import Budget
from equistrata.privacy.noise import noise_source
from equistrata.synth.mechanisms.base import Fit
from equistrata.synth.mechanisms.mst import MST
from equistrata.synth.models.pool import SampledModel
from equistrata.synth.storage import load_measurements
from equistrata.synth.strata.model import StratifiedModel


@pytest.fixture
def plan(people, tmp_path):
    """Return a plan with a seed for the small table in Parquet format, with means and held-out rows."""
    table, schema, frame = people
    frame.loc[::7, "PAY"] = np.nan
    path = table.with_suffix(".parquet")
    frame.to_parquet(path, index=False)
    return Plan.of(
        ReleaseConfig.build(
            source="parquet", input=str(path), schema=str(schema), strata="SEX,GROUP", means="PAY", evaluate="full",
            seed=1,
            selection="per-stratum", output=str(tmp_path / "out"),
        )
    )  # fmt: skip


@pytest.fixture
def work(tmp_path):
    (tmp_path / "work").mkdir()
    return Workspace(tmp_path / "work")


def fit(plan, work, position, mechanism=None, noise=None):
    budget = Budget(plan.price.counts + plan.price.synthesis)
    schema = plan.strata.rest(plan.strata.keys[position])
    noise = noise or noise_source(plan.config.seed).spawn(position)
    mechanism = mechanism or plan.mechanism
    fitting.fit_one(work, position, mechanism, schema, budget, plan.price.counts, noise)
    fitting.model_one(work, position, mechanism, schema)


def draw(plan, work):
    """Estimate the means, join the models, draw the rows and write the release."""
    estimate_means(plan, work, Budget(plan.price.means), noise_source(plan.config.seed).spawn(streams.MEANS))
    join_job(plan, work)()
    describing.describe(plan, work, noise_source(plan.config.seed), drawing.resample(plan, work))


class Counting:
    """A noise source that counts its draws."""

    private = False
    name = "counting"

    def __init__(self, source):
        self.source, self.drawn = source, 0

    def __getattr__(self, name):
        self.drawn += 1
        return getattr(self.source, name)


@pytest.mark.parametrize("batch", [11, 100, 1356])
def test_batches_of_any_size_leave_the_same_files(plan, work, tmp_path, batch):
    reading.partition(plan, work)
    other = Workspace(tmp_path / "other")
    other.root.mkdir()
    reading.partition(replace(plan, source=FileSource(plan.config.input, batch_rows=batch)), other)
    names = sorted(path.name for path in work.root.iterdir())
    assert names == sorted(path.name for path in other.root.iterdir())
    # The coins, the held-out rows and the keys of the rows, and the strata and the outcomes
    assert len(names) == 3 + 6 + 6
    for name in names:
        assert (work.root / name).read_bytes() == (other.root / name).read_bytes()
    held, strata = work.load(work.root / HELD_OUT), [work.load(work.stratum(i)) for i in range(6)]
    assert len(held) + sum(map(len, strata)) == 1357
    assert 150 < len(held) < 400  # 20% of 1,357 within eight standard deviations
    cells = [work.load(work.outcome("PAY", i)) for i in range(6)]
    assert [*map(len, cells)] == [*map(len, strata)]
    assert any(np.isnan(each).any() for each in cells)


def test_outcomes_stay_with_their_stratum(plan, work):
    whole = replace(plan, config=plan.config.model_copy(update={"evaluate": "none"}))
    reading.partition(whole, work)
    frame = pd.read_parquet(plan.config.input)
    for position, (sex, group) in enumerate(plan.strata.keys):
        there = frame[(frame["SEX"] == sex) & (frame["GROUP"] == group)]
        assert work.load(work.outcome("PAY", position)).tolist() == pytest.approx(there["PAY"].tolist(), nan_ok=True)
        assert len(work.load(work.stratum(position))) == len(there)


def test_a_fit_that_is_called_again_draws_no_noise_and_changes_nothing(plan, work):
    reading.partition(plan, work)
    fit(plan, work, 0)
    before = work.measurements(0).read_bytes(), work.model(0).read_bytes()
    noise = Counting(noise_source(plan.config.seed).spawn(99))
    fit(plan, work, 0, noise=noise)
    assert noise.drawn == 0
    assert (work.measurements(0).read_bytes(), work.model(0).read_bytes()) == before
    assert work.count_start(0) == 2  # the second call is not counted as a start


def test_a_fit_that_died_after_measuring_is_finished_from_its_measurements(plan, work):
    reading.partition(plan, work)
    fit(plan, work, 0)
    before = work.model(0).read_bytes()
    work.model(0).unlink()
    noise = Counting(noise_source(plan.config.seed).spawn(99))
    fit(plan, work, 0, noise=noise)
    assert noise.drawn == 0
    assert work.model(0).read_bytes() == before


def test_of_two_fits_at_once_only_the_first_to_save_is_used(plan, work):
    """The second fit starts before the first fit is saved.

    This is possible if a cluster has lost the connection to a worker.
    """
    reading.partition(plan, work)

    class Slow(MST):
        def measure(self, table, rho, noise, known=()):
            own = super().measure(table, rho, noise, known)
            fit(plan, work, 0, noise=noise_source(plan.config.seed).spawn(7))
            return own

    fit(plan, work, 0, mechanism=Slow(), noise=noise_source(plan.config.seed).spawn(8))
    kept = load_measurements(work.measurements(0))
    alone = Workspace(work.root / "alone")
    alone.root.mkdir()
    alone.append(alone.stratum(0), work.load(work.stratum(0)))
    fit(plan, alone, 0, noise=noise_source(plan.config.seed).spawn(7))
    assert alone.measurements(0).read_bytes() == work.measurements(0).read_bytes()
    assert alone.model(0).read_bytes() == work.model(0).read_bytes()
    assert len(kept) > 1
    assert not list(work.root.glob("unsaved-*"))


def test_a_foreign_fit_is_kept_whole(plan, work):
    reading.partition(plan, work)

    class Foreign(MST):
        keeps_measurements, software = False, "other"

        def fit_table(self, table, rho, noise, known=()):
            return Fit(tuple(known), SampledModel(len(table), table))

        def model(self, schema, measurements):
            raise AssertionError("its models cannot be made from measurements")

    fit(plan, work, 0, mechanism=Foreign())
    before = work.model(0).read_bytes()
    fit(plan, work, 0, mechanism=Foreign())
    assert work.model(0).read_bytes() == before


def test_a_stratum_is_not_begun_without_end(plan, work):
    reading.partition(plan, work)

    class Dies(MST):
        def measure(self, table, rho, noise, known=()):
            raise SystemExit  # this simulates the end of the process, so it is not handled by the step

    for _ in range(fitting.MOST_STARTS):
        with pytest.raises(SystemExit):
            fit(plan, work, 0, mechanism=Dies())
    with pytest.raises(StepFailed, match="never finished"):
        fit(plan, work, 0, mechanism=Dies())
    fit(plan, replace(work, run=2), 0)  # a resumed run was charged again, so its count starts at zero


def test_the_card_tells_of_strata_that_were_begun_again(plan, work):
    reading.partition(plan, work)
    work.count_start(2)  # a worker was lost
    for position in range(len(plan.strata.keys)):
        fit(plan, work, position)
    draw(plan, work)
    describing.land_release(plan, work)
    out = Path(plan.config.output)
    assert json.loads((out / "card.json").read_text())["strata"]["begun_again"] == 1
    assert "1 time(s) a stratum's worker was lost" in (out / "card.md").read_text()


def test_a_release_drawn_in_batches_is_whole(plan, work, monkeypatch):
    monkeypatch.setattr("equistrata.synth.strata.model.SAMPLE_BATCH", 100)
    reading.partition(plan, work)
    for position in range(len(plan.strata.keys)):
        fit(plan, work, position)
    draw(plan, work)
    csv, parquet = (pd.read_csv(work.staging / "synthetic.csv"), pd.read_parquet(work.staging / "synthetic.parquet"))
    pd.testing.assert_frame_equal(csv, parquet, check_dtype=False)
    rows = json.loads((work.staging / "card.json").read_text())["rows"]
    assert len(csv) == len(work.load(work.root / SYNTHETIC)) == rows > 500


def test_rows_are_raked_to_the_private_means_and_the_card_says_so(plan, work):
    settings = {"columns": "SEX,GROUP,AGE,JOB,PAY", "epsilon": 10.0, "selection": None, "evaluate": "none"}
    pd.read_parquet(plan.config.input).fillna({"PAY": 30_000.0}).to_parquet(plan.config.input, index=False)
    plan = Plan.of(ReleaseConfig.build(**plan.config.public() | settings))
    reading.partition(plan, work)
    budget, noise = Budget(plan.price.counts + plan.price.synthesis), noise_source(plan.config.seed)
    fitting.fit_one(work, 0, plan.mechanism, plan.schema, budget, plan.price.counts, noise)
    join_job(plan, work)()
    estimate_means(plan, work, Budget(plan.price.means), noise.spawn(streams.MEANS))
    place = work.staging / "means.json"
    means = json.loads(place.read_text())
    for estimate in means["outcomes"]["PAY"].values():
        del estimate["strata"]
        estimate |= {"value": 45_000.0, "lower": 44_000.0, "upper": 46_000.0}
    place.write_text(json.dumps(means))
    drawn = drawing.resample(plan, work)
    describing.describe(plan, work, noise, drawn)
    assert json.loads((work.staging / "card.json").read_text())["raked"] == drawn.raked == {"PAY": 6}
    assert 43_500 < pd.read_csv(work.staging / "synthetic.csv")["PAY"].mean() < 46_500
    assert 28_000 < pd.read_parquet(plan.config.input)["PAY"].mean() < 32_000


def scores_of(plan, work):
    """Read the rows, fit the strata, draw the rows and return the scores."""
    reading.partition(plan, work)
    for position in range(len(plan.strata.keys)):
        fit(plan, work, position)
    draw(plan, work)
    scoring.evaluate(plan, work)
    return json.loads((work.root / "scores.json").read_text())


def test_scores_are_those_of_the_whole_tables(plan, work):
    scores = scores_of(plan, work)
    parts = {key: work.load_table(work.stratum(i), plan.strata.rest(key)) for i, key in enumerate(plan.strata.keys)}
    real, test = plan.strata.assemble(parts), work.load_table(work.root / HELD_OUT, plan.schema)
    synthetic = work.load_table(work.root / SYNTHETIC, plan.schema)
    expected = score(real, synthetic, ["SEX", "GROUP"], held_out=test, target="JOB").to_dict()
    assert scores.pop("warning")
    assert scores.keys() == expected.keys()
    for name in ("parity_error", "workload3", "workload3_by_stratum", "maximum_disparity", "accuracy", "dpr"):
        assert scores[name] == pytest.approx(expected[name], abs=1e-12)


def test_large_tables_are_scored_by_a_random_part_and_say_so(plan, work, monkeypatch):
    monkeypatch.setattr(scoring, "SCORED_ROWS", 50)
    scores = scores_of(plan, work)
    assert "50" in scores["scored"]
    assert "50" in scores["classified"]
    assert 0 < scores["workload3"] < 2
    assert 0 < scores["accuracy"] < 1


def test_models_of_all_strata_are_kept_once(plan, work, tmp_path):
    """Two workers make the models at the same time. The first result is used, and no other files are left."""
    plan = Plan.of(ReleaseConfig.build(**plan.config.public() | {"selection": None}))
    assert plan.shared is not None
    reading.partition(plan, work)
    assert len(work.load(work.stratum(0))) == sum(
        len(part) for part in plan.strata.partition(rows_of(plan, work)).values()
    )
    budget = Budget(plan.price.counts + plan.price.synthesis)
    fitting.fit_one(work, 0, plan.mechanism, plan.schema, budget, plan.price.counts, noise_source(plan.config.seed))
    fitting.join(work, plan.strata, plan.shared.engine, True)
    first = StratifiedModel.load(work.joint, plan.schema)
    work.keep_joint(replace(first, total=1.0))
    assert StratifiedModel.load(work.joint, plan.schema).total == first.total
    assert not list(work.paid.glob("joint-*"))
    draw(plan, work)
    scoring.evaluate(plan, work)
    release = work.staging
    assert [path.name for path in (release / "measurements").iterdir()] == ["all.json"]
    card = json.loads((release / "card.json").read_text())
    assert (card["selection"], card["levels"]) == ("shared", "auto")
    assert "strata within a marginal" in card["guarantee"]["composition"]
    scale = 1 / (1 - plan.held_out)
    assert card["rows"] == round(first.total * scale)


def rows_of(plan, work):
    return work.load_table(work.stratum(0), plan.schema)


@pytest.mark.parametrize(("shrinkage", "target"), [(True, "rows"), (False, "population")])
def test_means_by_strata_are_measured_at_two_levels_unless_shrinkage_is_turned_off(plan, work, shrinkage, target):
    changed = {"shrinkage": shrinkage, "means_target": target}
    plan = replace(plan, config=plan.config.model_copy(update=changed))
    reading.partition(plan, work)
    work.staging.mkdir()
    budget, noise = Budget(plan.price.means), noise_source(plan.config.seed)
    estimate_means(plan, work, budget, noise)
    assert not budget.remaining
    entry = json.loads((work.staging / "means.json").read_text())["outcomes"]["PAY"]["strat_coinpress"]
    (column,) = plan.means.columns
    cells = {key: work.load(work.outcome("PAY", i)) for i, key in enumerate(plan.strata.keys)}
    groups = {key: values[~np.isnan(values)] for key, values in cells.items()}
    lower, upper = column.mean_bounds
    coinpress = Coinpress(lower, upper, column.sigma, sizes="noisy", bounds=column.bounds, target=target)
    estimator = coinpress.hierarchical if shrinkage else coinpress.by_strata
    expected = estimator(groups, None, plan.price.means, noise.spawn(0))
    assert (entry["value"], entry["lower"], entry["upper"]) == (expected.value, expected.lower, expected.upper)
    assert entry["rho"] == float(plan.price.means)
    assert (entry["level"], entry["target"], entry["shrunk"]) == (0.95, target, False)
    assert entry["sigma"]["declared"] == column.sigma
    assert entry["sigma"]["too_small"] == (entry["sigma"]["rows_far_out"] > MOST_BEYOND)
    marks = {stratum["shrunk"] for stratum in entry["strata"].values()}
    assert True in marks if shrinkage else marks == {False}
    assert entry["strata"].keys() == {plan.strata.label(key) for key in plan.strata.keys}
    for key, stratum in expected.strata.items():
        shown = entry["strata"][plan.strata.label(key)]
        assert (shown["value"], shown["rho"]) == (stratum.value, float(plan.price.means))
        keys = {"value", "lower", "upper", "rho", "rows", "share", "level", "target", "shrunk", "uninformative"}
        assert shown.keys() == keys
        assert shown["uninformative"] == stratum.uninformative(lower, upper)


def test_a_release_without_rows_is_not_scored(plan, work):
    reading.partition(plan, work)
    none = CodedTable(np.zeros((0, len(plan.schema.names)), np.uint8), plan.schema)
    work.append(work.root / SYNTHETIC, none.codes)
    scoring.evaluate(plan, work)
    scores = json.loads((work.root / "scores.json").read_text("utf-8"))
    assert scores == {"warning": "not scored: the release has no rows"}
