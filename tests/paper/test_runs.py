"""The runs behind the figures: what is measured at a place, and which places a figure needs."""

import dataclasses

import numpy as np
import pytest

from equistrata.data.columns.cells import numbers
from equistrata.data.schema import Schema
from equistrata.data.sources import SampleSource
from equistrata.data.table import CodedTable
from equistrata.eval.scores.parity import parity_error
from equistrata.eval.scores.tables import Pair
from equistrata.synth.synthesizer import StratifiedSynthesizer
from paper import means, mixture, synthesizers
from paper.grid import MEANS, MIXTURE, SYNTHESIZERS, FigureSettings, Unit, runs_of
from paper.means import ALONE, COINPRESS, ESTIMATORS, PUBLIC, RELEASED, STRATIFIED, MeanCell
from paper.mixture import MixtureCell
from paper.mst import PaperMST
from paper.synthesizers import Cell, Line

SMALL = ("AGEP", "MAR", "SEX", "RAC1P", "ESR")


@pytest.fixture(scope="module")
def table():
    schema = Schema.load("acs_employment").select(SMALL)
    return CodedTable.encode(SampleSource().read(SMALL), schema).take(np.arange(4000))


@pytest.fixture(scope="module")
def people():
    """The columns that define strata, and the outcomes, of the sample."""
    schema = Schema.load(means.SCHEMA)
    frame = SampleSource().read([*means.CODED, *means.OUTCOMES])
    outcomes = {}
    for name in means.OUTCOMES:
        values, absent = numbers(frame[name], schema[name])
        outcomes[name] = np.where(absent, np.nan, values)
    return CodedTable.encode(frame, schema.select(means.CODED)), outcomes, schema


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
    line = synthesizers.measure(cell, table, classifiers=False)
    rng = np.random.default_rng(3)
    rows = table.take(rng.random(len(table)) < 0.8)
    synthetic = StratifiedSynthesizer(**settings, epsilon=1.0, delta=1e-9, seed=3).fit(rows).sample()
    real = rows.decode(rng)
    assert line.parity_means_sex == parity_error(Pair.of(real, synthetic, ["SEX"])).value
    assert line.parity_means_sex_rac1p == parity_error(Pair.of(real, synthetic, ["SEX", "RAC1P"])).value
    whole = parity_error(Pair.of(real, synthetic, ["SEX", "RAC1P"]), statistic="workload3").value
    assert line.parity_workload3_sex_rac1p == pytest.approx(whole, abs=1e-12)
    assert line.accuracy is line.demographic_parity_ratio is line.fnr_difference is None


def test_the_forms_differ(table):
    lines = [
        synthesizers.measure(Cell("mst", "SEX_RAC1P", form, 0.1, 0), table, classifiers=False)
        for form in ("per-stratum", "default")
    ]
    assert lines[0].parity_means_sex_rac1p != lines[1].parity_means_sex_rac1p


def test_real_rows_have_no_error_and_a_classifier(table):
    (cell,) = synthesizers.real_rows(1)
    line = synthesizers.measure(cell, table)
    assert line.parity_means_sex_rac1p == line.workload3 == line.maximum_disparity == 0.0
    assert 0.6 < line.accuracy <= 1.0


def test_mean_lines(people):
    """By hand for one place; and what is exact about the others."""
    cells = [MeanCell("WKHP", "SEX_RAC1P", name, 0.5, 1) for name in ESTIMATORS]
    lines = {line.estimator: line for line in means.measure(cells, *people)}
    table, outcomes, _ = people
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


def test_empty_strata_are_no_error(people):
    (line,) = means.measure([MeanCell("JWMNP", "SEX_RAC1P_AGEP_DIS", STRATIFIED, 0.5, 0)], *people)
    assert line.declared == 180
    assert np.isfinite(line.parity_error)


def test_mixture_errors_are_of_the_size_that_theory_says():
    """At n = 20,000: chance σ/√n ≤ 2.3/141 and noise well below it; against the rows, noise alone.

    Expected |error| of 20 tables is √(2/π) of the deviation; the limits are about three times that: a false alarm of
    under 10⁻⁶ for means of 20.
    """
    lines = mixture.measure([MixtureCell(3, 1.0, 20_000, run) for run in range(20)])
    assert np.mean([line.coinpress for line in lines]) < 0.04
    assert np.mean([line.coinpress_rows for line in lines]) < 0.005
    assert np.mean([line.stratified for line in lines]) < 0.03
    assert np.mean([line.public for line in lines]) > np.mean([line.stratified for line in lines])


def test_mixture_tables_and_noise_differ_from_place_to_place():
    lines = mixture.measure(list(mixture.grid((3, 6), (0.1, 1.0), (2000, 4000), 2)))
    for name in ("coinpress", "coinpress_rows", "stratified_rows"):
        assert len({round(getattr(line, name), 12) for line in lines}) == len(lines) == 16


def test_the_same_place_gives_the_same_line(people):
    cell = MeanCell("SCHL", "SEX", RELEASED, 0.5, 0)
    assert means.measure([cell], *people) == means.measure([cell], *people)
    place = MixtureCell(6, 0.1, 2000, 3)
    assert mixture.measure([place]) == mixture.measure([place])


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("figure", range(1, 10))
def test_no_figure_names_a_place_twice(figure, quick):
    for cells in runs_of(FigureSettings(figure=figure, quick=quick)).cells.values():
        assert len(cells) == len(set(cells))


def test_the_papers_settings():
    runs = runs_of(FigureSettings(figure=5))
    assert {cell.seed for cell in runs.cells[SYNTHESIZERS]} == set(range(5))
    assert {cell.epsilon for cell in runs.cells[SYNTHESIZERS]} == {0.01, 0.05, 0.1, 0.5, 1.0, 5.0}
    names = {cell.name for cell in runs.cells[SYNTHESIZERS]}
    assert {"AIM_vanilla", "AIM_SEX", "AIM_RAC1P", "AIM_SEX_RAC1P", "AIM_SEX_RAC1P (default)"} < names
    assert len(names) == 15
    simulated = runs_of(FigureSettings(figure=6)).cells[MIXTURE]
    assert {cell.k for cell in simulated} == {3, 6, 12}
    assert (min(cell.n for cell in simulated), max(cell.n for cell in simulated)) == (2_000, 20_000)
    assert max(cell.run for cell in simulated) == 49
    estimated = runs_of(FigureSettings(figure=8)).cells[MEANS]
    assert len(estimated) == 5 * 4 * 15 * 5
    assert {cell.outcome for cell in runs_of(FigureSettings(figure=2)).cells[MEANS]} == {"SCHL", "WKHP"}


@pytest.mark.parametrize("figure", range(1, 10))
def test_a_quick_figures_runs_are_part_of_the_whole_ones(figure):
    """So that a quick figure is a beginning of the whole one, and not time lost."""
    quick, whole = (runs_of(FigureSettings(figure=figure, quick=quick)).cells for quick in (True, False))
    assert quick.keys() == whole.keys()
    for kind, cells in quick.items():
        assert set(cells) < set(whole[kind])


def test_what_is_there_is_not_made_again():
    config = FigureSettings(figure=5, quick=True, seeds=1)
    runs = runs_of(config)
    cells = runs.cells[SYNTHESIZERS]
    others = [field.name for field in dataclasses.fields(Line)][5:]
    lines = {cell: Line(**dataclasses.asdict(cell), **dict.fromkeys(others, 1.0)) for cell in cells}
    without = {cell: dataclasses.replace(line, accuracy=None) for cell, line in lines.items()}
    assert runs.missing({SYNTHESIZERS: lines}) == runs.missing({SYNTHESIZERS: without}) == []
    assert runs.missing({SYNTHESIZERS: {}}) == [Unit(SYNTHESIZERS, (cell,)) for cell in cells]
    del without[cells[3]]
    assert runs.missing({SYNTHESIZERS: without}) == [Unit(SYNTHESIZERS, (cells[3],))]
    # A figure of classifiers wants the lines that have none made again.
    wanting = dataclasses.replace(runs, classifiers=True)
    assert wanting.missing({SYNTHESIZERS: lines}) == []
    assert len(wanting.missing({SYNTHESIZERS: without})) == len(cells)
