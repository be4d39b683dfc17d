"""Where a column's codes are as numbers, and how far one distribution on them is from another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.schema import Column
from equistrata.stats.laws import NOISE_L1

WORST_DISTANCE = 1.0  # of distributions that share no value, or are at the ends of the range; of a stratum without rows
FEW_NUMBERS = 20  # distinct numbers in a column without a declaration: with no more they count as names


@dataclass(frozen=True, eq=False)
class Scale:
    """Where a column's codes are as numbers.

    Attributes:
        places: of the codes that are present values, ascending; codes after these are missing.
        range: from the least to the largest number that is declared (or occurs, where nothing is declared).
    """

    places: Floats
    range: float

    @classmethod
    def of(cls, column: Column, declared: bool = True) -> Scale | None:
        """The middles of a numeric column's bins, or ordinal codes; None for names.

        Without a declaration, many numbers are a scale.
        """
        if column.numeric:
            edges = np.clip(column.cuts, *column.bounds)
            return cls((edges[1:] + edges[:-1]) / 2, column.bounds[1] - column.bounds[0])
        if column.ordered:
            return cls(np.arange(column.size, dtype=np.float64), max(column.size - 1.0, 1.0))
        numbers = [value for value in column.values if not isinstance(value, str) and not math.isnan(value)]
        if declared or len(numbers) <= FEW_NUMBERS or any(isinstance(value, str) for value in column.values):
            return None
        return cls(np.array(numbers, dtype=np.float64), float(numbers[-1]) - float(numbers[0]))

    def moved(self, real: Floats, synthetic: Floats) -> float:
        """Wasserstein-1 distance of the present values; 0 where either side has none."""
        ours, theirs = (shares[: len(self.places)] for shares in (real, synthetic))
        if not (ours.any() and theirs.any()):
            return 0.0
        apart = np.cumsum(ours / ours.sum() - theirs / theirs.sum())[:-1]
        return float(np.abs(apart) @ np.diff(self.places))

    def distance(self, real: Floats, synthetic: Floats) -> float:
        """|m − m′| + min(1 − m, 1 − m′)·W/R, with m the missing shares, W as `moved`, R the range; in [0, 1]."""
        ours, theirs = (float(shares[: len(self.places)].sum()) for shares in (real, synthetic))
        return abs(ours - theirs) + min(ours, theirs) * self.moved(real, synthetic) / self.range

    def expected_distance(self, variances: Floats) -> Floats:
        """The expectation of `distance` for Gaussian errors of shares, independent except that they add up to zero.

        Args:
            variances: of the shares of codes, the present ones first, shape (…, m).

        Returns:
            Shape (…), at most 1.
        """
        present, missing = np.split(variances, [len(self.places)], axis=-1)
        before, after = _sums(present)
        return self._expected(before * after, missing)

    def expected_within(self, variances: Floats, groups: Sequence[int], shares: Floats, inside: Floats) -> Floats:
        """The same where errors are known of groups of codes, each of codes beside each other.

        Args:
            variances: of the shares of the groups, in the order of `merged`, shape (…, g).
            groups: of each code.
            shares: of codes, the present ones first, shape (…, m).
            inside: the part F of a group that is below a place in it has variance F(1 − F) times this, shape (…, g).
        """
        scale, order = self.merged(groups)
        present, missing = np.split(variances, [len(scale.places)], axis=-1)
        group = np.argsort(order)[np.asarray(groups)[: len(self.places)]]
        below = np.cumsum(shares[..., : len(group)], axis=-1)
        ends = np.concatenate(
            [np.zeros_like(below[..., :1]), below[..., np.flatnonzero(np.diff(group, append=-1))]], -1
        )
        rows = np.diff(ends)[..., group]
        part = np.clip((below - ends[..., group]) / np.maximum(rows, 1e-300), 0.0, 1.0)
        before, after = _sums(np.concatenate([np.zeros_like(present[..., :1]), present], axis=-1))
        own, common = before * after, before[..., :-1] * after[..., 1:]
        spread = (1 - part) ** 2 * own[..., group] + part**2 * own[..., group + 1]
        spread += 2 * part * (1 - part) * common[..., group] + rows**2 * part * (1 - part) * inside[..., group]
        return self._expected(spread, missing)

    def _expected(self, spread: Floats, missing: Floats) -> Floats:
        """By the variances of the shares up to each present code, and of each missing one."""
        moved = np.sqrt(spread[..., :-1].clip(min=0.0)) @ np.diff(self.places) / self.range
        return np.asarray(np.minimum(NOISE_L1 * (np.sqrt(missing.sum(-1)) + moved), 1.0))

    def merged(self, groups: Sequence[int]) -> tuple[Scale, list[int]]:
        """The scale of groups of codes, each at the mean of its places, and the groups in its order, missing ones last.

        Args:
            groups: of each code.
        """
        present = np.asarray(groups)[: len(self.places)]
        counts = np.bincount(present, minlength=max(groups) + 1)
        places = np.bincount(present, self.places, len(counts)) / np.maximum(counts, 1)
        order = sorted(np.flatnonzero(counts).tolist(), key=lambda group: places[group])
        return Scale(places[order], self.range), [*order, *np.flatnonzero(counts == 0).tolist()]


def _sums(variances: Floats) -> tuple[Floats, Floats]:
    """Sums up to each code, and those of the others over the whole: multiplied, variances where all add up to zero."""
    before = np.cumsum(variances, axis=-1)
    whole = before[..., -1:]
    return before, (whole - before) / np.maximum(whole, 1e-300)
