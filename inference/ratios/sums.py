"""The noisy sums from which a ratio of two means is computed. The sums of disjoint groups of rows can be added.

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
    """Design weights, which are fixed in advance.

    Parameters
    ----------
    values : array-like of shape (n,)
        The weights, in [0, bound].
    bound : float, default=1.0
        The declared upper bound u, positive.
    """

    values: npt.ArrayLike
    bound: float = 1.0

    def __post_init__(self) -> None:
        if not (self.bound > 0 and math.isfinite(self.bound)):
            raise InputError(f"weight_bound is {self.bound}, but it must be a positive number; declare it")


@dataclass(frozen=True, eq=False)
class RatioSums(Mapping[str, float]):
    """The noisy sums of a group of rows, as a mapping from name to sum. They may be published.

    The sum `w` is Σw, which is the number of rows if there are no weights. The denominator `wy` is Σwy, and the
    numerator `ws` is Σws. The other sums are `wss` (Σws²), `wys` (Σwys), `wyy` (Σwy², only if y is not binary) and `ww`
    (Σw², only if there are weights).

    Attributes
    ----------
    names : tuple of str
        The names of the k sums, in order.
    vector : ndarray of shape (k,)
        The sums.
    covariance : ndarray of shape (k, k)
        The covariance of the noise, which is public because it does not depend on the rows.
    rho : Rho
        The privacy cost in zCDP.
    epsilon, delta : float or None
        The privacy cost as (ε, δ)-DP, if it was given in this form.
    laplace : ndarray of shape (k, k) or None
        The matrix of the Laplace noise (see `PricedDesign.noise_maker`). None for Gaussian noise, and for the sums of
        several groups because their noise is approximately Gaussian.
    private : bool
        If True, the noise source is suitable for real releases.
    relation : Relation
        The neighbouring relation.
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
        """Add the sums of two disjoint groups.

        The ρ is the larger one. Raise InputError if the groups have different sums.
        """
        if self.names != other.names:
            raise InputError(
                "the two designs differ (weighted or not, binary or not); measure both with the same design"
            )
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
    """Measure the noisy sums for the ratio Σws/Σwy of one group of rows.

    Parameters
    ----------
    numerator, denominator : array-like of shape (n,)
        The values s and y, in [0, 1], with n ≥ 0. If the design is binary, y is 0 or 1.
    priced : PricedDesign
        The design and its privacy cost.
    noise : NoiseSource
        The source of the noise.
    weights : RatioWeights, optional
        The weights w and their declared bound. They are required if the design has weights.
    budget : Budget, optional
        The budget to which `priced.rho` is charged. If None, a budget of that amount is created.

    Returns
    -------
    RatioSums
        The noisy sums.

    Raises
    ------
    InputError
        If the shapes differ, if a number is missing or out of its bounds, or if there are too many rows for Laplace
        noise.

    Privacy
    -------
    `priced.rho`-zCDP under adding or removing one row, and (ε, δ)-DP if the cost was given in this form. See
    docs/proofs/ratio.md.
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
    """Compute the exact sums of `axes @ features` in lattice units over the last axis, from shape (..., n) to (..., k).

    The sums are not private. The parameter `weight` is w/u, or None if there are no weights.
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
    """Add noise to lattice sums of shape (k,), and convert them to sums of features (see `Design.features_of`).

    The sums can be given as a function. The cost is `priced.rho` of the budget, under add-remove.
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
        raise InputError("weights and a weighted design belong together; give both of them, or neither")
    if weights is not None:
        if not isinstance(weights, RatioWeights):
            raise InputError(f"weights are of type {type(weights).__name__}; give RatioWeights(values, bound)")
        weight = _vector(weights.values, "weights", weights.bound) / weights.bound
    lengths = {len(score), len(label), len(score if weight is None else weight)}
    if len(lengths) > 1:
        raise InputError("numerator, denominator and weights differ in length; give one of each for every row")
    if "wyy" not in priced.design.names and not np.isin(label, (0.0, 1.0)).all():
        raise InputError("the denominator contains values other than 0 and 1; recode it, or pass binary=False")
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
    if array.size and not (array.min() >= 0 and array.max() <= upper):  # the condition also rejects NaN
        raise InputError(f"the {name} must lie in [0, {upper:g}] with none missing; divide by the declared bound")
    return array
