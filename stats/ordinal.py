"""Counts of ordered codes from noisy sums of them: how smooth they are, and whether people round, the sums say.

Any sums of codes are known with independent Gaussian noise: the codes themselves, nodes of a tree, the sums that a
measurement of several columns holds. A count is a smooth part plus its own effect. The smooth part is a Gaussian
process around the counts nearby, with variances at several lengths found by EM. Effects are a mixture of chance
(normal, by the count expected) and of atoms (exponential, in multiples of the counts nearby), with weights found from
the sums, for round numbers apart. Or all may be effects. The posterior is found by expectation propagation (Minka,
2001), and models of it are averaged by their marginal likelihood. So ages are smooth and hours of work are not.

>>> rng, rows = np.random.default_rng(0), 300 * np.exp(-(((np.arange(60) - 20) / 15.0) ** 2))
>>> rows[30] += 500
>>> noisy = rows + rng.normal(0, 30, 60)
>>> found = ordinal_counts(Sums(np.eye(60) / 900, noisy / 900), np.full(60, rows.mean()))
>>> [round(float(np.sqrt(((x - rows) ** 2).mean()))) for x in (noisy, found.counts)], round(found.smooth, 2)
([27, 15], 1.0)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, logsumexp

from equistrata.arrays import Floats

# docs/experiments/numbers.md
_LENGTHS = (3.0, 10.0, 30.0, 1000.0)  # codes: of the smooth part; the last is its level, of which nothing is learnt
_VARIANCES = (0.02, 0.05, 0.1, 1.0)  # relative, of each at the start
_CHANCE = (1.0, 4.0, 16.0)  # variances of normal effects, in counts expected
_ATOMS = (0.2, 0.6, 1.5, 4.0, 12.0)  # means of exponential effects, in the counts nearby
_ALONE = (0.05, *_ATOMS)  # the same where nothing is smooth
_NEAR = 9  # codes: from here on counts are not nearby
_PASSES, _DAMPING = 25, 0.5
_FIRST, _EVERY = 8, 4  # passes before the counts nearby are found again, and between
_LEARNT = 4  # passes before variances are learnt
_PSEUDO = 0.3  # codes of each kind a priori
_LEAST, _FAINT = 0.5, 0.02  # rows: of what is expected, and where a tail has ended
_FREE = 100.0  # standard deviations of the noise: the prior's of a count that is taken as measured


@dataclass(frozen=True, eq=False)
class Sums:
    """What is known of the counts: the precision of all sums together, shape (codes, codes), of full rank, and that
    times the counts that fit them best, shape (codes,)."""

    precision: Floats
    weighed: Floats

    @classmethod
    def of(cls, codes: int) -> Sums:
        """Nothing."""
        return cls(np.zeros((codes, codes)), np.zeros(codes))

    def added(self, groups: npt.NDArray[np.intp], values: Floats, variance: float) -> Sums:
        """With the sums of groups of codes, shape (groups,), of this variance each.

        Args:
            groups: of each code.
        """
        inside = (groups == np.arange(len(values))[:, None]).astype(np.float64)
        return Sums(self.precision + inside.T @ inside / variance, self.weighed + inside.T @ values / variance)


@dataclass(frozen=True, eq=False)
class OrdinalCounts:
    """The codes' posterior mean counts, shape (codes,), which may be below zero; and the probability that there is a
    smooth part."""

    counts: Floats
    smooth: float


def ordinal_counts(
    sums: Sums,
    nearby: Floats,
    free: npt.NDArray[np.bool_] | None = None,
    kinds: npt.NDArray[np.intp] | None = None,
    most: Floats | None = None,
) -> OrdinalCounts:
    """The posterior of the codes' counts.

    Args:
        nearby: about what a code is expected to hold, shape (codes,).
        free: codes that are no part of a density, as zero or 40 hours: known by the sums alone.
        kinds: of codes, 0, 1, …, of which some may be atoms more often than others: round numbers.
        most: as `nearby`, what it may be found to be at most: a tail that is not seen falls.
    """
    codes = len(nearby)
    free = np.zeros(codes, dtype=np.bool_) if free is None else free
    one = np.zeros(codes, dtype=np.intp)
    apart = [one] if kinds is None or not kinds.any() else [one, kinds]
    most = np.full(codes, np.inf) if most is None else most
    laws = [_Law(sums, free, each, smooth, most) for each in apart for smooth in (True, False)]
    found = [law.fitted(nearby) for law in laws]
    likelihoods = np.array([likelihood for _, likelihood in found])
    weights = np.exp(likelihoods - logsumexp(likelihoods))
    smooth = float(weights @ np.array([law.smooth for law in laws]))
    return OrdinalCounts(np.asarray(weights @ np.array([counts for counts, _ in found])), smooth)


@dataclass(frozen=True, eq=False)
class _Law:
    """A model of the counts: the sums, which codes are free, their kinds, whether there is a smooth part, and the most
    that is expected of each."""

    sums: Sums
    free: npt.NDArray[np.bool_]
    kinds: npt.NDArray[np.intp]
    smooth: bool
    most: Floats

    def fitted(self, nearby: Floats) -> tuple[Floats, float]:
        """The posterior mean counts and the logarithm of the marginal likelihood, without a constant of the sums."""
        codes, free, precision = len(nearby), self.free, self.sums.precision
        places = np.arange(codes)
        apart = np.abs(places[:, None] - places)
        kernels = np.exp(-((apart[None] / np.array(_LENGTHS)[:, None, None]) ** 2) / 2) * self.smooth
        window = np.maximum(1 - apart / (_NEAR + 1), 0.0) * ~free
        noise = np.linalg.inv(precision)
        best = noise @ self.sums.weighed
        floor = np.clip(self.most, _FAINT, _LEAST)
        most = np.maximum(self.most, floor)
        near = np.clip(nearby, floor, most)
        # What takes the place of an effect's prior: a normal one of this precision, and precision times mean.
        known = np.where(free, 1 / (_FREE**2 * np.diag(noise)), 1 / (3 * near) ** 2)
        pull = known * np.where(free, best, 0.0 if self.smooth else near)
        variances, level = np.array(_VARIANCES), near * self.smooth
        weights = np.full((int(self.kinds.max()) + 1, len(_CHANCE) * self.smooth + len(self.atoms)), 1.0)
        weights /= weights.sum(1, keepdims=True)
        for step in range(_PASSES + 1):
            curve = level[:, None] * level * np.tensordot(variances, kernels, 1)
            prior = curve + np.diag(1 / known)
            solved = np.linalg.inv(np.eye(codes) + precision @ prior)
            gap = solved @ (self.sums.weighed - precision @ (level + pull / known))
            seen = solved @ precision
            counts = level + pull / known + prior @ gap
            spread = np.maximum(1 / known - np.diag(seen) / known**2, 1e-9)
            around = 1 / np.maximum(1 / spread - known, 1e-12)  # the effect's variance by all else, and its mean
            mean = around * ((pull + gap) / known / spread - pull)
            expected = np.clip(level + curve @ gap, floor, near)
            logs, means, seconds = self._effects(mean, around, expected, near)
            for _ in range(3):
                parts = logs + np.log(weights)[self.kinds]
                parts = np.exp(parts - np.logaddexp.reduce(parts, axis=1, keepdims=True)) * ~free[:, None]
                weights = np.array([parts[self.kinds == kind].sum(0) for kind in range(len(weights))]) + _PSEUDO
                weights /= weights.sum(1, keepdims=True)
            parts = logs + np.log(weights)[self.kinds]
            total = np.logaddexp.reduce(parts, axis=1)
            parts = np.exp(parts - total[:, None])
            if step == _PASSES:
                break
            middle = (parts * means).sum(1)
            width = np.clip((parts * seconds).sum(1) - middle**2, 1e-3, 0.999 * around)
            pull = np.where(free, pull, pull + _DAMPING * (middle / width - mean / around - pull))
            known = np.where(free, known, known + _DAMPING * (1 / width - 1 / around - known))
            if self.smooth and step >= _LEARNT:
                inner, weighed = level * gap, level[:, None] * level * seen
                squares = np.array([inner @ kernel @ inner - np.vdot(kernel, weighed) for kernel in kernels[:-1]])
                variances[:-1] = np.maximum(variances[:-1] + variances[:-1] ** 2 * squares / codes, 1e-6)
            if step >= _FIRST and step % _EVERY == 0:
                held = window @ np.maximum(counts, 0.0) / np.maximum(window.sum(1), 1e-9)
                near = np.clip(held, floor, most)
                level = near * self.smooth
        gaps, spreads = best - level - pull / known, noise + prior
        around, off = around + 1 / known, mean - pull / known
        normal = total + (np.log(2 * np.pi * around) + off**2 / around) / 2
        likelihood = -(gaps @ np.linalg.solve(spreads, gaps) + np.linalg.slogdet(spreads)[1]) / 2
        return counts, float(likelihood + normal[~free].sum())

    @property
    def atoms(self) -> tuple[float, ...]:
        """Means of exponential effects, in the counts nearby."""
        return _ATOMS if self.smooth else _ALONE

    def _effects(self, mean: Floats, variance: Floats, expected: Floats, near: Floats) -> tuple[Floats, Floats, Floats]:
        """Of an effect that all else says is normal: the logarithm of the likelihood of each part of the mixture, and
        the effect's mean and mean square if it is of that part, each of shape (codes, parts)."""
        mean, variance = mean[:, None], variance[:, None]
        chance = expected[:, None] * np.array(_CHANCE[: len(_CHANCE) * self.smooth])
        both = chance + variance
        sizes = np.maximum(near[:, None] * np.array(self.atoms), np.clip(self.most, _FAINT, _LEAST)[:, None])
        width = np.sqrt(variance)
        places = mean / width - width / sizes
        inside = log_ndtr(places)
        ratio = np.exp(-(places**2) / 2 - inside) / np.sqrt(2 * np.pi)
        logs = np.hstack(
            [
                -(np.log(2 * np.pi * both) + mean**2 / both) / 2,
                -mean / sizes + variance / (2 * sizes**2) + inside - np.log(sizes),
            ]
        )
        means = np.hstack([mean * chance / both, width * (places + ratio)])
        spreads = np.hstack([chance * variance / both, variance * np.maximum(1 - ratio * (places + ratio), 1e-6)])
        return logs, means, spreads + means**2
