"""What a stratum's other columns say of one of its columns.

A stratum that is younger than others has fewer people who work: its ages, counted with noise, say something of its
hours, which were counted with noise, too. How columns go together is known of all rows. A stratum's shares of the cells
i and j of two columns are taken to be off from what other strata predict with the correlation that both indicators have
among rows, (p_ij − p_i·p_j)/√(p_i·p_j), times a constant, so that the cells of all its columns are jointly normal. A
column's prediction is then its conditional law given the stratum's own counts of the other columns. Post-processing of
noisy numbers. See docs/proofs/shrinkage.md.

>>> half, works = np.array([[0.5, 0.5]]), np.array([[0.4, 0.1], [0.1, 0.4]])
>>> told = {"AGE": (half, np.full((1, 2), 0.1)), "JOB": (half, np.full((1, 2), 0.1))}
>>> looks = {"AGE": [(np.array([0.7, 0.3]), 0.01)], "JOB": [(np.array([0.5, 0.5]), 1.0)]}
>>> shares, sigma = related(told, looks, {("AGE", "JOB"): (works, 0.001)})["JOB"]
>>> shares.round(2).tolist(), bool((sigma < 0.1).all())
([[0.57, 0.43]], True)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats

# docs/experiments/shrinkage.md
# Of the correlation among rows, that of what strata are off by: before they are looked at, mean and standard deviation.
_ALIKE, _ALIKE_SPREAD = 0.6, 0.3
_LEAST_SHARE = 0.003  # of a cell of a column, in its correlations
LEAST_VARIANCE = 1e-12  # of a share
_LEAST_EIGENVALUE = 0.02  # of correlations, of which not all pairs are known
_MOST_CELLS = 400  # of all columns together; work grows with their cube in each stratum

Told = tuple[Floats, Floats]  # of each stratum: predicted shares, and their σ


def related(
    predicted: Mapping[str, Told],
    looks: Mapping[str, Sequence[tuple[Floats, float] | None]],
    pairs: Mapping[tuple[str, str], tuple[Floats, float]],
) -> dict[str, Told]:
    """Predictions of columns given each stratum's own counts of the others.

    Args:
        predicted: column → the shares of its cells as other strata predict them, and their σ as of independent cells,
            shapes (k, c).
        looks: column → of each stratum, its shares as counted there and their σ; None where they were not counted.
        pairs: two columns → the shares of their cells in all rows, and their σ.
    """
    names = list(predicted)
    ends = np.cumsum([0, *(predicted[name][0].shape[1] for name in names)]).tolist()
    places = {name: np.arange(*span) for name, span in zip(names, pairwise(ends), strict=True)}
    if not pairs or ends[-1] > _MOST_CELLS:
        return dict(predicted)
    means, sigmas = (np.hstack([predicted[name][part] for name in names]) for part in range(2))
    parts = {}
    for (a, b), (shares, sigma) in pairs.items():
        part = _correlation(shares, sigma)
        parts[a, b] = part * _alike(part, [(predicted[name], looks[name]) for name in (a, b)])
    correlations = _correlations(places, parts, ends[-1])
    found = means.copy(), sigmas.copy()
    for stratum in range(len(means)):
        own = {name: look for name in names if (look := looks[name][stratum]) is not None}
        if not own:
            continue
        seen = np.concatenate([places[name] for name in own])
        apart = np.concatenate([look[0] for look in own.values()]) - means[stratum, seen]
        noise = np.concatenate([np.full(len(look[0]), look[1] ** 2) for look in own.values()])
        prior = correlations * np.outer(sigmas[stratum], sigmas[stratum])
        inverse = np.linalg.inv(prior[np.ix_(seen, seen)] + np.diag(noise))
        pulls = inverse @ apart
        for name, cells in places.items():
            if name in own:  # without its own counts, by the leave-one-out identity
                block = np.flatnonzero(np.isin(seen, cells))
                alone = np.linalg.inv(inverse[np.ix_(block, block)])
                mean = means[stratum, cells] + apart[block] - alone @ pulls[block]
                left = np.diag(alone) - noise[block]
            else:
                across = prior[np.ix_(cells, seen)]
                mean = means[stratum, cells] + across @ pulls
                left = sigmas[stratum, cells] ** 2 - ((across @ inverse) * across).sum(1)
            left = np.maximum(left, LEAST_VARIANCE)
            found[0][stratum, cells] = mean + (1 - mean.sum()) * left / left.sum()
            found[1][stratum, cells] = np.sqrt(left)
    return {name: (found[0][:, cells], found[1][:, cells]) for name, cells in places.items()}


def _alike(correlation: Floats, columns: Sequence[tuple[Told, Sequence[tuple[Floats, float] | None]]]) -> float:
    """How much of the correlation among rows strata show in what they are off by, from 0 to 1: the posterior mean.

    The noise of two columns is independent, so what the products of both are expected to be has no noise in it.
    """
    precision, sums = _ALIKE_SPREAD**-2, _ALIKE * _ALIKE_SPREAD**-2
    ((shares, sigma), first), ((other_shares, other_sigma), second) = columns
    for stratum, (one, two) in enumerate(zip(first, second, strict=True)):
        if one is not None and two is not None:
            apart, other = one[0] - shares[stratum], two[0] - other_shares[stratum]
            scaled = correlation * np.outer(sigma[stratum], other_sigma[stratum])
            known, other_known = sigma[stratum] ** 2 + one[1] ** 2, other_sigma[stratum] ** 2 + two[1] ** 2
            weighted = scaled / np.outer(known, other_known)
            precision += float((scaled * weighted).sum())
            sums += float(apart @ weighted @ other)
    return min(max(sums / precision, 0.0), 1.0)


def _correlations(
    places: Mapping[str, npt.NDArray[np.intp]], parts: Mapping[tuple[str, str], Floats], size: int
) -> Floats:
    """The correlations of all cells, shape (size, size): of two columns that were not measured together none is known,
    and it is taken as zero."""
    found = np.eye(size)
    for (a, b), part in parts.items():
        found[np.ix_(places[a], places[b])] = part
        found[np.ix_(places[b], places[a])] = part.T
    values, vectors = np.linalg.eigh(found)
    if values[0] < _LEAST_EIGENVALUE:
        found = (vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T
        found = found / np.sqrt(np.outer(np.diag(found), np.diag(found)))
    return np.asarray(found)


def _correlation(shares: Floats, sigma: float) -> Floats:
    """(p_ij − p_i·p_j)/√(p_i·p_j) of two columns, shrunk by empirical Bayes: that of a rare cell is mostly noise."""
    shares = np.maximum(shares, 0.0)
    shares = shares / max(float(shares.sum()), 1e-12)
    rows, columns = shares.sum(1, keepdims=True), shares.sum(0, keepdims=True)
    usual = np.maximum(rows, _LEAST_SHARE) * np.maximum(columns, _LEAST_SHARE)
    raw, noise = (shares - rows * columns) / np.sqrt(usual), sigma**2 / usual
    weights = noise**-2.0 if sigma else np.ones(noise.shape)
    real = max(float((weights * (raw**2 - noise)).sum() / weights.sum()), 0.0)
    return np.asarray(raw * real / np.maximum(real + noise, 1e-300))
