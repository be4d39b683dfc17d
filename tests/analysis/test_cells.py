"""Tests of the intervals of measured cells and of the flag for cells that are mostly noise."""

from dataclasses import replace

import numpy as np
import pytest
from known_relations import SCHEMA, evidence_of, people

from equistrata.analysis import cells
from equistrata.analysis.answers import Answers
from equistrata.analysis.cells import CELLS, CellEstimates, kept_relations, noisy_cells, relation_errors
from equistrata.analysis.release import Release
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.least_squares import LeastSquares
from equistrata.data.schema import Column, Schema
from equistrata.data.sources import read_frame
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.data.units.unit import Unit
from equistrata.stats.distributions import NOISE_L1
from equistrata.synth.measurements import Measurement
from equistrata.synth.registry import mechanism


def counted(table, found):
    """Return the true count of each cell."""
    codes, real = table.codes, []
    for line in found.to_dict("records"):
        names = line["columns"].split(" × ")
        inside = np.ones(len(table), dtype=bool)
        for name in names:
            column = SCHEMA[name]
            inside &= codes[:, SCHEMA.names.index(name)] == list(column.keys).index(line[name])
        real.append(inside.sum())
    return np.array(real)


@pytest.mark.parametrize(("strata", "name", "releases"), [((), "mst", 3), (("G", "R"), "mst", 3), (("G",), "gem", 2)])
def test_intervals_hold_the_counts_and_noise_is_marked(strata, name, releases):
    """Check the coverage of the intervals for about 300 cells, which must be between 90 and 99 %. The cells of a
    release share noise.
    """
    inside, marked = [], []
    for seed in range(releases):
        table = people(3000, seed)
        found = noisy_cells(evidence_of(table, 1.0, strata, name=name, seed=seed))
        real = counted(table, found)
        inside += ((found["lower"] - 0.1 <= real) & (real <= found["upper"] + 0.1)).tolist()
        assert not found.duplicated(["columns", *SCHEMA.names]).any()
        noise = (found["lower"] <= 0) | (found["upper"] - found["lower"] > found["estimate"])
        assert (noise == found["noise"]).all()
        marked.append(found["noise"].mean())
        assert {len(each.split(" × ")) for each in found["columns"]} >= ({1 + len(strata)} if strata else {1, 2})
    assert 0.9 <= np.mean(inside) <= 0.99
    assert 0 < np.mean(marked) < 0.9


def test_large_marginals_are_left_out_and_small_ones_come_first(monkeypatch):
    evidence = evidence_of(people(2000), 1.0)
    whole = noisy_cells(evidence)
    monkeypatch.setattr(cells, "MOST_WORK", 4**3 + 3 * 2**3 + 2 * 3**3)
    few = noisy_cells(evidence)
    assert set(few["columns"]) == set(SCHEMA.names)
    assert len(few) < len(whole)


def test_a_release_has_the_companion_of_its_rows(folder):
    found, own = read_frame(folder / CELLS), Release.open(folder).cells()
    assert found["columns"].tolist() == own["columns"].tolist()
    assert np.allclose(found["estimate"].astype(float), own["estimate"], atol=0.11)
    assert "`cells.csv`" in (folder / "card.md").read_text("utf-8")


def test_relations_of_numbers_with_bounds_alone_count_by_the_groups_in_which_they_were_measured():
    schema = Schema("aged", (*SCHEMA.columns[:2], Column("AGE", lower=0, upper=99, integer=True)))
    halves, quarters = (tuple(i // n for i in range(100)) for n in (50, 25))
    found = [
        Measurement(("G", "AGE"), np.full((2, 2), 1000.0), 10.0, (None, halves)),
        Measurement(("R", "AGE"), np.full((3, 4), 2000.0 / 6), 20.0, (None, quarters)),
    ]
    kept = {tuple(each["columns"]): each for each in
            relation_errors(Evidence(Strata.over(schema, ("G",)), {(): found}, mechanism("mst")))}  # fmt: skip
    assert set(kept) == {("G", "AGE"), ("R", "AGE")}
    assert 4 * 10 * NOISE_L1 / 2 / 4000 > kept["G", "AGE"]["error"] > 0.8 * 4 * 10 * NOISE_L1 / 2 / 4000
    assert 12 * 20 * NOISE_L1 / 2 / 4000 > kept["R", "AGE"]["error"] > 0.8 * 12 * 20 * NOISE_L1 / 2 / 4000


def test_the_noise_of_kept_relations_is_as_far_as_counts_are_off():
    """Compare the expected error with the mean distance over 60 draws of the noise.

    The standard error of the mean is 2 %, and the tolerance is 10 %.
    """
    table, rng = people(4000), np.random.default_rng(3)
    sets = {("G", "Y"): 30.0, ("R", "X"): 20.0, ("G", "R", "Y"): 25.0}
    strata, real = Strata.over(SCHEMA, ("G",)), table.marginal(("G", "R", "Y")).astype(float)

    def evidence(noisy):
        values = {s: table.marginal(s) + noisy * rng.normal(0, v, table.marginal(s).shape) for s, v in sets.items()}
        found = [Measurement(s, each, sets[s]) for s, each in values.items()]
        return Evidence(strata, {(): found}, mechanism("mst"))

    kept = {tuple(each["columns"]): each for each in relation_errors(evidence(0))}
    assert set(kept) == {("G", "R"), ("G", "Y"), ("R", "X"), ("R", "Y")}
    over_all = []
    for _ in range(60):
        table_ = LeastSquares.of(SCHEMA, evidence(1).all, ("G", "R", "Y"))
        counts = table_.counts([m.values for m in evidence(1).all]).reshape(real.shape)
        over_all.append(np.abs(counts.sum(0) - real.sum(0)).sum() / 2 / 4000)
    assert kept["R", "Y"]["error"] == pytest.approx(np.mean(over_all), rel=0.1)


def test_rows_held_out_are_part_of_how_far_relations_are_off():
    """Compare the expected error with the mean distance over 200 random subsets of the rows.

    The standard error of the mean is 2 %, and the tolerance is 10 %.
    """
    table, rng, sets = people(4000), np.random.default_rng(3), [("G", "Y"), ("R", "X")]
    distances, expected = [], None
    for _ in range(200):
        kept = table.take(rng.random(len(table)) < 0.75)
        found = [Measurement(s, kept.marginal(s).astype(float), 1e-3) for s in sets]
        if expected is None:
            evidence = Evidence(Strata.over(SCHEMA, ()), {(): found}, mechanism("mst"), held_out=0.25)
            expected = [each["error"] for each in relation_errors(evidence)]
        distances.append([np.abs(kept.marginal(s) / len(kept) - table.marginal(s) / 4000).sum() / 2 for s in sets])
    assert np.mean(distances, 0) == pytest.approx(expected, rel=0.1)


def test_counts_of_all_rows_use_the_strata_that_were_measured_one_by_one(monkeypatch):
    """The noise scale is 90 for all rows and 10 for each of the two strata. The standard deviation of a cell is
    therefore 14.

    The test also checks that each table is solved only once.
    """
    table = people(3000)
    sets = [Measurement(s, table.marginal(s).astype(float), 90.0) for s in (("G",), ("Y",), ("X", "Y"))]
    parts = table.marginal(("G", "X", "Y")).astype(float)
    sets += [Measurement(("X", "Y"), parts[code], 10.0, where=(("G", code),)) for code in (0, 1)]
    evidence, asked, of = Evidence(Strata.over(SCHEMA, ("G",)), {(): sets}, mechanism("mst")), [], LeastSquares.of
    monkeypatch.setattr(LeastSquares, "of", lambda *each: asked.append(each[-1]) or of(*each))
    solved = CellEstimates.of(evidence)
    found, kept = noisy_cells(evidence, solved=solved), relation_errors(evidence, solved)
    assert len(asked) == len(set(asked))
    pair = found[found["columns"] == "X × Y"]
    expected = (1 / 90**2 + 1 / 200) ** -0.5
    assert ((pair["upper"] - pair["estimate"]) / 1.96).median() == pytest.approx(expected, rel=0.02)
    (relation,) = (each for each in kept if each["columns"] == ["X", "Y"])
    assert relation["error"] == pytest.approx(8 * expected * NOISE_L1 / 2 / 3000, rel=0.02)
    assert kept == relation_errors(evidence)
    before = CellEstimates(SCHEMA, evidence.all, ("G",), apart=False)
    assert (noisy_cells(evidence, solved=before)["upper"] - found["upper"]).max() > 10
    assert relation_errors(evidence, before)[-1]["error"] > 4 * relation["error"]


def test_rows_of_a_unit_are_held_out_together():
    """The variance of a count of the remaining rows is four times larger if each unit has four rows."""
    rows = 40_000.0
    half = {}
    for at_most in (1, 4):
        unit = Unit() if at_most == 1 else Unit("HOME", at_most)
        schema = Schema("s", (Column("A", values=(0, 1)),), unit=unit)
        measured = {(): [Measurement(("A",), np.array([rows, rows]), 1e-3)]}
        found = noisy_cells(Evidence(Strata.over(schema, []), measured, mechanism("mst"), held_out=0.2))
        half[at_most] = float(found["upper"][0] - found["lower"][0]) / 2
    assert half[1] == pytest.approx(1.96 * (0.2 * rows) ** 0.5 / 0.8, rel=1e-3)
    assert half[4] == pytest.approx(2 * half[1], rel=1e-3)


def test_what_noise_made_less_than_nothing_may_be_more_than_nothing():
    """Regression test: the interval of a negative count was from 0 to 0."""
    schema = Schema.from_dict({"columns": {"SEX": {"values": [1, 2]}}}, "people")
    known = [Measurement(("SEX",), np.array([-80.0, 500.0]), 20.0)]
    answers = Answers(Evidence(Strata.over(schema, []), {(): known}, mechanism("mst")))
    answer = answers.estimate("count", None, ["SEX"])
    assert answer["estimate"].tolist() == [-80.0, 500.0]
    assert answer["lower"].tolist() == pytest.approx([0.0, 500 - 1.96 * 20], abs=0.1)
    assert answer["upper"].tolist() == pytest.approx([16.0, 500 + 1.96 * 20], abs=0.1)
    cells = noisy_cells(answers.evidence)
    assert cells["upper"].tolist() == pytest.approx([16.0, 500 + 1.96 * 20], abs=0.1)


TESTED = Schema.from_dict({"columns": {"G": {"values": ["a", "b", "c", "d"]}, "POS": {"values": ["no", "yes"]}}})
TRUE, FLAT = (0.13, 0.09, 0.04, 0.04), (0.05, 0.05, 0.05, 0.05)


def rows_with(positive, shares=(0.25,) * 4, rows=8000):
    """Return rows of four groups with the given shares of positive rows."""
    counts = [[round(rows * part * (1 - p)), round(rows * part * p)] for part, p in zip(shares, positive, strict=True)]
    codes = [(group, pos) for group, of in enumerate(counts) for pos, many in enumerate(of) for _ in range(many)]
    return CodedTable(np.array(codes, dtype=np.uint8), TESTED)


def kept_of(measured, released, sigma=10.0, by=(), seed=0):
    """Return True if the relation of groups and tests is kept. If `by` contains G, each group is
    measured separately.
    """
    rng, counts = np.random.default_rng(seed), measured.marginal(("G", "POS")).astype(float)
    noisy = counts + rng.normal(0, sigma, counts.shape)
    found = {(): [Measurement(("POS", "G"), noisy.T, sigma)]}
    strata = Strata.over(TESTED, by)
    if by:
        found = {key: [Measurement(("POS",), noisy[place], sigma)] for place, key in enumerate(strata.keys)}
    return kept_relations(Evidence(strata, found, mechanism("mst")), released) == [("G", "POS")]


@pytest.mark.parametrize("by", [(), ("G",)])
@pytest.mark.parametrize(
    ("measured", "released", "sigma", "kept"),
    [
        (TRUE, TRUE, 10.0, True),
        (TRUE, FLAT, 10.0, False),  # a regression test: the card called it kept
        (TRUE, (0.055, 0.052, 0.049, 0.049), 10.0, False),  # a tenth of the relation is left
        (TRUE, (0.04, 0.04, 0.09, 0.13), 10.0, False),  # the relation is reversed
        (TRUE, TRUE, 300.0, False),  # the relation is smaller than the noise
        (FLAT, FLAT, 10.0, False),
        (FLAT, TRUE, 10.0, False),
    ],
)
def test_a_relation_is_kept_if_it_was_measured_above_its_noise_and_is_in_the_rows(measured, released, sigma, by, kept):
    assert kept_of(rows_with(measured), rows_with(released), sigma, by) is kept


def test_rows_by_other_weights_keep_a_relation():
    """Public weights change the number of rows in each group but not the distribution within a group."""
    assert kept_of(rows_with(TRUE), rows_with(TRUE, (0.02, 0.02, 0.48, 0.48)))


def test_independent_columns_are_seldom_called_a_relation():
    """The test has level .05 and the sampling error is as large as the noise.

    The expected number of rejections in 400 tables is 20, with a standard deviation of 4.4.
    """
    rng, seen = np.random.default_rng(0), 0
    for seed in range(400):
        codes = np.column_stack([rng.choice(4, 3000, p=(0.7, 0.2, 0.05, 0.05)), rng.random(3000) < 0.1])
        table = CodedTable(codes.astype(np.uint8), TESTED)
        seen += kept_of(table, table, 10.0, seed=seed)
    assert seen <= 35


def test_relations_of_numbers_are_kept_in_the_groups_in_which_they_were_measured():
    schema = Schema("aged", (*SCHEMA.columns[:1], Column("AGE", lower=0, upper=99, integer=True)))
    halves, rng = tuple(i // 50 for i in range(100)), np.random.default_rng(0)
    group = rng.integers(0, 2, 4000)
    ages = np.where(rng.random(4000) < np.where(group, 0.7, 0.3), 25, 75)
    table = CodedTable(np.column_stack([group, ages]).astype(np.uint8), schema)
    found = Measurement(("AGE", "G"), np.zeros((2, 2)), 10.0, (halves, None))
    found = replace(found, values=found.merged(table.marginal(("AGE", "G"))).astype(float))
    evidence = Evidence(Strata.over(schema, ()), {(): [found]}, mechanism("mst"))
    assert kept_relations(evidence, table) == [("G", "AGE")]
    assert kept_relations(evidence, table.take(rng.integers(0, 4000, 0))) == []
    alone = CodedTable(np.column_stack([rng.permutation(group), ages]).astype(np.uint8), schema)
    assert kept_relations(evidence, alone) == []
