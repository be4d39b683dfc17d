"""The outer bins of noisy histograms."""

import numpy as np
import pytest

from equistrata.stats.tails import outer

FAR = 5 * np.sqrt(np.arange(60, 0, -1))


def test_density_falls_and_what_stands_out_stays():
    edges, truth = np.arange(61.0), 400 * np.exp(-np.arange(60) / 10)
    truth[30] += 300
    rng = np.random.default_rng(0)
    raw, smooth = truth + rng.normal(0, 5, 60), truth + rng.normal(0, 3, 60)
    found = outer(raw, smooth, edges, 5.0, FAR, 0)
    assert found[30] > 250
    rest = np.delete(found, 30)
    assert (np.diff(rest) <= 1e-9).all()
    assert np.abs(rest - np.delete(truth, 30)).sum() < np.abs(np.delete(raw - truth, 30)).sum()
    np.testing.assert_allclose(outer(raw, smooth, -edges, 5.0, FAR, 0, rising=True), found)


@pytest.mark.parametrize("start", [0, 20])
def test_a_heavy_tail_falls_as_it_did_before_noise(start):
    """Error of the sum of the last 20 bins over 200 draws: a third of that of the noisy counts cut at zero, or less."""
    edges = np.sinh(np.arange(61) / 8)
    truth = 3000 * np.exp(-np.arange(60) / 6)
    rng, ours, plain = np.random.default_rng(0), [], []
    for _ in range(200):
        raw = truth + rng.normal(0, 20, 60)
        found = outer(raw, raw, edges, 20.0, 4 * FAR, start, heavy=True)
        ours.append(abs(found[-20:].sum() - truth[-20:].sum()))
        plain.append(abs(np.maximum(raw, 0)[-20:].sum() - truth[-20:].sum()))
    assert np.mean(ours) < np.mean(plain) / 3


def test_an_atom_far_out_is_kept_and_all_rows_stay():
    edges = np.sinh(np.arange(61) / 8)
    raw = 3000 * np.exp(-np.arange(60) / 6)
    raw[50] += 400
    found = outer(raw, raw, edges, 5.0, FAR, 0, heavy=True)
    assert found[50] == pytest.approx(raw[50])
    assert found.sum() == pytest.approx(raw.sum(), rel=0.01)


def test_where_nothing_is_seen_nothing_is_extrapolated():
    edges, raw = np.sinh(np.arange(61) / 8), np.random.default_rng(0).normal(0, 5, 60)
    np.testing.assert_allclose(
        outer(raw, raw, edges, 5.0, FAR, 0, heavy=True), outer(raw, raw, edges, 5.0, FAR, 0, heavy=False)
    )


def test_a_bin_of_one_number_is_as_if_it_had_no_density():
    edges, raw = np.arange(61.0), 400 * np.exp(-np.arange(60) / 10)
    edges[1] = np.nextafter(edges[0], 1)
    found = outer(raw, raw, edges, 5.0, FAR, 0, rising=True)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[3:], raw[3:], rtol=0.1)
