"""Numeric positions of a column's codes, and distances between distributions on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.schema import Column
from equistrata.stats.distributions import NOISE_L1

# For distributions at the two ends of the range or without common values, and for strata without rows.
WORST_DISTANCE = 1.0
FEW_NUMBERS = 20  # an undeclared column with at most this many distinct numbers is treated as nominal


@dataclass(frozen=True, eq=False)
class Scale:
    """The numeric positions of a column's codes.

    Attributes
    ----------
    places : ndarray
        The positions of the codes that are present values, in increasing order. All codes after these are missing
        values.
    range : float
        The difference between the largest and the smallest declared number, or between the observed ones if nothing is
        declared.
    """

    places: Floats
    range: float

    @classmethod
    def of(cls, column: Column, declared: bool = True) -> Scale | None:
        """Return the scale of a column.

        Parameters
        ----------
        column : Column
            The column.
        declared : bool
            If False, a column of categorical values with more than FEW_NUMBERS distinct numbers has a scale as well.

        Returns
        -------
        Scale or None
            The positions are the midpoints of the bins for a numeric column, and the codes for an ordinal column. None
            if the column is nominal.
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
        """Compute the Wasserstein-1 distance between two distributions of the present values.

        Parameters
        ----------
        real, synthetic : ndarray
            The shares of all codes, with the present codes first.

        Returns
        -------
        float
            The distance. It is 0 if one of the distributions has no present values.
        """
        ours, theirs = (shares[: len(self.places)] for shares in (real, synthetic))
        if not (ours.any() and theirs.any()):
            return 0.0
        apart = np.cumsum(ours / ours.sum() - theirs / theirs.sum())[:-1]
        return float(np.abs(apart) @ np.diff(self.places))

    def distance(self, real: Floats, synthetic: Floats) -> float:
        """Compute the distance between two distributions, including missing values.

        The distance is |m − m′| + min(1 − m, 1 − m′)·W/R, where m and m′ are the shares of missing values, W is the
        distance `moved`, and R is the range.

        Parameters
        ----------
        real, synthetic : ndarray
            The shares of all codes, with the present codes first.

        Returns
        -------
        float
            The distance, in [0, 1].
        """
        ours, theirs = (float(shares[: len(self.places)].sum()) for shares in (real, synthetic))
        return abs(ours - theirs) + min(ours, theirs) * self.moved(real, synthetic) / self.range

    def expected_distance(self, variances: Floats) -> Floats:
        """Return the expected value of `distance` for Gaussian errors of the shares.

        The errors are independent except that they add up to zero.

        Parameters
        ----------
        variances : ndarray of shape (..., m)
            The variances of the shares, with the present codes first.

        Returns
        -------
        ndarray of shape (...)
            The expected distances, which are at most 1.
        """
        present, missing = np.split(variances, [len(self.places)], axis=-1)
        before, after = _sums(present)
        return self._expected(before * after, missing)

    def expected_within(self, variances: Floats, groups: Sequence[int], shares: Floats, inside: Floats) -> Floats:
        """Return the expected value of `distance` if the errors are known for groups of adjacent codes.

        Parameters
        ----------
        variances : ndarray of shape (..., g)
            The variances of the shares of the groups, in the order of `merged`.
        groups : sequence of int
            The group of each code.
        shares : ndarray of shape (..., m)
            The shares of the codes, with the present codes first.
        inside : ndarray of shape (..., g)
            The uncertainty within each group. If a share F of the group is below some position, then its variance is
            F(1 − F) times this number.

        Returns
        -------
        ndarray of shape (...)
            The expected distances, which are at most 1.
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
        """Return the expected distance from the variances of cumulative shares and of the shares of missing codes."""
        moved = np.sqrt(spread[..., :-1].clip(min=0.0)) @ np.diff(self.places) / self.range
        return np.asarray(np.minimum(NOISE_L1 * (np.sqrt(missing.sum(-1)) + moved), 1.0))

    def merged(self, groups: Sequence[int]) -> tuple[Scale, list[int]]:
        """Return the scale of groups of codes, and the groups in the order of this scale.

        Each group is at the mean position of its codes. Groups of missing codes come last.

        Parameters
        ----------
        groups : sequence of int
            The group of each code.

        Returns
        -------
        tuple of Scale and list of int
            The scale and the order of the groups.
        """
        present = np.asarray(groups)[: len(self.places)]
        counts = np.bincount(present, minlength=max(groups) + 1)
        places = np.bincount(present, self.places, len(counts)) / np.maximum(counts, 1)
        order = sorted(np.flatnonzero(counts).tolist(), key=lambda group: places[group])
        return Scale(places[order], self.range), [*order, *np.flatnonzero(counts == 0).tolist()]


def _sums(variances: Floats) -> tuple[Floats, Floats]:
    """Return the cumulative sums, and the remaining sums divided by the total.

    Their product is the variance of a cumulative sum, given that all errors add up to zero.
    """
    before = np.cumsum(variances, axis=-1)
    whole = before[..., -1:]
    return before, (whole - before) / np.maximum(whole, 1e-300)
