"""Tests of the states of a series: smaller errors for a constant table, and correct variances after a change."""

import json
from dataclasses import replace

import numpy as np
import pytest

from equistrata.data.schema import Column, Impossible, Schema
from equistrata.data.strata import Strata
from equistrata.errors import InputError
from equistrata.synth.measurements import (
    FilteredMeasurement,
    FormerEstimate,
    Measurement,
    given,
    summed,
    total_estimate,
)
from equistrata.synth.series.choice import told, usable
from equistrata.synth.series.drift import DRIFT, filter_month, predicted
from equistrata.synth.series.jumps import UNLIKELY, inflate_variances
from equistrata.synth.series.state import State, by_strata, combine_strata

SCHEMA = Schema("s", tuple(Column(n, values=tuple(range(k))) for n, k in {"S": 2, "R": 5, "A": 4, "B": 3}.items()))
STRATA = ("S", "R")
SIGMA = 40.0


def counts(seed):
    rng = np.random.default_rng(seed)
    sizes = np.array([[4000.0, 1500, 600, 200, 60], [4200.0, 1400, 650, 150, 50]])
    return sizes[..., None] * rng.dirichlet(np.full(4, 3.0), size=(2, 5))


def measured(truth, rng):
    def noisy(columns, table, sigma):
        return Measurement(columns, table + rng.normal(0, sigma, table.shape), sigma)

    return [
        noisy(("S", "R", "A"), truth, SIGMA),
        noisy(("S", "R"), truth.sum(2), SIGMA),
        noisy(("A",), truth.sum((0, 1)), 2 * SIGMA),
    ]


def course(seed, months=8, change=lambda month, truth: truth):
    """Yield the month, the true counts, the measurements and the filtered values. Rows are added
    and removed at random.
    """
    rng, truth, state = np.random.default_rng([1, seed]), counts(seed), None
    for month in range(1, months + 1):
        if month > 1:
            truth = np.maximum(truth + rng.normal(0, 1, truth.shape) * np.sqrt(0.06 * truth), 0.0)
        truth = change(month, truth)
        own = measured(truth, rng)
        if state is None:
            state = State.of(month, own)
            yield month, truth, own, own
        else:
            found = filter_month(STRATA, state, month, own)
            state = found.state
            yield month, truth, own, list(found.measured)


def errors(each, truth, place=...):
    return float(np.square(each.values - truth)[place].sum())


def test_steady_counts_gain_about_as_much_as_averaging_would():
    ratios = []
    for seed in range(20):
        *_, (_, truth, own, joined) = course(seed)
        ratios.append(errors(joined[0], truth) / errors(own[0], truth))
    assert 0.08 < np.mean(ratios) < 0.3  # an eighth, and the part that is due to the drift


def test_variances_are_honest():
    """The mean ratio of squares to variances in 40 cells × 30 runs of 8 months is 1 ± 0.04, so 0.25 is not due to
    chance.
    """
    for change in (lambda month, truth: truth, tripled):
        squares = []
        for seed in range(30):
            for month, truth, _, joined in course(seed, change=change):
                if month > 1:
                    squares.append(np.square((joined[0].values - truth) / joined[0].cell_sigma).mean())
        assert 0.75 < np.mean(squares) < 1.25


def tripled(month, truth):
    return truth * np.where(np.arange(5) == 2, 3.0, 1.0)[:, None] if month == 6 else truth


def shocked(month, truth):
    if month != 6:
        return truth
    moved = 0.5 * truth[..., 0]
    return np.stack([truth[..., 0] - moved, truth[..., 1] + moved, truth[..., 2], truth[..., 3]], axis=-1)


def mixed(month, truth):
    return truth[..., ::-1] if month == 6 else truth


@pytest.mark.parametrize("change", [tripled, shocked, mixed])
def test_what_jumps_is_believed_within_one_release(change):
    mine, theirs = 0.0, 0.0
    for seed in range(20):
        for month, truth, own, joined in course(seed, change=change):
            if month == 6:
                mine, theirs = mine + errors(joined[0], truth), theirs + errors(own[0], truth)
    assert mine < 1.1 * theirs


def test_only_the_part_that_moved_is_doubted():
    apart = np.zeros((3, 4))
    apart[1] = 100.0
    found = inflate_variances(apart, np.full((3, 4), 4.0), np.full((3, 4), 9.0))
    assert (found[1] >= 100.0**2 - 9).all()
    assert (found[[0, 2]] == 4.0).sum() < 8  # the mean change of the whole table is also included
    assert found[0].max() < found[1].min()


def test_noise_alone_seldom_moves_a_marginal_whatever_its_parts():
    """The test uses 2,000 marginals with 180 parts. The expected number of alarms is 6, and the probability of 30 or
    more is 10⁻¹¹.
    """
    rng, shape = np.random.default_rng(5), (5, 2, 9)
    alarms = sum(
        (inflate_variances(rng.normal(0, 5.0, shape), np.full(shape, 16.0), np.full(shape, 9.0)) > 16).any()
        for _ in range(2000)
    )
    assert alarms < 5 * UNLIKELY * 2000


def test_former_counts_drift_with_the_months_between():
    state = State.of(3, [Measurement(("A",), np.full(4, 1000.0), 10.0)])
    for month in (4, 7):
        (each,) = predicted(state, month, ())
        assert each.sigmas**2 == pytest.approx(100 + (month - 3) * DRIFT * 1000)


def test_a_drift_that_is_seen_is_allowed_for():
    def moving(month, truth):
        rng = np.random.default_rng(month)
        return np.maximum(truth + rng.normal(0, 1, truth.shape) * np.sqrt(3 * truth), 0.0)

    squares = []
    for seed in range(20):
        *_, (_, truth, _, joined) = course(seed, 12, moving)
        squares.append(np.square((joined[0].values - truth) / joined[0].cell_sigma).mean())
    assert np.mean(squares) < 1.6


def test_a_state_is_kept_as_readable_json(tmp_path):
    *_, (_, _, own, _) = course(0, 2)
    state = filter_month(STRATA, State.of(1, own), 2, own).state
    state.save(tmp_path / "series.json")
    again = State.load(tmp_path / "series.json")
    assert (again.month, again.moments) == (2, state.moments)
    for one, two in zip(state.known, again.known, strict=True):
        assert (one.columns, one.groups, one.where) == (two.columns, two.groups, two.where)
        assert (one.values == two.values).all()
        assert (one.sigmas == two.sigmas).all()
    (tmp_path / "series.json").write_text('{"format": "equistrata series 1"}')
    with pytest.raises(
        InputError, match=r"\.json.* (is not the state of a series|cannot be read|lacks|has|is no mapping)"
    ):
        State.load(tmp_path / "series.json")


A = {"columns": ["A"], "groups": [None], "where": {}, "shape": [4], "values": [1.0] * 4, "sigmas": [2.0] * 4}


@pytest.mark.parametrize(
    "changed",
    [
        {"month": 0},
        {"month": -5},
        {"month": 1.5},
        {"month": True},
        {"month": "1"},
        {"drift": {"all rows": [float("nan"), 1.0]}},
        {"drift": {"all rows": [1.0, -2.0]}},
        {"drift": {"all rows": [1.0, 1e300]}},
        {"known": [A, A]},
        {"known": [A | {"values": [1.0, float("nan"), 1.0, 1.0]}]},
        {"known": [A | {"values": [1.0, None, 1.0, 1.0]}]},
        {"known": [A | {"values": [1e300] * 4}]},
        {"known": [A | {"sigmas": [1e-300] * 4}]},
        {"known": [A | {"shape": [-1]}]},
        {"known": [A | {"shape": [5]}]},
        {"known": [A | {"groups": [[-1, 0, 1, 1]]}]},
        {"known": [A | {"groups": [[3, 3, 0, 0]]}]},
        {"known": [A | {"columns": ["A", "A"], "groups": [None, None], "shape": [2, 2]}]},
        {"known": [A | {"where": {"A": 0}}]},
        {"known": [A | {"values": [10**400] * 4}]},
    ],
    ids=str,
)
def test_a_state_that_no_filter_can_have_made_is_refused(tmp_path, changed):
    """If this state is used, the next month would fail or would have large errors, although it is charged."""
    path = tmp_path / "series.json"
    honest = State.of(1, [Measurement(("A",), np.ones(4), 2.0)]).plain
    path.write_text(json.dumps(honest))
    assert State.load(path).month == 1
    path.write_text(json.dumps(honest | changed))
    with pytest.raises(
        InputError, match=r"\.json.* (is not the state of a series|cannot be read|lacks|has|is no mapping)"
    ):
        State.load(path)


def test_a_state_of_lists_without_end_is_refused(tmp_path):
    (tmp_path / "series.json").write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises(
        InputError, match=r"\.json.* (is not the state of a series|cannot be read|lacks|has|is no mapping)"
    ):
        State.load(tmp_path / "series.json")


def test_a_changed_column_is_believed_at_once():
    *_, (_, _, own, _) = course(0, 1)
    state = State.of(1, own)

    def left(schema, strata):
        return [each.columns for each in state.fitting(Strata.over(schema, strata), SCHEMA).known]

    new = Schema("s", tuple(Column(c.name, values=(0, 1, 2, 9)) if c.name == "A" else c for c in SCHEMA.columns))
    assert left(new, STRATA) == [("S", "R")]
    assert left(Schema("s", SCHEMA.columns[1:]), ("R",)) == [("A",)]
    assert len(left(SCHEMA, STRATA)) == 3


def test_as_many_bins_as_before_that_end_elsewhere_are_believed_at_once():
    """The bins of releases before 2026-11-26 have the same number but are shifted by half a bin."""
    pay = Column("PAY", lower=0, upper=1_000_000, integer=True, scale=None)
    rounded, refused = replace(pay, scale="rounded"), replace(pay, codes=((-9, "refused"),))
    unknown = replace(pay, codes=((-8, "unknown"),))
    assert (pay.size, refused.size) == (rounded.size, unknown.size)
    for before, now in ((pay, rounded), (refused, unknown), (pay, pay), (refused, refused)):
        state = State.of(1, [Measurement(("PAY",), np.ones(before.size), 1.0)])
        left = state.fitting(Strata.over(Schema("s", (now,)), ()), Schema("s", (before,)))
        assert bool(left.known) == (before is now)


def test_a_column_of_which_a_state_has_other_bins_than_its_schema_says_is_believed_at_once():
    """The bins of another version can be different. The counts of the other columns can still be used."""
    rate = Column("RATE", lower=0, upper=0.2, edges=(0, 0.1, 0.2))
    schema = Schema("s", (rate, *SCHEMA.columns))
    own = [Measurement(("RATE",), np.ones(3), 1.0), Measurement(("A",), np.ones(4), 1.0)]
    own.append(Measurement(("A", "RATE"), np.ones((4, 1)), 1.0, (None, (0, 0))))
    state = State.of(1, own)
    assert state.alike(schema, schema) == list(SCHEMA.names)
    assert [each.columns for each in state.fitting(Strata.over(schema, ()), schema).known] == [("A",)]
    assert replace(state, known=state.known[1:]).alike(schema, schema) == list(schema.names)


def test_what_is_known_of_a_stratum_is_left_out_where_that_is_none():
    *_, (_, _, own, _) = course(0, 1)
    part = Measurement(("A",), np.ones(4), 1.0, where=(("S", 0), ("R", 2)))
    state = State.of(1, [*own, part])
    empty = replace(SCHEMA, impossible=(Impossible(("S", "R"), ((0,), (2,))),))
    for schema, strata, kept in ((SCHEMA, ("R", "S"), 4), (SCHEMA, ("S",), 3), (SCHEMA, (), 3), (empty, STRATA, 3)):
        assert len(state.fitting(Strata.over(schema, strata), SCHEMA).known) == kept


def test_what_is_known_keeps_its_own_variances_in_slices_and_sums():
    sigmas = np.array([[1.0, 2.0], [3.0, 4.0]])
    for kind in (FormerEstimate, FilteredMeasurement):
        each = kind(("S", "B"), np.array([[10.0, 20.0], [30.0, 40.0]]), 2.7, sigmas=sigmas)
        part = given(each, {"S": 1})
        assert (part.columns, part.values.tolist(), part.cell_sigma.tolist()) == (("B",), [30.0, 40.0], [3.0, 4.0])
        assert part.sigma == pytest.approx(12.5**0.5)
        whole = summed(each, ("S",))
        assert whole.cell_sigma == pytest.approx(np.sqrt([5.0, 25.0]))
    former = FormerEstimate(("S",), np.array([10.0, 20.0]), 1.0, sigmas=np.ones(2))
    assert total_estimate([former, Measurement((), np.array(50.0), 1.0)]) == (50.0, 1.0)


def test_strata_that_were_measured_by_themselves_come_back_to_their_place():
    strata = Strata.over(SCHEMA, STRATA)
    own = {key: [Measurement(("A",), np.full(4, float(place)), 1.0)] for place, key in enumerate(strata.keys)}
    flat = combine_strata(strata, own)
    assert {each.where for each in flat} == {tuple(strata.codes_of(key).items()) for key in strata.keys}
    back = by_strata(strata, flat, own)
    assert all((back[key][0].values == own[key][0].values).all() and not back[key][0].where for key in own)


def test_a_relation_is_used_if_it_says_more_than_its_columns_and_fits_the_model():
    related = np.outer([300.0, 200, 100, 50], [1.0, 1, 1])
    related[0] *= [2.0, 0.5, 0.5]
    plain = np.outer([300.0, 200, 100, 50], [0.2, 0.3, 0.5])

    def pair(values):
        return FormerEstimate(("A", "B"), values, 5.0, sigmas=np.full(values.shape, 5.0))

    assert told(pair(related), STRATA) > 0 > told(pair(plain), STRATA)
    assert len(usable(SCHEMA, STRATA, [], [pair(related)])) == 1
    assert usable(SCHEMA, STRATA, [], [pair(plain)]) == []
