"""The runs behind the figures of the stratification paper: what is measured at a place."""

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
from paper.synthesizers import Cell

SMALL = ("AGEP", "MAR", "SEX", "RAC1P", "ESR")
SAMPLE = SampleSource()


@pytest.fixture(scope="module")
def table():
    schema = Schema.load("acs_employment").select(SMALL)
    return CodedTable.encode(SAMPLE.read(SMALL), schema).take(np.arange(4000))


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
    """The same fit, made by hand, has the same scores; so the paper's form and ours are not mixed up."""
    line = synthesizers.measure_on(cell, table)
    rng = np.random.default_rng(3)
    rows = table.take(rng.random(len(table)) < 0.8)
    synthetic = StratifiedSynthesizer(**settings, epsilon=1.0, delta=1e-9, seed=3).fit(rows).sample()
    pair = Pair.of(rows.decode(rng), synthetic, ["SEX", "RAC1P"])
    assert line.parity_means_sex_rac1p == parity_error(pair).value
    whole = parity_error(pair, statistic="workload3").value
    assert line.parity_workload3_sex_rac1p == pytest.approx(whole, abs=1e-12)
    assert 0 < line.accuracy <= 1


def test_real_rows_have_no_error_and_a_classifier(table):
    (cell,) = synthesizers.real_rows(1)
    line = synthesizers.measure_on(cell, table)
    assert line.parity_means_sex_rac1p == line.parity_workload3_rac1p == line.maximum_disparity == 0.0
    assert 0.6 < line.accuracy <= 1.0


def test_mean_lines():
    """By hand for one place; and what is exact about the others."""
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
    # Coinpress answers with the population's mean, which at this ρ is nearly exact, in every stratum.
    expected = np.abs(strata / mean - 1) @ (mean / strata)
    assert lines[COINPRESS].parity_error == pytest.approx(expected, rel=0.05)
    # The same strata's estimates under other weights: only the population's part of the error differs.
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
    """At n = 20,000: chance σ/√n ≤ 2.3/141 and noise well below it.

    Expected |error| of 20 tables is √(2/π) of the deviation; the limits are about three times that: a false alarm of
    under 10⁻⁶ for means of 20.
    """
    lines = [mixture.measure(MixtureCell(3, 1.0, 20_000, run)) for run in range(20)]
    assert np.mean([line.coinpress for line in lines]) < 0.04
    assert np.mean([line.stratified for line in lines]) < 0.03
    assert np.mean([line.public for line in lines]) > np.mean([line.stratified for line in lines])


def test_mixture_tables_and_noise_differ_from_place_to_place():
    lines = [mixture.measure(cell) for cell in mixture.grid((3, 6), (0.1, 1.0), (2000, 4000), 2)]
    for name in ("coinpress", "stratified"):
        assert len({round(getattr(line, name), 12) for line in lines}) == len(lines) == 16
    assert mixture.measure(MixtureCell(3, 0.1, 2000, 0)) == lines[0]
