"""Tests of the runs for the figures of the stratification paper."""

import json

import numpy as np
import pytest

from equistrata.data.schema import Schema
from equistrata.data.sources import SampleSource
from equistrata.data.table import CodedTable
from equistrata.eval.scores.parity import parity_error
from equistrata.eval.scores.tables import Pair
from equistrata.synth.synthesizer import StratifiedSynthesizer
from paper import means, mixture, synthesizers
from paper.means import ALONE, COINPRESS, ESTIMATORS, PUBLIC, RELEASED, STRATIFIED, MeanCell
from paper.mixture import MixtureCell
from paper.mst import PaperMST
from paper.synthesizers import COMMON, Cell

COLUMNS = ("AGEP", "SCHL", "MAR", "DIS", "NATIVITY", "MIL", "DREM", "SEX", "RAC1P", "ESR")
FROM_ONE = ["MAR", "DIS", "NATIVITY"]  # the values of these columns start at 1
SAMPLE = SampleSource()


@pytest.fixture(scope="module")
def table():
    schema = Schema.load("acs_employment").select(COLUMNS)
    return CodedTable.encode(SAMPLE.read(COLUMNS), schema).take(np.arange(4000))


@pytest.mark.parametrize(
    ("cell", "settings"),
    [
        (Cell("mst", "vanilla", "vanilla", 1.0, 3), {"mechanism": PaperMST(), "strata": []}),
        (
            Cell("mst", "SEX", "per-stratum", 1.0, 3),
            {"mechanism": PaperMST(), "strata": ["SEX"], "selection": "per-stratum", "shrinkage": False},
        ),
        (Cell("mst", "SEX", "default", 1.0, 3), {"mechanism": "mst", "strata": ["SEX"]}),
    ],
)
def test_a_line_is_of_the_form_that_it_names(table, cell, settings):
    line = synthesizers.measure_on(cell, table)
    rng = np.random.default_rng(3)
    rows = table.take(rng.random(len(table)) < 0.8)
    synthetic = StratifiedSynthesizer(**settings, epsilon=1.0, delta=1e-9, seed=3).fit(rows).sample()
    pair = Pair.of(rows.decode(rng), synthetic, ["SEX", "RAC1P"])
    means = []
    for frame in (rows.decode(rng), synthetic):
        codes = frame.astype(float).assign(**{name: frame[name].astype(float) - 1 for name in FROM_ONE})
        means.append((codes.mean(), codes.groupby(["SEX", "RAC1P"]).mean(), codes.groupby(["SEX", "RAC1P"]).size()))
    (_, truth, sizes), (everybody, found, _) = means
    kept = sizes.index[sizes >= 0.001 * len(rows)]
    in_kept = rows.decode(rng).set_index(["SEX", "RAC1P"]).loc[kept].astype(float).mean()
    for name in (*COMMON, "NATIVITY"):
        real = in_kept[name] - (name in FROM_ONE)
        estimates = found[name].reindex(kept).fillna(everybody[name])
        errors = abs(truth[name][kept] - estimates) / truth[name][kept]
        assert line.parity[name] == pytest.approx(abs(real - everybody[name]) / real / len(kept) + errors.sum())
    whole = parity_error(pair, statistic="workload3").value
    assert line.parity_workload3_sex_rac1p == pytest.approx(whole, abs=1e-12)
    assert 0 < line.accuracy <= 1


def test_real_rows_have_no_error_and_a_classifier(table):
    (cell,) = synthesizers.real_rows(1)
    line = synthesizers.measure_on(cell, table)
    assert line.parity_workload3_rac1p == 0.0
    # The real means are from all rows, including the test rows, and the synthetic means are from the training rows.
    rows = [sum(stratum[0] for stratum in json.loads(text)) for text in (line.real_sums, line.synthetic_sums)]
    assert rows[0] < rows[1] == len(table)
    assert 0 < line.score("AGEP") < 1
    assert 0.6 < line.accuracy <= 1.0


def test_mean_lines():
    cells = [MeanCell("WKHP", "SEX_RAC1P", name, 0.5, 1) for name in ESTIMATORS]
    lines = {cell.estimator: means.measure(cell, SAMPLE) for cell in cells}
    assert lines[RELEASED] == means.measure(cells[-1], SAMPLE)
    table, outcomes, _ = means.read_people(SAMPLE)
    values = outcomes["WKHP"]
    private = np.random.default_rng(1).random(len(table)) < 0.8
    here = private & ~np.isnan(values)
    sizes = table.take(here).marginal(["SEX", "RAC1P"]).ravel()
    kept = sizes >= 0.001 * here.sum()
    for line in lines.values():
        assert (line.declared, line.kept) == (18, kept.sum())
        assert 0 < line.kept < 18
        assert line.population_error < 0.05
    index = table.index_of(["SEX", "RAC1P"])
    mean = values[here].mean()
    strata = np.array([values[here & (index == i)].mean() for i in np.flatnonzero(kept)])
    # Coinpress returns the mean of the population in each stratum, which is nearly exact at this ρ.
    expected = np.abs(strata / mean - 1) @ (mean / strata)
    assert lines[COINPRESS].parity_error == pytest.approx(expected, rel=0.05)
    # The estimates of the strata are the same with other weights, so only the error of the population is different.
    strat, public = lines[STRATIFIED], lines[PUBLIC]
    assert strat.population_error != public.population_error
    assert strat.parity_error - strat.population_error / strat.kept == pytest.approx(
        public.parity_error - public.population_error / public.kept
    )
    for ours in (ALONE, RELEASED):
        assert lines[ours].parity_error < min(lines[STRATIFIED].parity_error, lines[COINPRESS].parity_error)
    assert lines[ALONE].parity_error != lines[RELEASED].parity_error


def test_empty_strata_are_no_error():
    line = means.measure(MeanCell("JWMNP", "SEX_RAC1P_AGEP_DIS", STRATIFIED, 0.5, 0), SAMPLE)
    assert line.declared == 180
    assert np.isfinite(line.parity_error)


def test_mixture_errors_are_of_the_size_that_theory_says():
    """Check that the mean of each error is less than about three times the expected value.

    The tables have n = 20,000 with 10,000 private rows. The noise of the mean over all rows has a standard deviation of
    about 2·9.4/(10,000·√0.75) = 0.002. The error of the public shares has a standard deviation of at most √(1/10,000 +
    1/10,000)·2 = 0.03.

    The expected absolute error is √(2/π) times the standard deviation. For means of 20 tables, a false alarm has a
    probability of less than 10⁻⁶.
    """
    lines = [mixture.measure(MixtureCell(3, 1.0, 20_000, run)) for run in range(20)]
    mean = {name: np.mean([getattr(line, name) for line in lines]) for name in mixture.ARMS.values()}
    assert mean["coinpress"] < 0.006
    assert mean["stratified"] < 0.02
    assert mean["stratified"] < mean["sampling"] < 0.07
    assert mean["two_levels"] < mean["stratified"]
    assert mean["public"] < mean["sampling"] + mean["stratified"]


def test_mixture_tables_and_noise_differ_from_place_to_place():
    lines = [mixture.measure(cell) for cell in mixture.grid((3, 6), (0.3, 1.0), (2000, 4000), 2)]
    for name in ("coinpress", "stratified"):
        assert len({round(getattr(line, name), 12) for line in lines}) == len(lines) == 16
    assert mixture.measure(MixtureCell(3, 0.3, 2000, 0)) == lines[0]
