"""The noisy sums behind a ratio of two means: measured once, added up over disjoint groups of rows.

>>> import numpy as np
>>> from equistrata.privacy.noise import SeededNoise
>>> from equistrata.inference.ratios.design import PricedDesign
>>> score, label = np.full(4000, 0.5), np.arange(4000) % 2
>>> sums = measure_sums(score, label, PricedDesign.of_rho(0.01, weighted=False, binary=True), SeededNoise(1))
>>> [round(sums[name]) for name in ("w", "wy", "ws")]  # 4000 rows, 2000 positive, scores that sum to 2000
[4004, 2007, 2004]
>>> both = sums + sums  # of two disjoint groups
>>> round(both["w"]), float(both.rho)
(8009, 0.01)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Counts, Floats
from equistrata.errors import InputError
from equistrata.inference.means.lattice import HALF, LAPLACE_ROWS
from equistrata.inference.ratios.design import Design, PricedDesign, sums_in_unit
from equistrata.privacy.budget import ADD_REMOVE, Budget, Relation, Rho
from equistrata.privacy.noise import NoiseSource, source_of


@dataclass(frozen=True, eq=False)
class RatioWeights:
    """Design weights, shape (n,), fixed in advance, in [0, bound]; the bound u is declared and positive."""

    values: npt.ArrayLike
    bound: float = 1.0

    def __post_init__(self) -> None:
        if not (self.bound > 0 and math.isfinite(self.bound)):
            raise InputError(f"weight_bound is {self.bound}, but it must be a positive number; declare it")


@dataclass(frozen=True, eq=False)
class RatioSums(Mapping[str, float]):
    """Noisy sums of a group of rows, name → sum; may be published.

    `w` is Σw (the number of rows, without weights), `wy` and `ws` are Σwy (denominator) and Σws (numerator), `wss`,
    `wys`, `wyy` and `ww` are Σws², Σwys, Σwy² and Σw²; the last only with weights, `wyy` only where y is not binary.

    Attributes:
        names, vector: the k sums' names, in order, and the sums, shape (k,).
        covariance: of their noise, shape (k, k); public, since it does not depend on rows.
        rho, relation, epsilon, delta: the cost, as of `PricedDesign`.
        laplace: the noise maker of Laplace noise (`PricedDesign.noise_maker`); None for Gaussian noise and for sums of
            several groups, whose noise is nearly Gaussian.
        private: whether the noise came from a source fit for real releases.
    """

    names: tuple[str, ...]
    vector: Floats
    covariance: Floats
    rho: Rho
    epsilon: float | None = None
    delta: float | None = None
    laplace: Floats | None = None
    private: bool = False
    relation: Relation = ADD_REMOVE

    def __getitem__(self, name: str) -> float:
        if name not in self.names:
            raise KeyError(name)
        return float(self.vector[self.names.index(name)])

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __add__(self, other: RatioSums) -> RatioSums:
        """The sums of two disjoint groups, at the larger ρ of both. Raises InputError if they are of two kinds."""
        if self.names != other.names:
            raise InputError("these two have different sums (weighted or not, binary or not); measure both alike")
        return replace(
            self,
            vector=self.vector + other.vector,
            covariance=self.covariance + other.covariance,
            rho=max(self.rho, other.rho),
            epsilon=_larger(self.epsilon, other.epsilon),
            delta=_larger(self.delta, other.delta),
            laplace=None,
            private=self.private and other.private,
        )


def measure_sums(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    priced: PricedDesign,
    noise: NoiseSource,
    weights: RatioWeights | None = None,
    budget: Budget | None = None,
) -> RatioSums:
    """Noisy sums for the ratio Σws/Σwy of one group of rows.

    Args:
        numerator, denominator: s and y, shape (n,), n ≥ 0, in [0, 1]; y is 0 or 1 where the design says binary.
        weights: w and its declared bound, where the design has weights.
        budget: what `priced.rho` is charged to; None for one of that amount.

    Raises:
        InputError: shapes that differ, numbers out of their bounds or missing, or too many rows for Laplace noise.

    Cost: `priced.rho`-zCDP (and (ε, δ)-DP where that was the price), add-remove. See docs/proofs/ratio.md.
    """
    noise = source_of(noise)
    score, label, weight = _read(numerator, denominator, weights, priced)
    paying = Budget(priced.rho) if budget is None else budget
    drawn = noisy_lattice_sums(lambda: lattice_sums(score, label, weight, priced.design), priced, paying, noise)
    bound = 1.0 if weights is None else weights.bound
    maker = priced.noise_maker(bound)
    return RatioSums(
        priced.design.names,
        sums_in_unit(drawn, priced.design.names, bound),
        maker @ maker.T,
        priced.rho,
        priced.epsilon,
        priced.delta,
        maker if priced.mechanism == "laplace" else None,
        noise.private,
    )


def lattice_sums(score: Floats, label: Floats, weight: Floats | None, design: Design) -> Counts:
    """The exact sums of `axes @ features` in lattice units, over the last axis: (…, n) to (…, k). Not private.

    `weight` is w/u, or None.
    """
    t = np.ones_like(score) if weight is None else weight
    total, features = [], {"w": t, "wy": t * label, "ws": t * score}
    factors = {"wss": ("ws", score), "wys": ("wy", score), "wyy": ("wy", label), "ww": ("w", t)}
    for name in design.names[3:]:
        other, factor = factors[name]
        features[name] = features[other] * factor
    for axis in design.axes:
        coordinate = sum(float(a) * features[name] for name, a in zip(design.names, axis, strict=True) if a)
        total.append(np.rint(coordinate * HALF).astype(np.int64).sum(axis=-1))
    return np.stack(total, axis=-1)


def noisy_lattice_sums(
    exact: Counts | Callable[[], Counts], priced: PricedDesign, budget: Budget, noise: NoiseSource
) -> Floats:
    """Lattice sums (k,), or what makes them, with noise, as the sums of features (`Design.features_of`).

    Cost: `priced.rho` of `budget`, add-remove.
    """
    what = "sums of a ratio"
    if priced.mechanism == "gaussian":
        return priced.design.features_of(noise.gaussian(exact, priced.sensitivity, priced.rho, budget, what)[0])
    assert priced.epsilon is not None

    def as_floats() -> Floats:
        return np.asarray(exact() if callable(exact) else exact, dtype=np.float64)

    return priced.design.features_of(noise.laplace(as_floats, priced.sensitivity, priced.epsilon, budget, what)[0])


def _larger(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else max(first, second)


def _read(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    weights: RatioWeights | None,
    priced: PricedDesign,
) -> tuple[Floats, Floats, Floats | None]:
    score, label = _vector(numerator, "numerator"), _vector(denominator, "denominator")
    weight = None
    if (weights is not None) != ("ww" in priced.design.names):
        raise InputError("weights are given where the design has none, or the other way round; make them agree")
    if weights is not None:
        if not isinstance(weights, RatioWeights):
            raise InputError(f"weights are of type {type(weights).__name__}; give RatioWeights(values, bound)")
        weight = _vector(weights.values, "weights", weights.bound) / weights.bound
    lengths = {len(score), len(label), len(score if weight is None else weight)}
    if len(lengths) > 1:
        raise InputError("numerator, denominator and weights differ in length; give one of each for every row")
    if "wyy" not in priced.design.names and not np.isin(label, (0.0, 1.0)).all():
        raise InputError("the denominator holds something besides 0 and 1; code it so, or pass binary=False")
    if priced.mechanism == "laplace" and len(score) >= LAPLACE_ROWS:
        raise InputError(f"Laplace noise takes fewer than {LAPLACE_ROWS} rows in a group; use the Gaussian mechanism")
    return score, label, weight


def _vector(values: npt.ArrayLike, name: str, upper: float = 1.0) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"the {name} must be numbers, one for each row") from None
    if array.ndim != 1:
        raise InputError(f"the {name} must be one-dimensional, not of {array.ndim} dimensions")
    if array.size and not (array.min() >= 0 and array.max() <= upper):  # also when one is not a number
        raise InputError(f"the {name} must lie in [0, {upper:g}] with none missing; divide by the declared bound")
    return array
