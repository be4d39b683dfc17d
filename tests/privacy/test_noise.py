"""Tests of the distribution and the privacy cost of the noise.

If the noise has a seed, the test cannot fail by chance. The tests of `SecureNoise` use new random numbers in each run
and state their probability of a false alarm. The probability that any of the tests fails by chance is less than 10⁻⁴.
"""

import math
import pickle

import numpy as np
import opendp.prelude as dp
import pytest
from refutation import HalvedNoise, empirical_epsilon
from scipy import stats

from equistrata.errors import InputError
from equistrata.privacy import coins as coins_module
from equistrata.privacy import noise as noise_module
from equistrata.privacy.budget import Budget, BudgetExceeded, Rho
from equistrata.privacy.noise import SecureNoise, SeededNoise, gaussian_sigma, selection_epsilon

FALSE_ALARM = 1e-6  # for each test with new random numbers
PRICE = Rho(0.5)  # σ and the scale of Laplace noise are equal to the sensitivity
SOURCES = [pytest.param(SecureNoise(), id="secure"), pytest.param(SeededNoise(20), id="seeded")]


def gaussian(source, counts, sigma):
    return source.gaussian(counts, sigma, PRICE, Budget(PRICE), "counts")[0]


def laplace(source, values, scale):
    return source.laplace(values, scale, 1.0, Budget(PRICE), "numbers")[0]


def select(source, scores, sensitivity, rho):
    return source.select(scores, sensitivity, rho, Budget(rho), "choice")


def chi_square_p_value(observed, probabilities):
    """Return the p-value of Pearson's test. Cells with an expected count below 10 are merged."""
    expected = np.asarray(probabilities) * np.sum(observed)
    rare = expected < 10
    if rare.any():
        observed = np.append(np.asarray(observed)[~rare], np.asarray(observed)[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    return stats.chisquare(observed, expected * np.sum(observed) / expected.sum()).pvalue


def discrete_gaussian_pmf(sigma, reach):
    weights = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * sigma**2))
    return weights / weights.sum()


def test_sigma_and_epsilon_of_an_amount():
    assert gaussian_sigma(Rho(0.5)) == 1.0
    assert gaussian_sigma(Rho(2), sensitivity=3.0) == 1.5
    assert selection_epsilon(Rho(0.125)) == 1.0
    for amount in (0, Rho(0), math.nan, -1.0):
        with pytest.raises(InputError, match=r"positive|finite|negative"):
            gaussian_sigma(amount)
        with pytest.raises(InputError, match=r"positive|finite|negative"):
            selection_epsilon(amount)


@pytest.mark.parametrize("sigma", [0.7, 2.5, 5.8])
def test_secure_integers_are_discrete_gaussian(sigma):
    """A chi-squared test of 60,000 draws with a false alarm probability of 10⁻⁶.

    The probability of 0 is too small in opendp 0.14.1. The test detects this fault with probability greater than 0.999
    for the last two values of σ.
    """
    reach = math.ceil(12 * sigma)
    drawn = gaussian(SecureNoise(), np.zeros(60_000, dtype=np.int64), sigma)
    assert abs(drawn).max() <= reach
    observed = np.bincount(drawn + reach, minlength=2 * reach + 1)
    assert chi_square_p_value(observed, discrete_gaussian_pmf(sigma, reach)) > FALSE_ALARM


def test_seeded_integers_are_rounded_gaussian():
    drawn = gaussian(SeededNoise(3), np.zeros(40_000, dtype=np.int64), 3.0)
    edges = np.arange(-40, 42) - 0.5
    observed = np.histogram(drawn, edges)[0]
    assert chi_square_p_value(observed, np.diff(stats.norm.cdf(edges, scale=3.0))) > 1e-3


@pytest.mark.parametrize("source", SOURCES)
def test_real_numbers(source):
    """A Kolmogorov-Smirnov test of 4,000 draws with a false alarm probability of 10⁻⁶."""
    drawn = laplace(source, np.full((40, 100), 5.0), 3.0)
    assert drawn.shape == (40, 100)
    assert stats.kstest(drawn.ravel(), stats.laplace(5.0, 3.0).cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("source", SOURCES)
def test_moments(source):
    """The test uses 20,000 draws and a tolerance of 6 standard errors. The probability of a false alarm is less than
    10⁻⁸.
    """
    drawn = gaussian(source, np.full(20_000, 1000), 8.0)
    assert abs(drawn.mean() - 1000) < 6 * 8 / math.sqrt(20_000)
    assert abs(drawn.var() / 64 - 1) < 6 * math.sqrt(2 / 20_000) + 1 / 12 / 64


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("shape", [(0,), (3,), (2, 3), (2, 0), ()])
def test_shapes_and_types(source, shape):
    counts = np.full(shape, 100, dtype=np.uint8)
    noisy = gaussian(source, counts, 1.0)
    assert noisy.shape == shape
    assert noisy.dtype == np.int64
    assert (counts == 100).all()


@pytest.mark.parametrize("source", SOURCES)
def test_cells_are_independent(source):
    drawn = gaussian(source, np.zeros((20_000, 2), dtype=np.int64), 10.0)
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 6 / math.sqrt(20_000)


@pytest.mark.parametrize("source", SOURCES)
def test_fractions_are_refused_not_cut_off(source):
    with pytest.raises(ValueError, match="whole numbers"):
        gaussian(source, np.array([0.5, 1.0]), 1.0)


class Untouchable:
    """Rows that must not be used."""

    def __call__(self):
        pytest.fail("looked at rows")


@pytest.mark.parametrize("source", [*SOURCES, pytest.param(HalvedNoise(SeededNoise(1)), id="halved")])
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, 1e-200, 1e200])
def test_sensitivities_and_prices_that_are_none_are_refused_before_anything_is_charged(source, bad):
    budget, rows = Budget(Rho(9)), Untouchable()
    for call in (
        lambda: source.gaussian(rows, bad, Rho(1), budget, "x"),
        lambda: source.laplace(rows, bad, 1.0, budget, "x"),
        lambda: source.laplace(rows, 1.0, bad, budget, "x"),
        lambda: source.select(rows, bad, Rho(1), budget, "x"),
    ):
        with pytest.raises(ValueError, match="positive finite number"):
            call()
    for draw in (source.gaussian, source.select):
        with pytest.raises(ValueError, match="positive"):
            draw(rows, 1.0, Rho(0), budget, "x")
    assert not budget.entries


@pytest.mark.parametrize("source", SOURCES)
def test_values_and_scores_that_are_none(source):
    for value in (math.nan, math.inf):
        with pytest.raises(ValueError, match="finite"):
            laplace(source, np.array([1.0, value]), 1.0)
        with pytest.raises(ValueError, match="array of finite scores"):
            select(source, np.array([1.0, value]), 1.0, Rho(1))
    for scores in (np.array([]), np.zeros((2, 2))):
        with pytest.raises(ValueError, match="at least one score"):
            select(source, scores, 1.0, Rho(1))
    with pytest.raises(ValueError, match="less than 2⁶³"):
        gaussian(source, np.array([2**63], dtype=np.uint64), 1.0)


@pytest.mark.parametrize("source", SOURCES)
def test_a_draw_charges_makes_its_noise_for_that_and_looks_only_then(source):
    budget, looked = Budget(Rho(1)), []

    def rows():
        looked.append(budget.spent)
        return np.array([3, 4])

    _, sigma = source.gaussian(rows, 3.0, Rho(0.125), budget, "counts")
    _, scale = source.laplace(lambda: rows().astype(float), 3.0, 0.5, budget, "numbers")
    source.select(lambda: rows().astype(float), 1.0, Rho(0.25), budget, "choice")
    assert (sigma, scale) == (3.0 / math.sqrt(0.25), 6.0)
    assert budget.entries == (("counts", Rho(0.125)), ("numbers", Rho(0.125)), ("choice", Rho(0.25)))
    assert looked == [Rho(0.125), Rho(0.25), Rho(0.5)]


@pytest.mark.parametrize("source", SOURCES)
def test_what_the_budget_cannot_pay_looks_at_no_row(source):
    budget, rows = Budget(Rho(0.1)), Untouchable()
    for call in (
        lambda: source.gaussian(rows, 1.0, Rho(0.2), budget, "x"),
        lambda: source.laplace(rows, 1.0, 0.5, budget, "x"),
        lambda: source.select(rows, 1.0, Rho(0.2), budget, "x"),
    ):
        with pytest.raises(BudgetExceeded):
            call()
    assert not budget.entries


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("sensitivity", "rho"), [(1.0, 0.5), (4.0, 2.0)])
def test_selection_has_the_exponential_mechanisms_probabilities(source, sensitivity, rho):
    """A chi-squared test of 10,000 draws with a false alarm probability of 10⁻⁶.

    The probabilities are proportional to exp(ε·score/(2Δ)) with ε = √(8ρ).
    """
    scores = np.array([0.0, 1.0, 2.0, 2.5, -1.0])
    weights = np.exp(math.sqrt(8 * rho) * scores / (2 * sensitivity))
    picked = np.bincount([select(source, scores, sensitivity, Rho(rho)) for _ in range(10_000)], minlength=5)
    assert chi_square_p_value(picked, weights / weights.sum()) > FALSE_ALARM


@pytest.mark.parametrize("source", SOURCES)
def test_selection_prefers_high_scores(source):
    scores = np.zeros(50)
    scores[17] = 1000.0
    assert {select(source, scores, 1.0, Rho(0.5)) for _ in range(50)} == {17}
    assert select(source, np.array([-1e6]), 1.0, Rho(1e-9)) == 0


def test_opendp_charges_what_is_claimed():
    """The privacy maps of OpenDP are used with typical scales and sensitivities."""
    for rho in (1e-6, 0.0149731, 0.5, 10.0):
        for sensitivity in (1.0, math.sqrt(2), 3.0):
            sigma = gaussian_sigma(rho, sensitivity)
            assert noise_module._discrete_gaussian(sigma).map(sensitivity) == pytest.approx(rho, rel=1e-9)
            assert noise_module._laplace_vector(sigma).map(sensitivity) == pytest.approx(sensitivity / sigma, rel=1e-9)
            maximum = noise_module._noisy_max(2 * sensitivity / selection_epsilon(rho))
            assert maximum.map(sensitivity) == pytest.approx(rho, rel=1e-9)


@pytest.mark.parametrize("sampler", ["_discrete_gaussian", "_laplace_vector", "_noisy_max"])
@pytest.mark.parametrize("charged", [1.001, math.inf, math.nan])
def test_a_release_that_opendp_would_charge_more_for_is_stopped(monkeypatch, charged, sampler):
    class Overcharging:
        def map(self, distance):
            return charged

        def __call__(self, scores):
            pytest.fail("released")

    monkeypatch.setattr(noise_module, sampler, lambda scale: Overcharging())
    draw = {"_discrete_gaussian": SecureNoise().gaussian, "_laplace_vector": SecureNoise().laplace}.get(sampler)
    price = 1.0 if sampler == "_laplace_vector" else Rho(1)
    with pytest.raises(RuntimeError, match="OpenDP charges"):
        (draw or SecureNoise().select)(np.array([1]), 1.0, price, Budget(Rho(1)), "x")


@pytest.mark.parametrize("factor", [0.5, 0.9, 0.999999])
def test_opendp_s_own_account_stops_noise_that_is_too_small(monkeypatch, factor):
    """The check must detect a scale that is too small for ρ. It must not compare the scale with itself."""
    honest = gaussian_sigma
    monkeypatch.setattr(noise_module, "gaussian_sigma", lambda *price: factor * honest(*price))
    monkeypatch.setattr(noise_module, "selection_epsilon", lambda rho: selection_epsilon(rho) / factor)
    with pytest.raises(RuntimeError, match="OpenDP charges"):
        SecureNoise().gaussian(np.array([1]), 7.3, Rho(0.2), Budget(Rho(1)), "x")
    with pytest.raises(RuntimeError, match="OpenDP charges"):
        SecureNoise().select(np.array([1.0, 2.0]), 7.3, Rho(0.2), Budget(Rho(1)), "x")
    with pytest.raises(RuntimeError, match="OpenDP charges"):
        SecureNoise()._laplace(np.array([1.0]), factor * 7.3 / 0.2, 7.3, 0.2)


def test_flags_and_names():
    assert SecureNoise().private is True
    assert SeededNoise(1).private is False
    assert dp.__version__ in SecureNoise().name
    assert "NOT PRIVATE" in SeededNoise(1).name
    assert isinstance(SecureNoise().spawn(3), SecureNoise)
    assert not SeededNoise(1).spawn(3).private


def draws(source, number=50):
    return [*gaussian(source, np.zeros(number, dtype=np.int64), 100.0), *laplace(source, np.zeros(2), 1.0)]


def test_seeded_noise_is_reproducible():
    assert draws(SeededNoise(7)) == draws(SeededNoise(7))
    assert draws(SeededNoise(7)) != draws(SeededNoise(8))
    scores = np.zeros(1000)
    assert select(SeededNoise(7), scores, 1.0, Rho(1)) == select(SeededNoise(7), scores, 1.0, Rho(1))


def test_streams_depend_on_the_seed_and_their_number_only():
    fresh, used = SeededNoise(7), SeededNoise(7)
    draws(used)
    used.spawn(9)
    assert draws(fresh.spawn(3)) == draws(used.spawn(3))
    assert draws(fresh.spawn(2).spawn(1)) == draws(used.spawn(2).spawn(1))
    streams = [fresh.spawn(0), fresh.spawn(1), fresh.spawn(12), fresh.spawn(1).spawn(2), SeededNoise(7), SeededNoise(8)]
    assert len({tuple(draws(stream)) for stream in streams}) == len(streams)


@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(7)])
def test_sources_travel_to_worker_processes(source):
    assert pickle.loads(pickle.dumps(source)).private == source.private


def test_secure_noise_does_not_repeat():
    assert draws(SecureNoise()) != draws(SecureNoise())
    assert draws(SecureNoise().spawn(1)) != draws(SecureNoise().spawn(1))


# The following tests try to refute the privacy guarantee. The neighbouring tables have 100 rows and 101 rows in a
# single cell. The guarantee is ρ-zCDP, which implies (rho.epsilon(δ), δ)-DP for each δ, and 1/scale for Laplace noise.
# Each test has a false alarm probability of 10⁻⁶. If the noise is half as large, the bound is at least six standard
# deviations above the guarantee, which was found by simulation.

RUNS, DELTA, ALARM = 20_000, 0.05, 1e-6
CLAIM = Rho(0.5)


def gaussian_runs(source):
    sigma = gaussian_sigma(CLAIM)
    return (gaussian(source, np.full(RUNS, count), sigma) for count in (100, 101))


def gaussian_vector_runs(source):
    """Return the best linear statistic of a release in which the added row changes three cells. The L2 sensitivity is
    √3.
    """
    sigma = gaussian_sigma(CLAIM, math.sqrt(3))
    return (gaussian(source, np.full((RUNS, 3), count), sigma).sum(axis=1) for count in (100, 101))


def laplace_runs(source):
    return (laplace(source, np.full(RUNS // 2, value), 2.5) for value in (0.0, 2.5))


def selection_runs(source):
    """Return runs for the worst case of the exponential mechanism, in which an unlikely choice gains Δ and the other
    choices lose Δ.
    """
    pairs = (np.array([0.0, 2.2]), np.array([1.0, 1.2]))
    return ([select(source, scores, 1.0, CLAIM) for _ in range(RUNS // 2)] for scores in pairs)


REFUTATIONS = [
    pytest.param(gaussian_runs, DELTA, CLAIM.epsilon(DELTA), id="gaussian"),
    pytest.param(gaussian_vector_runs, DELTA, CLAIM.epsilon(DELTA), id="gaussian of a vector"),
    pytest.param(laplace_runs, 0.0, 1.0, id="laplace"),
    pytest.param(selection_runs, 0.0, selection_epsilon(CLAIM), id="selection", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("runs", "delta", "claim"), REFUTATIONS)
def test_the_claim_is_not_refuted(source, runs, delta, claim):
    assert empirical_epsilon(*runs(source), delta, false_alarm=ALARM) <= claim


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("runs", "delta", "claim"), REFUTATIONS)
def test_half_the_noise_is_refuted(source, runs, delta, claim):
    assert empirical_epsilon(*runs(HalvedNoise(source)), delta, false_alarm=ALARM) > claim


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.05, 2.0])
def test_the_claim_of_the_secure_gaussian_stands_over_300_000_runs(rho):
    sigma = gaussian_sigma(rho)
    a, b = (gaussian(SecureNoise(), np.full(300_000, count), sigma) for count in (100, 101))
    for delta in (1e-3, 0.01, 0.1):
        assert empirical_epsilon(a, b, delta, false_alarm=ALARM) <= Rho(rho).epsilon(delta)


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.3, 25.0])
def test_secure_integers_are_discrete_gaussian_over_300_000_draws(sigma):
    reach = math.ceil(12 * sigma) + 2
    drawn = gaussian(SecureNoise(), np.zeros(300_000, dtype=np.int64), sigma)
    observed = np.bincount(drawn + reach, minlength=2 * reach + 1)
    assert chi_square_p_value(observed, discrete_gaussian_pmf(sigma, reach)) > FALSE_ALARM


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("trials", "p"), [(1, 0.3), (5, 0.25), (63, 0.75), (64, 0.5), (65, 0.4321), (300, 0.01)])
def test_binomial_draws(source, trials, p):
    """A chi-squared test with a false alarm probability of 10⁻⁶."""
    drawn = source.binomial(trials, np.full(20_000, p))
    assert drawn.min() >= 0
    assert drawn.max() <= trials
    observed = np.bincount(drawn, minlength=trials + 1)
    pooled = stats.binom.pmf(np.arange(trials + 1), trials, p)
    order = np.argsort(-pooled)  # the function merges the rare cells
    assert chi_square_p_value(observed[order], pooled[order]) > FALSE_ALARM


@pytest.mark.parametrize("source", SOURCES)
def test_binomial_draws_follow_their_own_probability(source, monkeypatch):
    """The array contains several blocks, with probabilities of 0 and 1 in each position. The result is exact."""
    monkeypatch.setattr(coins_module, "ROWS_AT_ONCE", 4)
    p = np.array([[0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert (source.binomial(70, p) == 70 * p).all()
    assert source.binomial(3, np.empty(0)).shape == (0,)
    mixed = source.binomial(100_000, np.array([0.0, 0.25, 0.5, 0.75, 1.0] * 3))
    assert abs(mixed / 100_000 - np.array([0.0, 0.25, 0.5, 0.75, 1.0] * 3)).max() < 0.012  # 7.6 standard deviations


@pytest.mark.parametrize("source", SOURCES)
def test_neighbouring_binomial_draws_are_independent(source):
    """The correlation has a standard deviation of 1/√40,000. The false alarm probability of six standard deviations is
    2·10⁻⁹.
    """
    drawn = source.binomial(10, np.full(40_001, 0.3)).astype(float)
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 6 / 200


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("trials", "p"), [(0, 0.5), (2**31, 0.5), (5, -0.1), (5, 1.1), (5, math.nan)])
def test_binomial_draws_that_are_none(source, trials, p):
    with pytest.raises(ValueError, match="binomial draw"):
        source.binomial(trials, np.array([p]))


def test_a_small_probability_keeps_its_first_64_places(monkeypatch):
    """The bits of U are given. The value U = 0.0…01 (64 places) is less than p = 2⁻⁶³ and is not less than 2⁻⁶⁴."""
    for place, successes in ((63, 1), (64, 0)):
        tosses = iter([1] * 63 + [0])  # 63 places are 0 and the last place is 1
        monkeypatch.setattr(coins_module, "_fair_coins", lambda rows, tosses=tosses: np.array([next(tosses)]))
        assert SecureNoise().binomial(1, np.array([2.0**-place])).tolist() == [successes]
