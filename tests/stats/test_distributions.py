"""Tests of the distributions of noisy proportions, which are compared with numerical integrals and sums."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from equistrata.errors import InputError
from equistrata.stats.distributions import BinomialLaplace, NormalLaplace, at_least_zero, upper_end


def integrated(x: float, sd: float, scale: float) -> float:
    """Return P(N(0, sd²) + Laplace(scale) ≤ x) by numerical integration over the Laplace variable."""
    width = 6 * sd / scale
    cuts = sorted({-60.0, 60.0, 0.0, *(min(max(x / scale + s * width, -60.0), 60.0) for s in (-1, 0, 1))})
    pieces = itertools.pairwise(cuts)
    return math.fsum(
        integrate.quad(lambda t: stats.norm.cdf((x - scale * t) / sd) * math.exp(-abs(t)) / 2, a, b, epsabs=1e-13)[0]
        for a, b in pieces
    )


@pytest.mark.parametrize("ratio", [0.01, 0.3, 1.0, 3.0, 30.0, 1000.0])
@pytest.mark.parametrize("z", [-6.0, -0.5, 0.0, 0.7, 2.0, 8.0])
def test_normal_laplace_is_the_convolution(ratio, z):
    law = NormalLaplace(sd=2.0, scale=2.0 / ratio, mean=5.0)
    assert float(law.cdf(5.0 + 2.0 * z)) == pytest.approx(integrated(2.0 * z, 2.0, 2.0 / ratio), abs=2e-9)


@pytest.mark.parametrize("ratio", [1e-8, 0.5, 20.0, 1e6, 1e12])
def test_normal_laplace_tails_do_not_overflow_or_cancel(ratio):
    law = NormalLaplace(sd=1.0, scale=1.0 / ratio)
    x = np.linspace(0, 30, 301)
    with np.errstate(all="raise", under="ignore"):
        tail = law.sf(x)
    assert (tail > 0).all()
    assert (np.diff(tail) < 0).all()
    assert law.cdf(-x) == pytest.approx(tail, rel=1e-12)
    assert law.cdf(x) + tail == pytest.approx(1)


def test_normal_laplace_ends_in_its_two_parts():
    normal, laplace = stats.norm(0, 3), stats.laplace(0, 3)
    x = np.linspace(-12, 12, 49)
    assert NormalLaplace(sd=3.0, scale=0.0).cdf(x) == pytest.approx(normal.cdf(x))
    assert NormalLaplace(sd=3.0, scale=1e-7).cdf(x) == pytest.approx(normal.cdf(x))
    assert NormalLaplace(sd=1e-7, scale=3.0).cdf(x) == pytest.approx(laplace.cdf(x))


@pytest.mark.parametrize("p", [1e-9, 0.025, 0.4, 0.5, 0.9, 0.975, 1 - 1e-9])
@pytest.mark.parametrize("scale", [0.0, 1e-6, 0.2, 1.0, 5e3])
def test_normal_laplace_quantile_inverts(p, scale):
    law = NormalLaplace(sd=1.0, scale=scale, mean=-2.0)
    at = law.quantile(p)
    reached = float(law.cdf(at)) if p < 0.5 else 1 - float(law.sf(at))
    assert reached == pytest.approx(p, rel=1e-9)


@pytest.mark.parametrize("rows", [1, 7, 50])
@pytest.mark.parametrize("p", [0.0, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("scale", [0.2, 3.0, 40.0])
def test_binomial_laplace_is_the_sum_over_counts(rows, p, scale):
    law = BinomialLaplace(rows, p, scale)
    for y in (-2.5 * scale, 0.0, rows * p, rows / 2 + 0.25, rows + 4 * scale):
        total = math.fsum(stats.binom.pmf(k, rows, p) * stats.laplace.cdf(y - k, scale=scale) for k in range(rows + 1))
        assert float(law.cdf(y)) == pytest.approx(total, rel=1e-9, abs=1e-15)
        assert float(law.cdf(y) + law.sf(y)) == pytest.approx(1)


def test_binomial_laplace_leaves_no_mass_out_of_a_large_sum():
    """The sum over a million rows uses a window, and the moments must be equal to the moments of the full sum."""
    law = BinomialLaplace(1_000_000, 0.3, 5.0)
    k, pmf = law._support
    assert len(k) < 20_000
    assert float(k @ pmf) == pytest.approx(300_000, rel=1e-12)
    assert float((k - 300_000) ** 2 @ pmf) == pytest.approx(210_000, rel=1e-9)
    assert BinomialLaplace(2_000_000, 1e-6, 5.0)._support[1][:3] == pytest.approx(
        stats.poisson.pmf([0, 1, 2], 2), rel=1e-5
    )


@pytest.mark.parametrize("q", [1e-8, 0.025, 0.5, 0.975, 1 - 1e-8])
@pytest.mark.parametrize(("rows", "p", "scale"), [(5, 0.05, 20.0), (5, 0.95, 0.5), (50, 0.5, 0.01), (3000, 0.2, 2.0)])
def test_binomial_laplace_quantile_inverts(q, rows, p, scale):
    law = BinomialLaplace(rows, p, scale)
    at = law.quantile(q)
    assert float(law.cdf(at)) == pytest.approx(q, rel=1e-7)
    assert float(law.sf(at)) == pytest.approx(1 - q, rel=1e-7)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: NormalLaplace(sd=0.0, scale=1.0), "sd"),
        (lambda: NormalLaplace(sd=1.0, scale=-1.0), "scale"),
        (lambda: NormalLaplace(sd=math.nan, scale=1.0), "sd"),
        (lambda: NormalLaplace(sd=1.0, scale=1.0).quantile(1.0), "p is 1"),
        (lambda: BinomialLaplace(0, 0.5, 1.0), "rows"),
        (lambda: BinomialLaplace(2.5, 0.5, 1.0), "rows"),
        (lambda: BinomialLaplace(5, 1.5, 1.0), "p is 1.5"),
        (lambda: BinomialLaplace(5, 0.5, 0.0), "scale"),
    ],
)
def test_bad_parameters_are_named(make, named):
    with pytest.raises(InputError, match=named):
        make()


@pytest.mark.parametrize("value", [-80.0, -9.0, 0.0, 4.0, 70.0])
def test_a_number_that_is_not_below_zero_is_its_posterior_mean(value: float) -> None:
    around = max(value, 0.0)

    def density(x: float) -> float:
        return math.exp(-((x - value) ** 2 - (around - value) ** 2) / 200)

    mass = integrate.quad(density, 0, around + 90)[0]
    mean = integrate.quad(lambda x: x * density(x), 0, around + 90)[0] / mass
    assert at_least_zero(np.array([value]), 10.0)[0] == pytest.approx(mean, rel=1e-6)


def test_intervals_of_what_is_not_below_zero_cover_and_are_never_empty():
    """The test uses 20,000 draws. The tolerance for the coverage is .006. The probability of a
    false alarm is 0.0001.
    """
    rng = np.random.default_rng(2)
    for truth in (0.0, 5.0, 30.0, 1000.0):
        drawn = truth + 10 * rng.standard_normal(20_000)
        lower, upper = np.maximum(drawn - 19.6, 0.0), upper_end(drawn, 10.0, 0.95)
        assert np.mean((lower <= truth) & (truth <= upper)) >= 0.944
        assert (upper > 0).all()
        assert (upper >= drawn + 19.599).all()
    assert upper_end([0.0, 3.0, -1e9], [0.0, 0.0, 1.0], 0.95).tolist() == pytest.approx([0.0, 3.0, 0.0], abs=1e-6)
