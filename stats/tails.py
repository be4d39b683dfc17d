"""The outer bins of a noisy histogram: which few rows are in, so that their noise would move means and variances.

>>> edges, rows = np.arange(41.0), 1000 * 0.8 ** np.arange(40)
>>> noisy = rows + np.random.default_rng(0).normal(0, 30, 40)
>>> found = outer(noisy, noisy, edges, 30.0, 30 * np.sqrt(np.arange(40, 0, -1)), start=10, heavy=True)
>>> [round(float(np.maximum(x, 0)[25:].sum())) for x in (noisy, np.append(noisy[:10], found), rows)]
[118, 7, 18]
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import isotonic_regression

from equistrata.arrays import Floats

_SEEN = 4.0  # standard deviations by which a bin stands out, or rows further out are seen: many are looked at
_NARROW = 1e-6  # of a bin of middle width: a rule may leave one number alone in a bin, which has no density
_PASSES = 3  # how often bins that stand out are set aside
_FALL = 4.0  # see `_extrapolated`


def outer(
    raw: Floats,
    smooth: Floats,
    edges: Floats,
    sigma: float,
    beyond: Floats,
    start: int,
    rising: bool = False,
    heavy: bool = False,
) -> Floats:
    """Counts of the outer bins: their density is monotone, except in bins far above it; a heavy tail ends as Pareto's.

    Args:
        raw, smooth: noisy counts, and the same smoothed, of all bins from the other end outwards, shape (b,).
        edges: of the bins, ascending or descending, shape (b + 1,).
        sigma: standard deviation of a raw count.
        beyond: standard deviation of the sum of each raw count and all that are further out, shape (b,).
        start: the first of the outer bins.
        rising: whether the density may also rise outwards, if that fits better.
        heavy: whether bins grow wider outwards, so that few rows of noise are far out: the tail is Pareto's then.

    Returns:
        Counts of the bins from `start` on.
    """
    widths, ours = np.abs(np.diff(edges))[start:], raw[start:]
    widths = np.maximum(widths, _NARROW * np.median(widths))
    density, weights, bins = ours / widths, widths**2, np.arange(len(ours))  # weights: in σ⁻²
    stand_out, monotone = np.zeros(len(ours), dtype=bool), np.asarray(ours)
    for _ in range(_PASSES):  # bins that stand out would pull their neighbours up
        rest = bins[~stand_out]
        fits = [
            isotonic_regression(density[rest], weights=weights[rest], increasing=up).x
            for up in (False, True)[: 1 + rising]
        ]
        best = min(fits, key=lambda fit: float(weights[rest] @ (density[rest] - fit) ** 2))
        monotone = np.interp(bins, rest, best) * widths
        stand_out = smooth[start:] > monotone + _SEEN * sigma
    if not heavy:
        return np.asarray(np.where(stand_out, smooth[start:], monotone))
    places = np.arcsinh(edges)
    falling = np.append(raw[:start], ours - np.where(stand_out, smooth[start:] - monotone, 0.0))
    found = _extrapolated(np.append(raw[:start], monotone), falling, np.abs(places - places[0]), beyond, start)
    return np.asarray(np.where(stand_out, smooth[start:], found[start:]))


def _extrapolated(counts: Floats, raw: Floats, out: Floats, deviations: Floats, start: int) -> Floats:
    """Counts of which the last fall exponentially in `out` (Pareto's law in the values), after the last bin from which
    on rows are seen.

    Seen are _SEEN standard deviations. The tail falls as fast as it did since there were _FALL times as many rows.
    """
    rows = np.cumsum(raw[::-1])[::-1]
    seen = np.flatnonzero(rows >= _SEEN * deviations)
    last = int(seen[-1]) if len(seen) else 0
    enough = np.flatnonzero(rows[:last] >= _FALL * rows[last])
    first = int(enough[-1]) if len(enough) else 0
    if not start <= last < len(raw) - 1 or last == first or rows[first] <= rows[last]:
        return counts
    rate = np.log(rows[first] / rows[last]) / (out[last] - out[first])
    falls = -np.diff(np.exp(-rate * (out[last + 1 :] - out[last + 1])))
    return np.append(counts[: last + 1], max(rows[last + 1], 0.0) * falls / falls.sum())
