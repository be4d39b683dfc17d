"""Misfits of ordered columns are alike at values that are close: means of what was never measured are off by more."""

import numpy as np
import pytest

from equistrata.analysis.answers import Answers
from equistrata.analysis.uncertainty.alike import closeness, root
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.misfit import with_margins
from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.synth.measurements import Measurement
from equistrata.synth.registry import mechanism

NAMES = [f"Y{place}" for place in range(8)]


def ordered(size):
    return Column("X", values=tuple(range(size)), type="ordinal")


def test_cells_that_are_close_vary_as_normal_ones_given_their_sums():
    """By the law of normal variables given linear ones: Σ − ΣDᵀ(DΣDᵀ)⁺DΣ, with Σ of all cells written out."""
    rng = np.random.default_rng(0)
    own, common, functionals = rng.random((4, 3)) * 9, rng.random((4, 3)) * 9, rng.normal(size=(5, 12))
    one, other = closeness(ordered(4), rng.random(4)), closeness(ordered(3), rng.random(3))
    rows, columns, off = np.repeat(np.eye(4), 3, axis=1), np.tile(np.eye(3), 4), np.sqrt(common.ravel())
    for close in ((one, other), (one, None), (None, other)):
        first, second = (np.eye(n) if c is None else c for n, c in zip((4, 3), close, strict=True))
        sigma = np.diag(own.ravel()) + off[:, None] * np.kron(first, second) * off
        sums = np.concatenate([rows, columns])
        given = sigma - sigma @ sums.T @ np.linalg.pinv(sums @ sigma @ sums.T) @ sums @ sigma
        found = with_margins(functionals, own, common, close)
        assert found @ found.T == pytest.approx(functionals @ given @ functionals.T)


def test_codes_beside_numbers_and_names_are_alike_to_none():
    column = Column("AGE", lower=0, upper=40, edges=(0, 10, 20, 40), missing="own")
    close = closeness(column, np.array([5.0, 10.0, 5.0, 100.0]))
    assert close[3].tolist() == [0, 0, 0, 1]
    assert 0 < close[0, 2] < close[0, 1] < close[0, 0]
    assert root(close) @ root(close).T == pytest.approx(close)
    grouped = closeness(column, np.array([15.0, 5.0, 100.0]), (0, 0, 1, 2))
    assert grouped[2].tolist() == [0, 0, 1]
    assert closeness(Column("Y", values=(1, 2)), np.array([1.0, 1.0])) is None


@pytest.mark.parametrize("size", [3, 5, 20])
def test_a_single_value_is_off_by_as_much_as_if_values_were_independent(size):
    """Where rows' sums are known, on average over values: that is what misfits are learned as."""
    share = np.random.default_rng(size).dirichlet(np.full(size, 5.0))
    known = np.eye(size) - np.outer(np.ones(size), share)
    left = [share @ np.diag(known @ each @ known.T) for each in (np.eye(size), closeness(ordered(size), share))]
    assert left[1] == pytest.approx(left[0])


@pytest.mark.parametrize("size", [5, 20])
def test_a_trend_has_half_of_what_two_columns_have_to_do_with_each_other(size):
    """As it has in tables of a census, whether ages are in five bins or in twenty; independent cells 1/(size − 1)."""
    share, place = np.full(size, 1 / size), np.arange(size) - (size - 1) / 2
    trend, known = share * place / np.sqrt(share @ place**2), np.eye(size) - 1 / size
    left = known @ closeness(ordered(size), share) @ known
    assert trend @ left @ trend / (share @ np.diag(left)) == pytest.approx(0.54, abs=0.04)


def test_a_group_of_which_the_model_has_no_row_may_have_any_mean():
    """Its mean had been 0, below all values even, with the whole range as its interval."""
    schema = Schema("", (Column("X", values=(3, 4, 5), type="ordinal"), *(Column(n, values=(0, 1)) for n in "ABCD")))
    rng = np.random.default_rng(0)
    table = CodedTable(
        np.column_stack([rng.integers(0, 3, 900), *rng.integers(0, 2, (4, 900))]).astype(np.uint8), schema
    )
    sets = [("X",), ("X", "A"), ("X", "B"), ("X", "C")]
    noisy = [Measurement(s, table.marginal(s) + rng.normal(0, 3, table.marginal(s).shape), 3.0) for s in sets]
    noisy.append(Measurement(("D",), np.array([940.0, -40.0]), 20.0))
    older = mechanism("mst")
    found = Answers(Evidence(Strata.over(schema, ()), {(): noisy}, older), count=2).estimate("mean", "X", ["D"])
    assert found["basis"].tolist() == ["implied", "implied"]
    assert found.loc[1, ["estimate", "lower", "upper"]].tolist() == [4, 3, 5]
    assert found["estimate"][0] == pytest.approx(4, abs=0.1)


def test_means_by_columns_that_were_never_measured_with_the_number_are_covered():
    """A number of eight values and eight columns that move it, four of which were measured with it.

    96 means of 8 tables; those of a column share its misfit, so they tell as much as 32: of .91, what 240 others have,
    less than .75 is a false alarm of 10⁻³. With independent misfits it had been .64 for means and .99 for shares."""
    schema = Schema("", (ordered(8), *(Column(name, values=(0, 1, 2)) for name in NAMES)))
    means, shares = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        number = rng.choice(8, 4000, p=rng.dirichlet(np.full(8, 8.0)))
        others = []
        for _ in NAMES:
            trend = np.outer((number - 3.5) / 2.3, rng.normal(0, 0.35, 3)) + rng.normal(0, 0.2, (8, 3))[number]
            chances = np.exp(trend + rng.normal(0, 0.3, 3))
            others.append((rng.random((4000, 1)) > np.cumsum(chances / chances.sum(1)[:, None], 1)[:, :2]).sum(1))
        table = CodedTable(np.column_stack([number, *others]).astype(np.uint8), schema)
        sets = [("X",), *((name,) for name in NAMES), *(("X", name) for name in NAMES[:4])]
        noisy = [Measurement(s, table.marginal(s) + rng.normal(0, 8, table.marginal(s).shape), 8.0) for s in sets]
        answers = Answers(Evidence(Strata.over(schema, ()), {(): noisy}, mechanism("mst")), count=2)
        for name in NAMES[4:]:
            counts = table.marginal(("X", name))
            for found, real, kept in (
                (answers.estimate("mean", "X", [name]), np.arange(8) @ counts / counts.sum(0), means),
                (answers.estimate("proportion", {"X": 3}, [name]), counts[3] / counts.sum(0), shares),
            ):
                assert found["basis"].eq("implied").all()
                kept += ((found["lower"] <= real) & (real <= found["upper"])).tolist()
    assert 0.75 <= np.mean(means) <= 0.995
    assert np.mean(shares) >= 0.9
