"""The law of how unlike groups may be where nothing was measured by group."""

import numpy as np
import pytest
from known_relations import SCHEMA, people

from equistrata.analysis.answers import Answers
from equistrata.analysis.bases.unlike import SPREADS, USUAL, relative_variance, spread_law, stratum_column
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.heterogeneity import likely_sizes
from equistrata.analysis.uncertainty.misfit import misfit_variance
from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.synth.measurements import Measurement
from equistrata.synth.registry import mechanism

ALONE = [("G",), ("R",), ("X",), ("Y",), ("Z",), ("W",), ("G", "R")]


def measured(table, sets, strata=("G", "R"), sigma=20.0, seed=0):
    rng = np.random.default_rng(seed)
    found = [Measurement(s, table.marginal(s) + rng.normal(0, sigma, table.marginal(s).shape), sigma) for s in sets]
    return Evidence(Strata.over(table.schema, strata), {(): found}, mechanism("mst"))


def median(law):
    return SPREADS[np.searchsorted(np.cumsum(law), 0.5)]


def test_without_a_measured_pair_the_law_is_the_usual_one():
    law = spread_law(measured(people(5000), ALONE), "G")
    assert law.sum() == pytest.approx(1)
    assert USUAL / 1.6 <= median(law) <= 1.6 * USUAL  # two steps of the grid


def test_measured_pairs_of_a_stratum_column_say_how_unlike_its_groups_are_in_others():
    """X depends on G, W does not: what is not measured by G is expected to differ more in the first case."""
    table = people(60_000)
    codes = np.array(table.codes)
    codes[:, 2] = np.where(np.random.default_rng(1).random(len(codes)) < 0.6, 3 * codes[:, 0], codes[:, 2])
    table = CodedTable(codes, SCHEMA)
    usual, far, near = (spread_law(measured(table, [*ALONE, *more]), "G") for more in ([], [("G", "X")], [("G", "W")]))
    assert median(far) > 3 * median(usual)
    assert median(near) < 0.6 * median(usual)
    assert median(spread_law(measured(table, [*ALONE, ("G", "X")]), "R")) == median(usual)


def test_an_interval_is_as_wide_as_the_mixture_of_all_sizes_and_spreads():
    """Against 400,000 draws: the 0.95-quantile has a standard error below 1 %, so 4 % is a false alarm of 10⁻⁴."""
    rng, law = np.random.default_rng(0), spread_law(measured(people(5000), ALONE), "G")
    for size, sigma in ((3000.0, 5.0), (150.0, 100.0), (-20.0, 60.0)):
        rows, chance = likely_sizes(size, sigma)
        drawn = 1 / rng.choice(rows, 400_000, p=chance) + rng.choice(SPREADS, 400_000, p=law)
        far = np.quantile(np.abs(rng.normal(0, np.sqrt(np.minimum(drawn, 1.0)))), 0.95)
        found = relative_variance(law, np.array([size]), np.array([sigma]), 0.95)
        assert 1.96 * np.sqrt(found[0]) == pytest.approx(far, rel=0.04)


def test_the_law_has_heavier_tails_than_a_normal_one():
    law = spread_law(measured(people(5000), ALONE), "G")
    usual, far = (relative_variance(law, np.array([1e6]), np.array([0.0]), level)[0] for level in (0.5, 0.999))
    assert far > 10 * usual


def test_only_a_stratum_column_of_names_has_groups():
    evidence = measured(people(1000), ALONE, strata=("G", "X"))
    found = [stratum_column(evidence, pair) for pair in (("G", "Y"), ("X", "Y"), ("G", "X"), ("Y", "Z"))]
    assert found == ["G", None, None, None]  # X is ordinal


@pytest.mark.slow
def test_groups_that_differ_by_little_are_covered_by_narrower_intervals_than_those_of_pairs():
    """Fifteen columns of two codes, in four groups; log τ² with a standard deviation of 1.7 about the usual one.

    1,200 intervals of 20 tables, of which the four of a column share τ²: less than 0.91 is a false alarm of 10⁻³."""
    names = [f"C{place}" for place in range(15)]
    schema = Schema("", (Column("G", values=("a", "b", "c", "d")), *(Column(name, values=(0, 1)) for name in names)))
    inside, widths, former = [], [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        group = rng.choice(4, 4000, p=[0.4, 0.3, 0.2, 0.1])
        columns = []
        for _ in names:
            share, spread = rng.uniform(0.2, 0.8), USUAL * np.exp(1.7 * rng.normal())
            shares = np.clip(share + np.sqrt(spread * share * (1 - share)) * rng.normal(size=4), 0.01, 0.99)
            columns.append(rng.random(4000) < shares[group])
        table = CodedTable(np.column_stack([group, *columns]).astype(np.uint8), schema)
        answers = Answers(measured(table, [("G",), *((name,) for name in names)], ("G",), 15.0, seed), count=3)
        for name in names:
            counts = table.marginal(("G", name))
            found = answers.estimate("proportion", {name: 1}, ["G"])
            assert found["basis"].eq("implied").all()
            real = counts[:, 1] / counts.sum(1)
            inside += ((found["lower"] <= real) & (found["upper"] >= real)).to_numpy().tolist()
            widths.append((found["upper"] - found["lower"]).mean())
            model = answers.evidence.model.marginal(("G", name))
            former.append(np.sqrt(misfit_variance(model, answers.misfit * model.sum())[:, 1]) / model.sum(1))
    assert 0.91 <= np.mean(inside) <= 0.99
    assert np.median(widths) < 2 * np.median(former)


def test_ages_by_marital_status_are_covered_and_their_means_refused():
    """The ages of New York's married, divorced and never married, of which a release measured none by status.

    150 intervals of ten tables, of which the five of a status share noise: less than 0.85 is a false alarm of 10⁻³. By
    the law of columns of names it had been .4; the means, as if errors of ages were independent, .04."""
    ages = np.array([[0.01, 0.16, 0.33, 0.30, 0.20], [0.01, 0.08, 0.27, 0.40, 0.24], [0.51, 0.28, 0.11, 0.06, 0.04]])
    columns = (Column("S", values=("m", "d", "n")), Column("AGE", values=(0, 1, 2, 3, 4), type="ordinal"))
    schema, inside = Schema("", columns), []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        status = rng.choice(3, 4000, p=[0.42, 0.13, 0.45])
        age = (rng.random((4000, 1)) > np.cumsum(ages, axis=1)[status][:, :4]).sum(1)
        table = CodedTable(np.column_stack([status, age]).astype(np.uint8), schema)
        answers = Answers(measured(table, [("S",), ("AGE",)], ("S",), 40.0, seed), count=3)
        found = answers.estimate("proportion", "AGE", ["S"])
        real = (table.marginal(("S", "AGE")) / table.marginal(("S",))[:, None]).T.ravel()
        inside += ((found["lower"] <= real) & (found["upper"] >= real)).tolist()
    assert np.mean(inside) >= 0.85
    with pytest.raises(InputError, match=r"never measured S with AGE.* means of these groups.* ask for each"):
        answers.estimate("mean", "AGE", ["S"])
    assert answers.estimate("mean", "AGE")["basis"].tolist() == ["measured"]
