"""Tests of estimates from several holders: comparison with the pooled rows, missing holders and attempts at refutation.

The noise has a seed.
"""

import math
import sys
from functools import reduce

import numpy as np
import pandas as pd
import pytest
from estimators import private_difference
from holders import EFFECT, plan, tables
from no_noise import ForbiddenNoise
from refutation import HalvedNoise, empirical_epsilon
from scipy.stats import binom

from equistrata.errors import InputError
from equistrata.inference.federated import protocol
from equistrata.inference.federated.aggregation import InProcessAggregator, SumQuestion, Total
from equistrata.inference.federated.estimate import TooManyRowsMissing, federate
from equistrata.inference.federated.holder import TableHolder, _used
from equistrata.privacy.noise import SeededNoise


def aggregator(agreed, frames, seed=0, noise=None, **settings):
    return InProcessAggregator(
        [TableHolder(agreed, frame, noise or SeededNoise(1000 * seed + place)) for place, frame in enumerate(frames)],
        **settings,
    )


def pooled(frames, sex=None, new=None):
    rows = pd.concat(frames)
    if sex is not None:
        rows = rows[rows["SEX"] == sex]
    return (rows if new is None else rows[rows["NEW"] == new])["DAYS"].to_numpy()


def test_estimates_are_those_of_the_pooled_rows():
    """The tolerance for each mean and each difference is 4.5 standard deviations of the noise. The probability of a
    false alarm is about 10⁻⁵ for each of them.
    """
    frames, agreed = tables(3, 6000), plan(trials=1024)
    found = federate(agreed, aggregator(agreed, frames))
    assert [stratum.label for stratum in found.strata] == ["SEX=1", "SEX=2"]
    for sex, stratum in zip((1, 2), found.strata, strict=True):
        for new, part in ((0, "control"), (1, "treated")):
            exact = pooled(frames, sex, new)
            noise = agreed.arm_settings([len(exact)] * 4)[0].mean.noise(len(exact))
            assert stratum.rows[part] == len(exact)
            assert stratum.means[part].value == pytest.approx(exact.mean(), abs=4.5 * math.sqrt(noise))
        difference = pooled(frames, sex, 1).mean() - pooled(frames, sex, 0).mean()
        assert stratum.difference.value == pytest.approx(difference, abs=4.5 * math.sqrt(2 * noise))
        assert stratum.difference.lower < EFFECT < stratum.difference.upper
    assert found.overall.rows == {part: sum(s.rows[part] for s in found.strata) for part in ("control", "treated")}
    for new, part in ((0, "control"), (1, "treated")):
        assert found.overall.means[part].value == pytest.approx(pooled(frames, None, new).mean(), abs=0.1)
    shares = [sum(s.rows.values()) / 18_000 for s in found.strata]
    expected = sum(share * s.difference.value for share, s in zip(shares, found.strata, strict=True))
    assert found.overall.difference.value == pytest.approx(expected)
    assert found.overall.difference.half_width < min(s.difference.half_width for s in found.strata)
    assert (found.holders, found.stayed, found.simulated, found.relation) == (
        3,
        3,
        True,
        "replace-one within a stratum",
    )


def test_one_stratum_of_two_arms_is_the_private_difference():
    frames, agreed = tables(3, 1000), plan(strata=())
    found = federate(agreed, aggregator(agreed, frames))
    alone = private_difference(
        pooled(frames, None, 1) - 5, pooled(frames, None, 0) - 5, radius=5, epsilon=1, delta=1e-6, trials=64,
        level=0.95, noise=SeededNoise(9),
    )  # fmt: skip
    assert found.strata[0].difference.half_width == pytest.approx((alone.upper - alone.lower) / 2, rel=0.1)
    assert found.strata[0].difference == found.overall.difference


def test_means_only():
    frames, agreed = tables(3, 2000), plan(arm=None, treated=None, control=None)
    found = federate(agreed, aggregator(agreed, frames))
    assert found.strata[0].difference is None
    assert found.overall.difference is None
    assert found.overall.means["all"].lower < pooled(frames).mean() < found.overall.means["all"].upper


@pytest.mark.slow
def test_intervals_cover_the_truth_as_often_as_they_say():
    """The test uses 300 runs with new people and intervals at level 90 %. The tolerance of 0.06 is
    3.5 standard errors.
    """
    covered = np.zeros(3)
    for run in range(300):
        frames, agreed = tables(3, 700, seed=run), plan(epsilon=2.0)
        found = federate(agreed, aggregator(agreed, frames, seed=run))
        covered += [
            stratum.difference.lower <= EFFECT <= stratum.difference.upper for stratum in (*found.strata, found.overall)
        ]
    assert (covered / 300 >= 0.84).all(), covered
    assert (covered / 300 <= 0.96).all(), covered


def test_a_holder_that_drops_out_between_the_questions_leaves_a_valid_estimate():
    frames = tables(4, 2000)
    agreed = plan(holders=4, missing=1, largest_share=0.35)
    all_there = aggregator(agreed, frames, needed=3)
    three = aggregator(agreed, frames, needed=3, dropped=frozenset({2}))

    class Leaves:
        holders, name, simulated = 4, "rehearsal", True

        def total(self, question):
            return (all_there if question.kind == "sizes" else three).total(question)

    found = federate(agreed, Leaves())
    left = [frame for place, frame in enumerate(frames) if place != 2]
    assert (found.holders, found.stayed) == (4, 3)
    assert found.strata[0].rows["treated"] == len(pooled(left, 1, 1))
    for sex, stratum in zip((1, 2), found.strata, strict=True):
        for new, part in ((0, "control"), (1, "treated")):
            assert stratum.means[part].value == pytest.approx(pooled(left, sex, new).mean(), abs=0.5)
    everybody = federate(agreed, all_there)
    assert everybody.strata[0].difference.half_width < found.strata[0].difference.half_width


def test_more_rows_missing_than_agreed_publishes_nothing():
    """The aggregator loses half of the rows without a message, which is detected by the count in the sum."""
    frames, agreed = tables(3, 500), plan()
    whole, one = aggregator(agreed, frames), aggregator(agreed, frames[:1])

    class Forgets:
        holders, name, simulated = 3, "broken", True

        def total(self, question):
            return (whole if question.kind == "sizes" else one).total(question)

    with pytest.raises(TooManyRowsMissing, match="SEX=1, control lost more rows"):
        federate(agreed, Forgets())


def test_small_and_empty_cells_are_left_out_not_guessed():
    frames = tables(3, 800)
    frames = [frame[~((frame["SEX"] == 2) & (frame["NEW"] == 1))] for frame in frames]
    agreed = plan()
    found = federate(agreed, aggregator(agreed, frames))
    assert set(found.strata[1].means) == {"control"}
    assert found.strata[1].difference is None
    assert found.strata[1].rows["treated"] == 0
    assert found.overall.difference == found.strata[0].difference
    few = plan(smallest=10_000)
    nothing = federate(few, aggregator(few, frames))
    assert nothing.overall.means == {}
    assert nothing.overall.difference is None


def test_an_arm_of_one_row_stops_it_before_any_noise():
    frames, agreed = tables(3, 50), plan()
    for frame in frames:
        frame.loc[(frame["SEX"] == 2) & (frame["NEW"] == 1), "SEX"] = 1
    frames[1].loc[0, ["SEX", "NEW"]] = 2, 1
    with pytest.raises(InputError, match="SEX=2, treated has fewer than two rows"):
        federate(agreed, aggregator(agreed, frames, noise=ForbiddenNoise()))


# Attempts at refutation, in which the outcome of a person moves from one end of the range to the other. Each has a
# false alarm rate of 10⁻³, and the seeds are fixed.

RUNS, DELTA, EPSILON = 20_000, 0.05, 1.0
SUM_OF_VALUES, SUM_OF_SQUARES = 0, 1


def answers(place, frames, agreed, source):
    """Return the sum that the server receives, for `RUNS` runs at once."""
    rows = sum(len(frame) for frame in frames)
    chosen = agreed.arm_settings([rows])[0]
    mechanism = chosen.mean if place == SUM_OF_VALUES else chosen.squares
    seen = np.zeros(RUNS)
    for frame in frames:
        values = frame["DAYS"].to_numpy(dtype=float) - agreed.centre
        seen += mechanism.reports(np.tile(values, RUNS), source).reshape(RUNS, -1).sum(axis=1)
    return seen


def neighbours(low, high):
    """Return the tables of three holders with two people each. In the second list, the value of the first person is
    different.
    """
    first = [pd.DataFrame({"DAYS": [low, low]}) for _ in range(3)]
    second = [frame.copy() for frame in first]
    second[0].loc[0, "DAYS"] = high
    return first, second


ONE_CELL = {"strata": (), "arm": None, "treated": None, "control": None, "delta": DELTA, "trials": 40}
CLAIMS = [
    pytest.param(SUM_OF_VALUES, 0.99, (0.0, 10.0), id="values"),
    pytest.param(SUM_OF_SQUARES, 0.01, (5.0, 10.0), id="squares"),
]


def lower_bound(place, share, ends, fault=lambda source: source):
    agreed, source = plan(**ONE_CELL, mean_share=share), fault(SeededNoise(5))
    return empirical_epsilon(*(answers(place, frames, agreed, source) for frames in neighbours(*ends)), DELTA)


@pytest.mark.parametrize(("place", "share", "ends"), CLAIMS)
def test_the_claim_stands(place, share, ends):
    assert lower_bound(place, share, ends) <= EPSILON


@pytest.mark.parametrize(("place", "share", "ends"), CLAIMS)
def test_twice_the_signal_is_caught(place, share, ends):
    assert lower_bound(place, share, ends, fault=HalvedNoise) > EPSILON


def test_the_answers_that_are_attacked_are_the_holders_own(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "RUNS", 1)
    frames, _ = neighbours(0.0, 10.0)
    agreed = plan(**ONE_CELL)
    source = SeededNoise(5)
    source.spawn = lambda stream: source
    own = TableHolder(agreed, frames[0], source).answer(agreed.sums([2]))
    again = SeededNoise(5)
    assert [answers(place, frames[:1], agreed, again)[0] for place in (SUM_OF_VALUES, SUM_OF_SQUARES)] == [*own[:2]]


def test_a_theta_that_forgets_the_drop_outs_is_caught(monkeypatch):
    """If a holder is missing, θ must be computed for the four people of the other holders. The attack must refute a
    larger value of θ.
    """
    agreed = plan(**ONE_CELL, mean_share=0.99, missing=1, largest_share=0.34)
    assert agreed.rows_left(6) == 4

    def bound(settings):
        noise = SeededNoise(7)
        seen = [
            sum(
                settings.mean.reports(np.tile(frame["DAYS"].to_numpy(dtype=float) - 5, RUNS), noise)
                .reshape(RUNS, -1)
                .sum(axis=1)
                for frame in frames[:2]
            )
            for frames in neighbours(0.0, 10.0)
        ]
        return empirical_epsilon(*seen, DELTA)

    assert bound(agreed.arm_settings([6])[0]) <= EPSILON
    monkeypatch.setattr(protocol.FederatedPlan, "rows_left", lambda self, size: size * 3)
    assert bound(agreed.arm_settings([6])[0]) > EPSILON


# Units of several rows. The distributions of the sums are exact for small cells, so no simulation is needed.


def laws(chosen, unit, others, low=0.0, high=10.0):
    """Return the joint distribution of the two sums of a cell, for the two possible values of a unit.

    The cell has `others` people at one end of the range.
    """

    def law(mechanism, value, rows):
        unit = (value - 5) / 5
        p = 0.5 + mechanism.theta * (2 * unit**2 - 1 if mechanism.squares else unit)
        return binom.pmf(np.arange(rows * mechanism.trials + 1), rows * mechanism.trials, p)

    def both(value):
        return [np.convolve(law(each, low, others), law(each, value, unit)) for each in (chosen.mean, chosen.squares)]

    return [np.outer(*both(value)) for value in (low, high)]


def delta_of(pairs, epsilon):
    """Return the smallest δ at ε for independent pairs of distributions in both directions."""
    one, two = (reduce(np.multiply.outer, [pair[side].ravel() for pair in pairs]).ravel() for side in (0, 1))
    return max(np.maximum(p - np.exp(epsilon) * q, 0).sum() for p, q in ((one, two), (two, one)))


UNITS = ONE_CELL | {"unit": "HOME", "at_most": 3, "trials": 8, "mean_share": 0.9}


@pytest.mark.parametrize(("low", "high"), [(0.0, 10.0), (5.0, 10.0)])
def test_a_unit_s_rows_in_one_cell_cost_at_most_epsilon(low, high):
    chosen = plan(**UNITS).arm_settings([9])[0]
    assert delta_of([laws(chosen, 3, 6, low, high)], EPSILON) <= DELTA
    assert delta_of([laws(chosen, 1, 8, low, high)], EPSILON / 3) <= DELTA
    forgotten = plan(**ONE_CELL | {"trials": 8, "mean_share": 0.9}).arm_settings([9])[0]
    assert delta_of([laws(forgotten, 3, 6)], EPSILON) > DELTA


def test_a_unit_s_rows_in_two_cells_cost_at_most_epsilon():
    """One of the cells is large, so its θ is larger. Only the sums of the means are used because of the size of the
    distributions.
    """
    agreed = plan(**UNITS)
    pairs = []
    for rows, unit in ((7, 2), (16, 1)):
        one, two = laws(agreed.arm_settings([rows])[0], unit, rows - unit)
        pairs.append((one.sum(axis=1), two.sum(axis=1)))
    assert delta_of(pairs, EPSILON) <= DELTA


def test_holders_use_so_many_rows_of_a_unit_whatever_their_outcomes_are():
    frames = [frame.assign(HOME=np.arange(len(frame)) // 5) for frame in tables(3, 500)]
    agreed = plan(unit="HOME", at_most=2)
    holders = [TableHolder(agreed, frame, SeededNoise(i)) for i, frame in enumerate(frames)]
    sizes = [holder.answer(agreed.sizes()) for holder in holders]
    assert sum(map(sum, sizes)) == 3 * 100 * 2
    # If the outcomes are replaced or the units are reordered, the same rows are used.
    other = frames[0].assign(DAYS=10 - frames[0]["DAYS"]).sort_values("HOME", ascending=False, kind="stable")
    assert list(TableHolder(agreed, other, SeededNoise(0)).answer(agreed.sizes())) == list(sizes[0])
    # A row that is not used is not validated, so an outcome that is out of bounds raises no error.
    misfit = frames[0].assign(DAYS=frames[0]["DAYS"].where(_used(frames[0]["HOME"], agreed), 999))
    assert (misfit["DAYS"] == 999).any()
    assert list(TableHolder(agreed, misfit, SeededNoise(0)).answer(agreed.sizes())) == list(sizes[0])
    found = federate(agreed, InProcessAggregator(holders))
    assert found.unit == "all rows with one HOME, of which at most 2 are used"
    single = federate(plan(), aggregator(plan(), tables(3, 200)))  # the same number of rows with one row per unit
    width = [each.overall.difference.upper - each.overall.difference.lower for each in (found, single)]
    assert 1.4 < width[0] / width[1] < 3  # the noise is for two rows, and the rows of a unit may be correlated
    assert abs(found.overall.difference.value - EFFECT) < 3 * width[0]
    unique = plan(unit="HOME")
    with pytest.raises(InputError, match="unit column 'HOME' has the same value in several rows"):
        TableHolder(unique, frames[0], SeededNoise(0)).answer(unique.sizes())
    with pytest.raises(InputError, match="fewer rows than two units can have"):
        plan(unit="HOME", at_most=8).arm_settings([15, 100, 100, 100])
    with pytest.raises(InputError, match="column 'SEX' identifies units"):
        plan(unit="SEX", at_most=2)
    wrong = plan(unit="HOUSE", at_most=2)
    with pytest.raises(InputError, match="a holder's table has no column 'HOUSE'"):
        TableHolder(wrong, frames[0], SeededNoise(0)).answer(wrong.sizes())


def test_the_flow_has_two_questions_and_no_other():
    frames, agreed = tables(3, 300), plan()
    inner, asked = aggregator(agreed, frames), []

    class Listens:
        holders, name, simulated = 3, "listens", True

        def total(self, question: SumQuestion) -> Total:
            asked.append(question)
            return inner.total(question)

    federate(agreed, Listens())
    assert [question.kind for question in asked] == ["sizes", "sums"]
    assert asked[1].settings["sizes"] == [len(pooled(frames, sex, new)) for sex in (1, 2) for new in (0, 1)]
