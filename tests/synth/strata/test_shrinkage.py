"""Tests of the shrinkage of strata: the predictions, their variances and the resulting errors."""

import inspect
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.stats.random_effects import effects, variances
from equistrata.synth.measurements import Measurement
from equistrata.synth.mechanisms.mst import MST
from equistrata.synth.strata import shrinkage as shrinkage_module
from equistrata.synth.strata.shrinkage import (
    _marginal,
    _sampling_variance,
    _with_margins,
    predict_from_others,
)
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
    """Return the true shares of AGE for each stratum, with an effect of the race and an effect of the stratum."""
    race = rng.normal(0, by_race, (8, 4))
    shares = 0.25 + race[[k[1] - 1 for k in STRATA.keys]] + rng.normal(0, own, (16, 4))
    shares = np.maximum(shares, 0.01)
    return shares / shares.sum(1, keepdims=True)


def measured(shares, sigma, rng, columns=("AGE",)):
    counts = shares * SIZES[: len(shares), None] + rng.normal(0, sigma, shares.shape)
    public = [Measurement((), np.array(float(n)), 1e-3) for n in SIZES]
    return {key: [public[i], Measurement(columns, counts[i], sigma)] for i, key in enumerate(STRATA.keys)}


def predicted(measurements):
    """Return the predicted shares of AGE and their σ as arrays. The values are NaN for strata without a prediction."""
    extras = predict_from_others(STRATA, measurements)
    shares, sigma = np.full((16, 4), np.nan), np.full(16, np.nan)
    for i, key in enumerate(STRATA.keys):
        for extra in extras[key]:
            assert extra.columns == ("AGE",)
            shares[i], sigma[i] = extra.values / SIZES[i], extra.sigma / SIZES[i]
    return shares, sigma


def test_it_sees_nothing_but_paid_for_measurements():
    assert list(inspect.signature(predict_from_others).parameters) == ["strata", "measurements", "wider"]


def test_too_many_strata_borrow_nothing(monkeypatch):
    """The memory for the predictions would be the square of the number of strata."""
    noisy = measured(population(np.random.default_rng(3)), 50.0, np.random.default_rng(4))
    assert any(predict_from_others(STRATA, noisy).values())
    monkeypatch.setattr("equistrata.synth.strata.shrinkage.MOST_STRATA", 15)
    assert predict_from_others(STRATA, noisy) == {key: [] for key in STRATA.keys}


@pytest.mark.parametrize("wider", [False, True])
def test_leaving_a_stratum_out_by_the_identity_is_leaving_it_out(wider):
    """The prediction of a stratum must be the generalised least-squares estimate from all other observations.

    The variances are fixed. One of the observations can be a sum over all strata.
    """
    rng = np.random.default_rng(0)
    shares, noise, design = population(rng), (150 / SIZES) ** 2, np.eye(16)
    if wider:
        design, noise = np.vstack([design, SIZES / SIZES.sum()]), np.append(noise, 0.01**2)
    kernels = effects(STRATA.keys)
    looks = design @ shares + rng.normal(size=(len(design), 4)) * np.sqrt(noise)[:, None]
    looks += (1 - looks.sum(1, keepdims=True)) / 4
    chance = np.diag(_sampling_variance(looks, noise) / SIZES)
    share = np.average(looks, axis=0, weights=1 / noise)
    scales = 2.0 ** np.rint(np.log2(share * (1 - share)))
    scales = scales / scales.mean()
    known = noise[:, None] + np.diag(design @ chance @ design.T)[:, None] * scales
    observed = (looks - 0.25) * (4 / 3) ** 0.5
    fitted = variances([design @ kernel @ design.T for kernel in kernels], observed, known, scales=scales)
    usual = sum(v * k for v, k in zip(fitted, kernels, strict=True)) + chance

    class Group:
        def __init__(self, weights, share, n, s):
            self.weights, self.rows, self.answer = weights, n, (share * n, s * n)

        def counts(self, *_):
            return self.answer

    groups = [Group(*x) for x in zip(design[:16], looks[:16], SIZES, np.sqrt(noise[:16]), strict=True)]
    groups += [Group(design[16], looks[16], 5.0, 0.01)] if wider else []
    marginal = _marginal(STRATA, groups, ("AGE",))
    got_shares, got_deviations = marginal.predict(marginal.variances(None))
    expected, variance = np.zeros((2, 16, 4))
    for i, cell in product(range(16), range(4)):
        others, prior = np.arange(len(design)) != i, scales[cell] * usual
        inverse = np.linalg.inv((design @ prior @ design.T + np.diag(noise))[np.ix_(others, others)])
        mean = inverse.sum(0) @ looks[others, cell] / inverse.sum()
        cross = (prior @ design.T)[i, others]
        expected[i, cell] = mean + cross @ inverse @ (looks[others, cell] - mean)
        variance[i, cell] = prior[i, i] - cross @ inverse @ cross + (1 - cross @ inverse.sum(1)) ** 2 / inverse.sum()
    variance *= 0.75 / (1 - share)  # for cells that are independent except for their sum
    np.testing.assert_allclose(got_deviations**2, variance, rtol=1e-6)
    lacking = 1 - expected.sum(1, keepdims=True)
    np.testing.assert_allclose(got_shares, expected + lacking * variance / variance.sum(1, keepdims=True), atol=1e-9)


def test_merged_codes_are_predicted_as_if_the_column_had_no_others():
    """The codes of AGE are merged to two codes in the strata. The measurements for all rows and for the pair contain
    the four codes.
    """
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
    raked = _with_margins(pair, ("AGE", "JOB"), margins, {"AGE": merging})
    np.testing.assert_allclose(raked.sum(1).reshape(2, 2).sum(1), [1.5, 2.5])
    np.testing.assert_allclose(raked.sum(0), [1.0, 3.0])


def test_a_stratum_that_did_not_measure_is_predicted_from_all_that_did():
    rng = np.random.default_rng(1)
    shares = population(rng, own=0.0)
    full = measured(shares, 20, rng)
    without = {key: m if key != (2, 3) else m[:1] for key, m in full.items()}
    [told] = predict_from_others(STRATA, without)[(2, 3)]
    i = STRATA.keys.index((2, 3))
    # The other sex has the same shares, because there is no effect of the sex or of the stratum.
    other_sex = shares[STRATA.keys.index((1, 3))]
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
    """The z-scores of 200 populations × 12 small strata × 4 cells have a standard deviation between 0.8 and 1.15.

    The seeds are fixed. The standard error over seeds is about 0.02.
    """
    rng = np.random.default_rng(4)
    scores = []
    for _ in range(200):
        shares = population(rng)
        told, sigma = predicted(measured(shares, 100, rng))
        scores.append(((told - shares) / sigma[:, None])[np.isfinite(sigma)])
    assert 0.8 < float(np.std(np.concatenate(scores))) < 1.15


def test_it_leans_on_its_own_race_first():
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
    # The standard deviation of four shares of a hundred rows, which vary in three dimensions.
    by_chance = (4 * 0.25 * 0.75 / 3 / 100) ** 0.5
    assert (sigma[small] > 0.95 * by_chance).all()
    assert (sigma[small] < 1.1 * by_chance).all()


@pytest.mark.slow
def test_strata_of_few_rows_differ_by_chance_and_are_told_so():
    """The strata are equal and the counts have no noise, so the errors are multinomial.

    The test uses 300 populations. The standard error of the standard deviation of the z-scores is about 0.01.
    Independent cells have a smaller variance if their sum is one.
    """
    rng, scores = np.random.default_rng(9), []
    for _ in range(300):
        counts = np.array([rng.multinomial(n, [0.4, 0.3, 0.2, 0.1]) for n in SIZES])
        extras = predict_from_others(STRATA, measured(counts / SIZES[:, None], 30, rng))
        for i, [extra] in ((i, extras[key]) for i, key in enumerate(STRATA.keys) if extras[key]):
            alone = extra.cell_sigma**2
            scores.append((extra.values - counts[i]) / np.sqrt(alone * (1 - alone / alone.sum())))
    found = np.std(scores, axis=0)
    assert (found > 0.8).all()  # a prediction that is far off has a large variance
    assert (found < 1.1).all()


def test_what_was_measured_over_all_rows_is_heard():
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
    """The noise of a share in the two strata is 0.05. If the strata are equal, most of the difference must be removed.

    If AGE differs by 0.25, the difference must not be removed.
    """
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
    """RACE is different in the two strata and JOB is equal, so the prediction of JOB must have the variance of RACE."""
    strata, doubt = Strata.over(SCHEMA, ("SEX",)), []
    for tilt in (0.0, 0.015):
        race = np.full((2, 8), 500.0) + 4000 * tilt * np.outer([1, -1], [1, -1] * 4)
        noisy = {
            key: [Measurement(("RACE",), race[i], 40.0), Measurement(("JOB",), np.array([2800.0, 1200.0]), 40.0)]
            for i, key in enumerate(strata.keys)
        }
        [extra] = [extra for extra in predict_from_others(strata, noisy)[(1,)] if extra.columns == ("JOB",)]
        doubt.append(float(2 / (extra.cell_sigma**-2).sum()) ** 0.5)  # for two cells with a fixed sum
    assert doubt[0] < 75 < 90 < doubt[1]


def test_one_difference_of_two_strata_is_no_proof_that_they_are_alike():
    """The two strata are equal in a column of two values. The variance is 0 for this column alone and positive with
    others.
    """
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
    """A measurement with merged values of AGE has no information about a single value, but its sum over AGE is the
    margin of JOB.
    """
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


def test_a_pair_is_told_with_the_posterior_of_its_columns_so_that_no_prior_counts_twice():
    """A stratum has a different AGE. The margin of its predicted pair must be the posterior of AGE."""
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
    assert np.abs(age.values - measured).sum() > 100  # the prediction of AGE has a large error
    assert pair.values.sum() == pytest.approx(900)


MANY = Schema("many", (*SCHEMA.columns[:3], *(Column(f"Q{n}", values=(0, 1)) for n in range(6))))


def answers(seed):
    """Return the answers to six questions, which depend on AGE, so that many pairs of each stratum contain AGE."""
    rng, people = np.random.default_rng(seed), rows(seed).codes
    asked = rng.random((len(people), 6)) < 0.1 + 0.8 * np.eye(4)[people[:, 2]] @ rng.random((4, 6))
    return CodedTable(np.hstack([people[:, :3], asked]).astype(np.uint8), MANY)


@pytest.mark.slow
def test_shrinkage_is_not_worse_than_none_where_there_is_little_noise():
    """The L1 error of AGE for ε = 10 and eight populations must be less than 0.95 of the error without shrinkage.

    If the predicted pairs are not adjusted, the prior of AGE is used several times and the ratio is above 1.
    """
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
    """The mean L1 error of AGE × JOB for ε = 0.3 and ten populations must be at most 0.7 of the error without
    shrinkage.
    """
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
        for key in STRATA.keys:  # the same measurements are used
            for one, other in zip(kept[True][key], kept[False][key], strict=True):
                np.testing.assert_array_equal(one.values, other.values)
    assert np.mean(errors[True]) < 0.7 * np.mean(errors[False])


def test_matrices_of_few_strata_get_one_thread(monkeypatch):
    """Additional threads would only wait, which took most of the time of a small release."""
    threads = []

    def searched(*arguments, **settings):
        threads.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return variances(*arguments, **settings)

    monkeypatch.setattr(shrinkage_module, "variances", searched)
    rng = np.random.default_rng(8)
    with threadpool_limits(2, user_api="blas"):
        predicted(measured(population(rng), 300.0, rng))
    assert threads
    assert set(threads) == {1}


def test_a_frequent_cell_of_many_that_differs_by_stratum_is_believed():
    """The first of 500 codes has 95, 85, 70, 50 and 20 % of the rows of the strata.

    A prediction for a stratum with hundreds of rows must not be off by many standard deviations. If there is a single
    variance for all of the cells, the error is about 40 standard deviations.
    """
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
        for each in extra if n > 500 else []:  # if the sum of the cells is the number of rows
            variance = each.cell_sigma**2
            own = np.sqrt(variance[0] * (1 - variance[0] / variance.sum()))
            assert abs(each.values[0] - n * none[strata.keys.index(key)]) < 6 * own, key
