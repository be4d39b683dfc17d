"""Strata that lean on each other: predictions, their variances, and what they are worth."""

import inspect
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from equistrata.synth.strata.seen import chance_of, directions_of, surprise, told_by_others
from equistrata.synth.strata.seen import predicted as predicted_by
from threadpoolctl import threadpool_info, threadpool_limits

from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.stats.random_effects import effects, variances
from equistrata.synth.measurements import Measurement
from equistrata.synth.mechanisms.mst import MST
from equistrata.synth.strata import outliers
from equistrata.synth.strata import seen as seen_module
from equistrata.synth.strata.shrinkage import _Group, _raked, _seen, borrow
from equistrata.synth.synthesizer import StratifiedSynthesizer

SCHEMA = Schema(
    "people",
    (
        Column("SEX", values=(1, 2)),
        Column("RACE", values=tuple(range(1, 9))),
        Column("AGE", values=(1, 2, 3, 4)),
        Column("JOB", values=("no", "yes")),
    ),
)
STRATA = Strata.over(SCHEMA, ("SEX", "RACE"))
SIZES = np.array([40_000, 9_000, 8_000, 5_000, 3_000, 900, 300, 100] * 2)


def population(rng, by_race=0.08, own=0.02):
    """True shares of AGE per stratum: an effect of the race, and something of its own."""
    race = rng.normal(0, by_race, (8, 4))
    shares = 0.25 + race[[k[1] - 1 for k in STRATA.keys]] + rng.normal(0, own, (16, 4))
    shares = np.maximum(shares, 0.01)
    return shares / shares.sum(1, keepdims=True)


def measured(shares, sigma, rng, columns=("AGE",)):
    counts = shares * SIZES[: len(shares), None] + rng.normal(0, sigma, shares.shape)
    public = [Measurement((), np.array(float(n)), 1e-3) for n in SIZES]
    return {key: [public[i], Measurement(columns, counts[i], sigma)] for i, key in enumerate(STRATA.keys)}


def predicted(measurements):
    """Shares and σ that `borrow` tells each stratum of AGE, as arrays; strata that are told nothing hold NaN."""
    extras = predict_from_others(STRATA, measurements)
    shares, sigma = np.full((16, 4), np.nan), np.full(16, np.nan)
    for i, key in enumerate(STRATA.keys):
        for extra in extras[key]:
            assert extra.columns == ("AGE",)
            shares[i], sigma[i] = extra.values / SIZES[i], extra.sigma / SIZES[i]
    return shares, sigma


def test_it_sees_nothing_but_paid_for_measurements():
    assert list(inspect.signature(borrow).parameters) == ["strata", "measurements", "wider"]


def test_too_many_strata_borrow_nothing(monkeypatch):
    """What they say of each other would take memory as the square of their number."""
    noisy = measured(population(np.random.default_rng(3)), 50.0, np.random.default_rng(4))
    assert any(predict_from_others(STRATA, noisy).values())
    monkeypatch.setattr("equistrata.synth.strata.shrinkage.MOST_STRATA", 15)
    assert predict_from_others(STRATA, noisy) == {key: [] for key in STRATA.keys}


def test_a_stratum_that_differs_from_all_others_is_believed():
    """Its prediction's variance is Student's given how far it is off; usual ones stay as they are."""
    noise, place, key = 100.0, 2, STRATA.keys[2]
    noisy = measured(population(np.random.default_rng(3), own=0.0), noise, np.random.default_rng(4))
    [rows, age] = noisy[key]
    noisy[key] = [rows, replace(age, values=age.values + np.array([0.2, 0.0, -0.2, 0.0]) * SIZES[place])]
    groups = [
        _Group(noisy[k], float(n), np.eye(16)[i]) for i, (k, n) in enumerate(zip(STRATA.keys, SIZES, strict=True))
    ]
    seen = _seen(STRATA, groups, ("AGE",))
    means, variance = predicted_by(seen, seen.spread(None), np.zeros((16, 16)))
    factors = surprise(seen, means, variance)
    apart = noisy[key][1].values / SIZES[place] @ seen.directions - means[place]
    squares = (apart**2 / (variance[place] + (noise / SIZES[place]) ** 2)).sum()
    assert factors[place] == pytest.approx(((4 + squares) / (4 + 3)) ** 0.5)
    assert factors[place] > 1.4
    assert np.median(factors) == 1.0
    shares, sigma = told_by_others(seen, seen.spread(None), np.zeros((16, 16)))
    cells = np.diag(sigma[place] ** 2) - np.outer(*[sigma[place] ** 2] * 2) / (sigma[place] ** 2).sum()
    expected = seen.directions @ np.diag(variance[place]) @ seen.directions.T * factors[place] ** 2
    assert shares[place].sum() == pytest.approx(1)
    np.testing.assert_allclose(np.diag(cells), np.diag(expected), rtol=0.15)  # once the cells add up to one


@pytest.mark.parametrize("wider", [False, True])
def test_leaving_a_stratum_out_by_the_identity_is_leaving_it_out(wider):
    """The prediction of a stratum is what generalised least squares on all other observations gives, their variances
    being fixed. One of them may be of all strata together."""
    rng = np.random.default_rng(0)
    shares, noise, design = population(rng), (150 / SIZES) ** 2, np.eye(16)
    if wider:
        design, noise = np.vstack([design, SIZES / SIZES.sum()]), np.append(noise, 0.01**2)
    kernels = effects(STRATA.keys)
    looks = design @ shares + rng.normal(size=(len(design), 4)) * np.sqrt(noise)[:, None]
    chance = np.diag(chance_of(looks, noise) / SIZES)
    directions, scales = directions_of(np.average(looks, axis=0, weights=1 / noise), len(looks))
    known = noise[:, None] + np.diag(design @ chance @ design.T)[:, None] * scales
    fitted = variances([design @ kernel @ design.T for kernel in kernels], looks @ directions, known, scales=scales)
    prior = sum(v * k for v, k in zip(fitted, kernels, strict=True)) + chance

    class Seen:
        def __init__(self, weights, share, n, s):
            self.weights, self.rows, self.answer = weights, n, (share * n, s * n)

        def look(self, *_):
            return self.answer

    groups = [Seen(*x) for x in zip(design[:16], looks[:16], SIZES, np.sqrt(noise[:16]), strict=True)]
    groups += [Seen(design[16], looks[16], 5.0, 0.01)] if wider else []
    seen = _seen(STRATA, groups, ("AGE",))
    got_means, got_variances = predicted_by(seen, seen.spread(None), np.zeros((16, 16)))
    usual = prior
    for i, along in product(range(16), range(3)):
        others, ours, prior = np.arange(len(design)) != i, (looks @ directions)[:, along], scales[along] * usual
        inverse = np.linalg.inv((design @ prior @ design.T + np.diag(noise))[np.ix_(others, others)])
        mean = inverse.sum(0) @ ours[others] / inverse.sum()
        cross = (prior @ design.T)[i, others]
        expected = mean + cross @ inverse @ (ours[others] - mean)
        variance = prior[i, i] - cross @ inverse @ cross + (1 - cross @ inverse.sum(1)) ** 2 / inverse.sum()
        assert got_means[i, along] == pytest.approx(expected, abs=1e-9)
        assert got_variances[i, along] == pytest.approx(variance, rel=1e-6)


def test_shares_of_strata_vary_as_rows_drawn_do():
    """Of 100,000 strata drawn from one law the variance along each direction is the usual one times its scale, to a
    factor of two at most, since scales are powers of two; and what varies along two directions is unrelated."""
    law = np.array([0.6, 0.25, 0.12, 0.03])
    directions, scales = directions_of(law, 18)
    drawn = np.random.default_rng(0).multinomial(1000, law, 100_000) / 1000 @ directions
    covariance = np.cov(drawn.T)
    ratio = np.diag(covariance) / np.diag(covariance).mean() / scales
    assert 2**-0.75 < ratio.min() < ratio.max() < 2**0.75
    assert scales.max() > 5 * scales.min()
    np.testing.assert_allclose(np.corrcoef(drawn.T), np.eye(3), atol=0.02)
    np.testing.assert_allclose(directions.sum(0), 0, atol=1e-9)
    alike, equal = directions_of(law, 1000)  # of so many strata each scale would cost another inverse
    np.testing.assert_allclose(alike.T @ alike, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(alike.sum(0), 0, atol=1e-9)
    assert equal.tolist() == [1, 1, 1]


def test_merged_codes_are_predicted_as_if_the_column_had_no_others():
    """Strata measured two of AGE's codes as one; a measurement of all rows holds all four, and so does a pair."""
    rng = np.random.default_rng(2)
    merging, whole = (0, 0, 1, 1), Measurement(("AGE",), np.array([30.0, 50.0, 40.0, 60.0]) * 1000, 40.0)
    two = Strata.over(replace(SCHEMA, columns=(*SCHEMA.columns[:2], Column("AGE", values=(1, 2)))), STRATA.columns)
    merged = measured(population(rng)[:, ::2] + population(rng)[:, 1::2], 30, rng)
    as_two = predict_from_others(
        two, merged, [Measurement(("AGE",), whole.values.reshape(2, 2).sum(1), 40.0 * np.sqrt(2))]
    )
    merged = {key: [size, replace(m, groups=(merging,))] for key, (size, m) in merged.items()}
    told = predict_from_others(STRATA, merged, [whole])
    for key in STRATA.keys:
        assert [(m.columns, m.groups) for m in told[key]] == [(("AGE",), (merging,))] * len(as_two[key])
        for ours, theirs in zip(told[key], as_two[key], strict=True):
            np.testing.assert_array_equal(ours.values, theirs.values)
            assert ours.sigma == theirs.sigma
    pair, margins = rng.random((4, 2)), {"AGE": np.array([1.5, 2.5]), "JOB": np.array([1.0, 3.0])}
    raked = _raked(pair, ("AGE", "JOB"), margins, {"AGE": merging})
    np.testing.assert_allclose(raked.sum(1).reshape(2, 2).sum(1), [1.5, 2.5])
    np.testing.assert_allclose(raked.sum(0), [1.0, 3.0])


def test_a_stratum_that_did_not_measure_is_predicted_from_all_that_did():
    rng = np.random.default_rng(1)
    shares = population(rng, own=0.0)
    full = measured(shares, 20, rng)
    without = {key: m if key != (2, 3) else m[:1] for key, m in full.items()}
    [told] = predict_from_others(STRATA, without)[(2, 3)]
    i = STRATA.keys.index((2, 3))
    other_sex = shares[STRATA.keys.index((1, 3))]  # the same, since sex and the stratum itself change nothing
    np.testing.assert_allclose(told.values / SIZES[i], other_sex, atol=0.02)


def test_small_strata_borrow_and_large_ones_keep_their_own():
    rng = np.random.default_rng(2)
    extras = predict_from_others(STRATA, measured(population(rng), 30, rng))
    assert [len(extras[(sex, 1)]) for sex in (1, 2)] == [0, 0]
    assert [len(extras[(sex, 8)]) for sex in (1, 2)] == [1, 1]


def test_values_sum_to_the_number_of_rows():
    rng = np.random.default_rng(3)
    extras = predict_from_others(STRATA, measured(population(rng), 100, rng))
    for i, key in enumerate(STRATA.keys):
        for extra in extras[key]:
            assert extra.values.sum() == pytest.approx(SIZES[i], rel=1e-5)


@pytest.mark.slow
def test_what_is_borrowed_is_as_uncertain_as_it_says():
    """z-scores of 200 populations × 12 small strata × 4 cells: a standard deviation between 0.8 and 1.15.

    Student's tails take the largest effects of this normal population for surprises, so it is 0.83. With the seeds
    fixed there is no false alarm; over seeds its standard error is about 0.02.
    """
    rng = np.random.default_rng(4)
    scores = []
    for _ in range(200):
        shares = population(rng)
        told, sigma = predicted(measured(shares, 100, rng))
        scores.append(((told - shares) / sigma[:, None])[np.isfinite(sigma)])
    assert 0.8 < float(np.std(np.concatenate(scores))) < 1.15


def test_it_leans_on_its_own_race_first():
    """With an effect of the race alone, the prediction of a stratum must follow the other sex of its race."""
    rng = np.random.default_rng(5)
    errors, against_mean = [], []
    for _ in range(30):
        shares = population(rng, by_race=0.1, own=0.0)
        told, _ = predicted(measured(shares, 40, rng))
        rows = [i for i, key in enumerate(STRATA.keys) if key[1] in (3, 4, 5)]
        rows = [i for i in rows if np.isfinite(told[i, 0])]
        errors.append(np.abs(told[rows] - shares[rows]).mean())
        against_mean.append(np.abs(shares.mean(0) - shares[rows]).mean())
    assert np.mean(errors) < 0.35 * np.mean(against_mean)


def test_equal_strata_are_pooled_and_stay_finite():
    rng = np.random.default_rng(6)
    told, sigma = predicted(measured(np.full((16, 4), 0.25), 50, rng))
    small = [i for i, key in enumerate(STRATA.keys) if key[1] == 8]
    np.testing.assert_allclose(told[small], 0.25, atol=0.01)
    # What a hundred rows do to four shares, which vary in three directions.
    by_chance = (4 * 0.25 * 0.75 / 3 / 100) ** 0.5
    assert (sigma[small] > 0.95 * by_chance).all()
    assert (sigma[small] < 1.1 * by_chance).all()


@pytest.mark.slow
def test_strata_of_few_rows_differ_by_chance_and_are_told_so():
    """Equal strata, and counts without noise: what is left is chance, as large as the multinomial law says. 300
    populations; the standard deviation of each share's z-scores has a standard error of about 0.01 over
    seeds. Independent cells vary by less once they add up to one."""
    rng, scores = np.random.default_rng(9), []
    for _ in range(300):
        counts = np.array([rng.multinomial(n, [0.4, 0.3, 0.2, 0.1]) for n in SIZES])
        extras = predict_from_others(STRATA, measured(counts / SIZES[:, None], 30, rng))
        for i, [extra] in ((i, extras[key]) for i, key in enumerate(STRATA.keys) if extras[key]):
            alone = extra.cell_sigma**2
            scores.append((extra.values - counts[i]) / np.sqrt(alone * (1 - alone / alone.sum())))
    found = np.std(scores, axis=0)
    assert (found > 0.8).all()  # what is far off is told with doubt
    assert (found < 1.1).all()


def test_what_was_measured_over_all_rows_is_heard():
    """All strata are alike, and each is read with much noise; all rows, and those of a sex, were read with little."""
    rng, share = np.random.default_rng(10), np.array([0.4, 0.3, 0.2, 0.1])
    own = measured(np.tile(share, (16, 1)), 3000, rng)
    everybody = Measurement(("AGE",), share * SIZES.sum(), 10.0)
    by_sex = Measurement(("AGE", "SEX"), np.outer(share, [SIZES.sum() / 2] * 2), 10.0)
    errors = []
    for wider in ([], [everybody], [by_sex], [everybody, by_sex]):
        extras = predict_from_others(STRATA, own, wider)
        told = [extra.values / SIZES[i] for i, key in enumerate(STRATA.keys) for extra in extras[key]]
        errors.append(np.abs(np.array(told) - share).max())
    assert errors[0] > 0.02
    assert max(errors[1:]) < 0.005


def test_one_stratum_has_none_to_lean_on():
    strata = Strata.over(Schema("one", (Column("ALL", values=(1,)), Column("JOB", values=(0, 1)))), ("ALL",))
    assert predict_from_others(strata, {(1,): [Measurement(("JOB",), np.array([5.0, 6.0]), 1.0)]}) == {(1,): []}


@pytest.mark.parametrize(("apart", "error"), [(0.0, (0.15, 0.8)), (0.25, (0.5, 1.03))])
def test_two_strata_lean_on_each_other_where_their_difference_is_noise(apart, error):
    """Two strata with noise of 0.05 on a share: alike, most of their difference goes; AGE apart by 0.25, it stays."""
    rng, strata = np.random.default_rng(5), Strata.over(SCHEMA, ("SEX",))
    rows, sigma = 4000.0, 200.0
    alike = {("RACE",): np.full(8, 1 / 8), ("JOB",): np.array([0.7, 0.3])}
    own_errors, told_errors = [], []
    for _ in range(30):
        noisy, truth, wider = {}, {}, [Measurement(c, s * 2 * rows, 100.0) for c, s in alike.items()]
        for sign, key in zip((-1, 1), strata.keys, strict=True):
            truth[key] = {("AGE",): 0.25 + sign * apart / 2 * np.array([1, -1, 0, 0]), **alike}
            noisy[key] = [
                Measurement(c, s * rows + rng.normal(0, sigma, s.shape), sigma) for c, s in truth[key].items()
            ]
        wider.append(Measurement(("AGE",), np.full(4, 0.5 * rows), 100.0))
        told = predict_from_others(strata, noisy, wider)
        for key in strata.keys:
            own = noisy[key][0]
            [extra] = [extra for extra in told[key] if extra.columns == ("AGE",)] or [replace(own, sigma=np.inf)]
            joined = np.average([own.values, extra.values], axis=0, weights=[own.sigma**-2, extra.sigma**-2])
            own_errors.append(np.abs(own.values / rows - truth[key]["AGE",]).sum())
            told_errors.append(np.abs(joined / rows - truth[key]["AGE",]).sum())
    assert error[0] < np.mean(told_errors) / np.mean(own_errors) < error[1]


def test_two_strata_that_agree_in_one_column_are_not_taken_to_agree_exactly():
    """RACE differs by much, JOB by nothing that is seen: JOB is predicted with the doubt that RACE gives."""
    strata, doubt = Strata.over(SCHEMA, ("SEX",)), []
    for tilt in (0.0, 0.015):
        race = np.full((2, 8), 500.0) + 4000 * tilt * np.outer([1, -1], [1, -1] * 4)
        noisy = {
            key: [Measurement(("RACE",), race[i], 40.0), Measurement(("JOB",), np.array([2800.0, 1200.0]), 40.0)]
            for i, key in enumerate(strata.keys)
        }
        [extra] = [extra for extra in predict_from_others(strata, noisy)[(1,)] if extra.columns == ("JOB",)]
        doubt.append(float(2 / (extra.cell_sigma**-2).sum()) ** 0.5)  # of two cells that add up
    assert doubt[0] < 75 < 90 < doubt[1]


def test_one_difference_of_two_strata_is_no_proof_that_they_are_alike():
    """The two happen to agree in a column of two values. By itself that says no variance; with others' it does not."""
    kernels, noise = effects([(1,), (2,)]), np.full(2, 0.01)
    agree, usual = np.array([[0.3], [0.3]]), np.array([0.04])
    assert variances(kernels, agree, noise)[0] < 1e-6
    assert variances(kernels, agree, noise, usual=usual)[0] > 0.005
    apart = np.array([[-2.0], [2.0]])
    assert variances(kernels, apart, noise, usual=usual)[0] > 0.4 * variances(kernels, apart, noise)[0] > 1


def test_a_mechanism_that_leaves_only_counts_gives_nothing_to_borrow():
    counts = {key: [Measurement((), np.array(10.0), 1.0)] for key in STRATA.keys}
    assert all(extra == [] for extra in predict_from_others(STRATA, counts).values())


def test_merged_values_are_not_taken_for_single_ones():
    """A measurement that merged values of AGE tells nothing of a single value, but its sum over AGE tells of JOB."""
    rng = np.random.default_rng(7)
    groups = ((0, 1, 1, 1), None)
    noisy = {key: [Measurement(("AGE", "JOB"), rng.normal(50, 10, (2, 2)), 10.0, groups)] for key in STRATA.keys}
    told = {extra.columns for extras in predict_from_others(STRATA, noisy).values() for extra in extras}
    assert told == {("JOB",)}


def test_a_small_stratum_is_told_pairs_and_a_large_one_only_its_own():
    rng = np.random.default_rng(8)
    joint = np.array([[0.3, 0.0], [0.2, 0.05], [0.1, 0.15], [0.0, 0.2]])
    noisy = {}
    for i, key in enumerate(STRATA.keys):
        pairs = (
            [Measurement(("AGE", "JOB"), joint * SIZES[i] + rng.normal(0, 20, (4, 2)), 20.0)] if SIZES[i] > 800 else []
        )
        single = Measurement(("AGE",), joint.sum(1) * SIZES[i] + rng.normal(0, 20, 4), 20.0)
        noisy[key] = [Measurement((), np.array(float(SIZES[i])), 1e-3), single, *pairs]
    extras = predict_from_others(STRATA, noisy)
    [pair] = [e for e in extras[(1, 8)] if len(e.columns) == 2]
    np.testing.assert_allclose(pair.values / pair.values.sum(), joint, atol=0.02)


def test_a_pair_is_told_with_the_posterior_of_its_columns_so_that_no_prior_counts_twice(monkeypatch):
    """A stratum that differs in AGE: its pair's prediction keeps the AGE that its own counts and the others' imply."""
    monkeypatch.setattr(seen_module, "_DEGREES", 1e9)  # a normal law; else the stratum would be left to itself
    monkeypatch.setattr(outliers, "_MOST", 0.0)
    rng = np.random.default_rng(9)
    joint, noisy = np.array([[0.3, 0.0], [0.2, 0.05], [0.1, 0.15], [0.0, 0.2]]), {}
    for i, key in enumerate(STRATA.keys):
        own = joint + rng.normal(0, 0.01, (4, 2)) if key != (1, 6) else joint[::-1]
        counts = own * SIZES[i] + rng.normal(0, 20, (4, 2))
        noisy[key] = [Measurement((), np.array(float(SIZES[i])), 1e-3), Measurement(("AGE", "JOB"), counts, 20.0)]
    found = {extra.columns: extra for extra in predict_from_others(STRATA, noisy)[(1, 6)]}
    age, pair = found[("AGE",)], found[("AGE", "JOB")]
    measured = noisy[(1, 6)][1].values.sum(1)
    weights = np.array([age.cell_sigma**-2, np.full(4, 1 / (2 * 20.0**2))])
    posterior, variance = np.average([age.values, measured], axis=0, weights=weights), 1 / weights.sum(0)
    wanted = posterior + (900 - posterior.sum()) * variance / variance.sum()
    np.testing.assert_allclose(pair.values.sum(1), wanted)
    assert np.abs(age.values - measured).sum() > 100  # the prediction of AGE is far off
    assert pair.values.sum() == pytest.approx(900)


MANY = Schema("many", (*SCHEMA.columns[:3], *(Column(f"Q{n}", values=(0, 1)) for n in range(6))))


def answers(seed):
    """Six questions, answered by age: AGE is in many of the pairs that each stratum measures."""
    rng, people = np.random.default_rng(seed), rows(seed).codes
    asked = rng.random((len(people), 6)) < 0.1 + 0.8 * np.eye(4)[people[:, 2]] @ rng.random((4, 6))
    return CodedTable(np.hstack([people[:, :3], asked]).astype(np.uint8), MANY)


@pytest.mark.slow
def test_shrinkage_is_not_worse_than_none_where_there_is_little_noise():
    """L1 error of AGE over the strata, ε = 10, eight populations: below 0.95 of that without shrinkage. With pairs
    predicted as they are, each pair of AGE counted its prior once more, and it was above 1."""
    errors = {True: [], False: []}
    for seed in range(8):
        table = answers(seed)
        truth = Strata.over(MANY, ("SEX", "RACE")).partition(table)
        for shrinkage, found in errors.items():
            settings = {"selection": "per-stratum", "shrinkage": shrinkage, "seed": seed}
            model = StratifiedSynthesizer(MST(), ("SEX", "RACE"), epsilon=10, **settings).fit(table).model_
            for key, part in truth.items():
                real, made = part.marginal(["AGE"]), model.models[key].marginal(["AGE"])
                found.append(np.abs(real / real.sum() - made / made.sum()).sum())
    assert np.mean(errors[True]) < 0.95 * np.mean(errors[False])


def rows(seed):
    rng = np.random.default_rng(seed)
    parts = []
    shares = population(rng)
    for (sex, race), n, share in zip(product(range(2), range(8)), SIZES // 4, shares, strict=True):
        age = rng.choice(4, n, p=share)
        job = rng.random(n) < 0.2 + 0.2 * age
        parts.append(np.column_stack([np.full(n, sex), np.full(n, race), age, job]))
    return CodedTable(np.concatenate(parts).astype(np.uint8), SCHEMA)


@pytest.mark.slow
def test_leaning_serves_small_strata_better_at_the_same_measurements():
    """Mean L1 error of AGE × JOB over the strata, ε = 0.3, ten populations: at most 0.7 of that without."""
    errors = {True: [], False: []}
    for seed in range(10):
        table = rows(seed)
        truth = STRATA.partition(table)
        kept = {}
        for shrinkage, found in errors.items():
            fitted = StratifiedSynthesizer(
                MST(), ("SEX", "RACE"), epsilon=0.3, shrinkage=shrinkage, selection="per-stratum", seed=seed
            ).fit(table)
            kept[shrinkage] = fitted.measurements_
            for key, part in truth.items():
                real, made = part.marginal(["AGE", "JOB"]), fitted.model_.models[key].marginal(["AGE", "JOB"])
                found.append(np.abs(real / real.sum() - made / made.sum()).sum())
        for key in STRATA.keys:  # leaning takes nothing further from the rows
            for one, other in zip(kept[True][key], kept[False][key], strict=True):
                np.testing.assert_array_equal(one.values, other.values)
    assert np.mean(errors[True]) < 0.7 * np.mean(errors[False])


def test_matrices_of_few_strata_get_one_thread(monkeypatch):
    """Others would only wait, and that took most of the time of a small release."""
    threads = []

    def searched(*arguments, **settings):
        threads.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return variances(*arguments, **settings)

    monkeypatch.setattr(seen_module, "variances", searched)
    rng = np.random.default_rng(8)
    with threadpool_limits(2, user_api="blas"):
        predicted(measured(population(rng), 300.0, rng))
    assert threads
    assert set(threads) == {1}


@pytest.mark.parametrize("cells", [40, 300])
def test_directions_of_few_and_of_many_cells(cells):
    """Orthonormal, and in sum zero; a frequent cell's has more of the variance than rare ones have."""
    usual = np.append([0.6, 0.2], np.full(cells - 2, 0.2 / (cells - 2)))
    directions, scales = directions_of(usual, 5)
    np.testing.assert_allclose(directions.T @ directions, np.eye(cells - 1), atol=1e-9)
    np.testing.assert_allclose(directions.sum(0), 0, atol=1e-9)
    assert scales.mean() == pytest.approx(1)
    own = (directions[:2] ** 2 * scales).sum(1)
    assert own.min() > 20 * (directions[2:] ** 2 * scales).sum(1).max()


def test_a_frequent_cell_of_many_that_differs_by_stratum_is_believed():
    """None of 500 kinds of visits for 95, 85, 70, 50 and 20 % of the rows: strata of hundreds of rows are not told that
    they are off by many deviations of a prediction. Predictions were some 40 off."""
    schema = Schema("s", (Column("TIER", values=(1, 2, 3, 4, 5)), Column("VISITS", values=tuple(range(500)))))
    strata, rng = Strata.over(schema, ["TIER"]), np.random.default_rng(0)
    rows, none = np.array([14_000, 3_600, 1_500, 700, 120]), np.array([0.95, 0.85, 0.7, 0.5, 0.2])
    rest = 0.7 ** np.arange(499)
    shares = np.hstack([none[:, None], (1 - none[:, None]) * rest / rest.sum()])
    noisy = {
        key: [Measurement((), np.array(float(n)), 5.0), Measurement(("VISITS",), n * p + rng.normal(0, 30, 500), 30.0)]
        for key, n, p in zip(strata.keys, rows, shares, strict=True)
    }
    for key, n, extra in zip(strata.keys, rows, predict_from_others(strata, noisy).values(), strict=True):
        for each in extra if n > 500 else []:  # once its cells add up to the rows
            variance = each.cell_sigma**2
            own = np.sqrt(variance[0] * (1 - variance[0] / variance.sum()))
            assert abs(each.values[0] - n * none[strata.keys.index(key)]) < 5 * own, key
