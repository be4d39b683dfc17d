"""The noisy sums that inference on a ratio of two means needs: measured once, added up over disjoint groups of rows.

>>> import numpy as np
>>> from privacy.noise import SeededNoise
>>> score, label = np.full(4000, 0.5), np.arange(4000) % 2
>>> sums = measure_sums(score, label, PricedDesign.of_rho(0.01, weighted=False, binary=True), noise=SeededNoise(1))
>>> [round(sums[name]) for name in ("w", "wy", "ws")]  # 4000 rows, 2000 positive, scores that sum to 2000
[4004, 2007, 2004]
>>> both = sums + sums  # of two disjoint groups
>>> round(both["w"]), float(both.rho)
(8009, 0.01)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from data.errors import InputError
from privacy.budget import ADD_REMOVE, Relation, Rho
from privacy.noise import NoiseSource, gaussian_sigma

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Mechanism = Literal["gaussian", "laplace"]
Composition = Literal["joint", "basic"]

HALF = 2**29  # lattice units in a row's largest weight: 2³³ rows fit into 64 bits
EXACT_ROWS = 2**53 // HALF  # beyond this many rows a sum of lattice units is no longer exact as a float

# How strongly each axis of the joint design is scaled, before noise of one size is added to all. A larger scale means less
# noise for that sum and a larger sensitivity. COUNT and PRODUCT trade the noise of the ratio against that of its
# variance; the other two cost no sensitivity at all up to the values given (see `Design.joint`).
COUNT, PRODUCT, SQUARE, WEIGHT = 0.5, 1.0, 2.0, 2.0
SQUARE_LAPLACE, WEIGHT_LAPLACE = 1.5, 1.5


@dataclass(frozen=True, eq=False)
class Design:
    """Which sums are measured, and about which axes.

    A row with weight w in [0, u], score s and label y in [0, 1] counts towards the sums `names`, which are u times those
    of its features: t = w/u (`w`), ty (`wy`), ts (`ws`), ts² (`wss`), tys (`wys`), with weights t² (`ww`, times u²), and
    unless y is binary ty² (`wyy`). Noise of one size is added to `axes @ features`.

    Attributes:
        names: the k sums, in order.
        axes: shape (k, k), invertible.
        sensitivity: the largest norm of `axes @ features` of one row (L2 for Gaussian noise, L1 for Laplace).
    """

    names: tuple[str, ...]
    axes: Floats
    sensitivity: float

    @classmethod
    def basic(cls, *, weighted: bool, binary: bool) -> Design:
        """Each sum by itself: every feature lies in [0, 1], so each sum has sensitivity 1 (Σw² has u², in its own unit).

        The paper says that every sum has sensitivity u; Σw² has u², and is charged so here.
        """
        names = _names(weighted, binary)
        return cls(names, np.eye(len(names)), 1.0)

    @classmethod
    def joint(cls, mechanism: Mechanism, *, weighted: bool, binary: bool) -> Design:
        """All sums at once, about the middle of their range: a row's vector is then about half as long.

        The axes are, with y' = y − ½ and s' = s − ½: ½t, ty', ts', ts'y', b·ts(s − 1), b·ty(y − 1), c·t(t − 1).
        Noise in the count moves Σy and Σs alike, so it cancels in their ratio near 1.

        Sensitivity. L2: √(¼ + ¼ + ¼ + 1/16) = √13/4 for t = 1, s and y in {0, 1}; no row is longer. Proof: put
        X = ¼ − s'² and Y = ¼ − y'², both in [0, ¼]; s(s − 1) = −X. The squared length at t = 1 is
        ¼ + (¼ − X) + (¼ − Y) + (¼ − X)(¼ − Y) + b²(X² + Y²) = 13/16 − 5/4·(X + Y) + XY + b²(X² + Y²), and with
        b = 2: 4X² ≤ X, 4Y² ≤ Y, XY ≤ (X + Y)/8, so it is at most K = 13/16. At t < 1 it is at most
        t²(K + c²(1 − t)²) ≤ K, since c²t²(1 − t) ≤ 4·4/27 < K(1 + t) with c = 2.
        L1: ½ + ½ + ½ + ¼ = 7/4. Proof: put p = ½ − |s'|, q = ½ − |y'|, both in [0, ½]. The length at t = 1 is
        ½ + (½ − p) + (½ − q) + (½ − p)(½ − q) + b(p − p²) + b(q − q²) = 7/4 − 3/2·(p + q) + pq + b(p + q) − b(p² + q²),
        at most K = 7/4 with b = 3/2 as pq ≤ p² + q². At t < 1: t(K + c(1 − t)) ≤ K as ct ≤ 3/2 ≤ K.
        """
        names = _names(weighted, binary)
        square, weight = (SQUARE, WEIGHT) if mechanism == "gaussian" else (SQUARE_LAPLACE, WEIGHT_LAPLACE)
        rows: dict[str, dict[str, float]] = {
            "w": {"w": COUNT},
            "wy": {"wy": 1.0, "w": -0.5},
            "ws": {"ws": 1.0, "w": -0.5},
            "wss": {"wss": square, "ws": -square},
            "wys": {"wys": PRODUCT, "wy": -PRODUCT / 2, "ws": -PRODUCT / 2, "w": PRODUCT / 4},
            "ww": {"ww": weight, "w": -weight},
            "wyy": {"wyy": square, "wy": -square},
        }
        axes = np.array([[rows[axis].get(name, 0.0) for name in names] for axis in names])
        corner = np.array([COUNT, 0.5, 0.5, PRODUCT / 4])
        return cls(names, axes, float(np.linalg.norm(corner, 2 if mechanism == "gaussian" else 1)))

    def features_of(self, axes: Counts | Floats) -> Floats:
        """Sums of features, in units of the largest weight, from sums along the axes in lattice units, shape (…, k)."""
        solved: Floats = np.linalg.solve(self.axes, np.asarray(axes, dtype=np.float64)[..., None])[..., 0] / HALF
        return solved

    def lattice_sensitivity(self, mechanism: Mechanism) -> float:
        """The sensitivity in lattice units: each coordinate of a row is rounded, which moves it by less than one unit."""
        k = len(self.names)
        return self.sensitivity * HALF + (math.sqrt(k) if mechanism == "gaussian" else k)


@dataclass(frozen=True, eq=False)
class PricedDesign:
    """A design with the noise that its price asks for.

    Attributes:
        design: what is measured.
        mechanism: Gaussian or Laplace noise.
        deviation: the standard deviation of the noise on each axis, in units of the largest weight.
        rho: what it costs in zCDP, under add/remove.
        epsilon, delta: what it costs as (ε, δ)-DP, where that is how the price was stated.
    """

    design: Design
    mechanism: Mechanism
    deviation: float
    rho: Rho
    epsilon: float | None = None
    delta: float | None = None

    def noise_maker(self, weight_bound: float) -> Floats:
        """The matrix that makes the sums' noise out of independent variables of variance 1, shape (k, k)."""
        inverse: Floats = np.asarray(np.linalg.inv(self.design.axes), dtype=np.float64)
        return sums_in_unit((inverse * self.deviation).T, self.design.names, weight_bound).T

    @classmethod
    def of_rho(cls, rho: Rho | float, *, weighted: bool, binary: bool) -> PricedDesign:
        """Joint Gaussian noise for ρ > 0: deviation Δ₂/√(2ρ) (Bun and Steinke, arXiv:1605.02065, Proposition 1.6).

        Raises:
            InputError: ρ is not positive.
        """
        amount = Rho.of(rho)
        if not amount:
            raise InputError("rho is 0, but noisy sums need a positive amount; spend more on them")
        design = Design.joint("gaussian", weighted=weighted, binary=binary)
        sigma = gaussian_sigma(amount, design.lattice_sensitivity("gaussian")) / HALF
        return cls(design, "gaussian", sigma, amount)

    @classmethod
    def of_epsilon_delta(
        cls,
        epsilon: float,
        delta: float,
        mechanism: Mechanism,
        composition: Composition,
        *,
        weighted: bool,
        binary: bool,
    ) -> PricedDesign:
        """The noise for a price in (ε, δ); Laplace noise costs (ε, 0) whatever δ is.

        "joint": one noise vector for all k sums; Gaussian noise by zCDP with the tight conversion, Laplace noise of scale
        Δ₁/ε. "basic": every sum by itself at (ε/k, δ/k), with the classical Gaussian mechanism
        σ = Δ√(2 ln(1.25k/δ))·k/ε (paper, eq. 5) or Laplace noise of scale Δk/ε.

        Raises:
            InputError: a price out of its range, or a basic Gaussian one that is so large that the classical mechanism
                does not keep it (its proof wants ε/k ≤ 1).
        """
        if not (epsilon > 0 and math.isfinite(epsilon)):
            raise InputError(f"epsilon is {epsilon}, but a price is a positive number; correct it")
        if mechanism == "gaussian" and not 0 < delta < 1:
            raise InputError(f"delta is {delta}, but with Gaussian noise it lies strictly between 0 and 1; correct it")
        joint = composition == "joint"
        if joint:
            design = Design.joint(mechanism, weighted=weighted, binary=binary)
        else:
            design = Design.basic(weighted=weighted, binary=binary)
        k = len(design.names)
        unit = 1 / HALF
        if mechanism == "laplace":
            scale = design.lattice_sensitivity("laplace") / epsilon if joint else (HALF + 1) * k / epsilon
            # Pure ε-DP is ε²/2-zCDP (Bun and Steinke, Proposition 1.4), also for the sum of the parts.
            return cls(design, mechanism, math.sqrt(2) * scale * unit, Rho(epsilon) * epsilon * 0.5, epsilon, 0.0)
        if joint:
            try:
                rho = _rho_of(float(epsilon), float(delta))
            except ValueError as error:
                raise InputError(f"epsilon and delta give no usable price: {error}") from None
            return replace(
                cls.of_rho(rho, weighted=weighted, binary=binary), epsilon=float(epsilon), delta=float(delta)
            )
        multiple = math.sqrt(2 * math.log(1.25 * k / delta)) * k / epsilon
        one = Rho(0.5 / multiple**2)
        if one.epsilon(delta / k) > epsilon / k:
            raise InputError(
                f"composition 'basic' with epsilon = {epsilon:g} asks more of the classical Gaussian mechanism than it "
                "keeps; use composition 'joint', or a smaller epsilon"
            )
        return cls(design, mechanism, multiple * (HALF + 1) * unit, one * k, float(epsilon), float(delta))


@dataclass(frozen=True, eq=False)
class RatioSums(Mapping[str, float]):
    """Noisy sums of a group of rows: name → sum. All that inference on the ratio looks at; they may be published.

    `w` is Σw (the number of rows, without weights), `wy` and `ws` are Σwy (denominator) and Σws (numerator), `wss`,
    `wys`, `wyy` and `ww` are Σws², Σwys, Σwy² and Σw²; the last is there with weights only, `wyy` unless y is binary.

    Attributes:
        names: the k sums, in order.
        vector: the sums as an array, shape (k,).
        covariance: of their noise, shape (k, k); known, for it does not depend on rows.
        rho: what they cost in zCDP.
        relation: the neighbouring relation of that cost: add-remove.
        epsilon, delta: what they cost as (ε, δ)-DP, where the price was stated so.
        laplace: for Laplace noise, the matrix that makes the noise out of independent Laplace variables of variance 1;
            None for Gaussian noise (and for sums of several groups, whose noise is nearly Gaussian).
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
        """The sums of two groups of rows together. The groups must be disjoint: then both cost the larger ρ, not the sum.

        Raises:
            InputError: the two have different sums.
        """
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
    weights: npt.ArrayLike | None = None,
    *,
    weight_bound: float = 1.0,
    noise: NoiseSource,
) -> RatioSums:
    """Noisy sums for the ratio Σws/Σwy of one group of rows.

    Args:
        numerator: s, shape (n,), n ≥ 0, in [0, 1]: divide it by its declared bound if that is not 1.
        denominator: y, shape (n,), in [0, 1]; 0 or 1 where the design is for binary labels.
        priced: the design and its noise; must agree on whether there are weights.
        weights: w, shape (n,), in [0, weight_bound], fixed in advance; None for 1 each.
        weight_bound: u, declared, positive; read only with weights.
        noise: where the noise comes from.

    Raises:
        InputError: shapes that differ, numbers out of their bounds or missing, or too many rows for Laplace noise.

    Privacy: `priced.rho`-zCDP (and (ε, δ)-DP where that was the price), add/remove. Proof: one row changes the
    vector of whole lattice numbers by at most the design's sensitivity (plus the rounding that `lattice_sensitivity`
    allows for), and the noise is made for that. What is returned is a fixed invertible matrix times the noisy vector.
    """
    score, label, weight = _read(numerator, denominator, weights, weight_bound, priced)
    exact = lattice_sums(score, label, weight, priced.design)
    bound = weight_bound if weights is not None else 1.0
    maker = priced.noise_maker(bound)
    return RatioSums(
        priced.design.names,
        sums_in_unit(noisy_lattice_sums(exact, priced, noise), priced.design.names, bound),
        maker @ maker.T,
        priced.rho,
        priced.epsilon,
        priced.delta,
        maker if priced.mechanism == "laplace" else None,
        noise.private,
    )


def lattice_sums(score: Floats, label: Floats, weight: Floats | None, design: Design) -> Counts:
    """The exact sums of `axes @ features` in lattice units, over the last axis of (…, n) arrays: shape (…, k).

    `weight` is w/u, or None. Not private: noise has to be added.
    """
    total = []
    t = np.ones_like(score) if weight is None else weight
    features = {"w": t, "wy": t * label, "ws": t * score}
    makers = {
        "wss": lambda: features["ws"] * score,
        "wys": lambda: features["wy"] * score,
        "wyy": lambda: features["wy"] * label,
        "ww": lambda: t * t,
    }
    for name in design.names[3:]:
        features[name] = makers[name]()
    for axis in design.axes:
        coordinate = sum(float(a) * features[name] for name, a in zip(design.names, axis, strict=True) if a)
        total.append(np.rint(coordinate * HALF).astype(np.int64).sum(axis=-1))
    return np.stack(total, axis=-1)


def noisy_lattice_sums(exact: Counts, priced: PricedDesign, noise: NoiseSource) -> Floats:
    """Whole numbers (…, k) with the noise that was priced, as sums of features in units of the largest weight."""
    deviation = priced.deviation * HALF
    if priced.mechanism == "gaussian":
        return priced.design.features_of(noise.gaussian(exact, deviation))
    scale = deviation / math.sqrt(2)
    flat = [noise.laplace_real(float(value), scale) for value in exact.ravel()]
    return priced.design.features_of(np.array(flat).reshape(exact.shape))


def sums_in_unit(features: Floats, names: Sequence[str], weight_bound: float) -> Floats:
    """Sums (…, k) in the weights' own unit: u times those of the features, and u² times for Σw²."""
    units: Floats = np.array([weight_bound**2 if name == "ww" else weight_bound for name in names])
    return features * units


@lru_cache(maxsize=64)
def _rho_of(epsilon: float, delta: float) -> Rho:
    """The conversion is a search that takes a tenth of a second; many groups are measured at one price."""
    return Rho.from_epsilon_delta(epsilon, delta)


def _names(weighted: bool, binary: bool) -> tuple[str, ...]:
    return ("w", "wy", "ws", "wss", "wys", *(("ww",) if weighted else ()), *(() if binary else ("wyy",)))


def _larger(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else max(first, second)


def _read(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    weights: npt.ArrayLike | None,
    weight_bound: float,
    priced: PricedDesign,
) -> tuple[Floats, Floats, Floats | None]:
    score, label = _vector(numerator, "numerator"), _vector(denominator, "denominator")
    weight = None
    if (weights is not None) != ("ww" in priced.design.names):
        raise InputError("weights are given where the design has none, or the other way round; make them agree")
    if weights is not None:
        if not (weight_bound > 0 and math.isfinite(weight_bound)):
            raise InputError(f"weight_bound is {weight_bound}, but it must be a positive number; declare it")
        weight = _vector(weights, "weights", weight_bound) / weight_bound
    lengths = {len(score), len(label), len(score if weight is None else weight)}
    if len(lengths) > 1:
        raise InputError("numerator, denominator and weights differ in length; give one of each for every row")
    if "wyy" not in priced.design.names and not np.isin(label, (0.0, 1.0)).all():
        raise InputError("the denominator holds something besides 0 and 1; code it so, or pass binary=False")
    if priced.mechanism == "laplace" and len(score) >= EXACT_ROWS:
        raise InputError(f"Laplace noise takes fewer than {EXACT_ROWS} rows in a group; use the Gaussian mechanism")
    return score, label, weight


def _vector(values: npt.ArrayLike, name: str, upper: float = 1.0) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"the {name} must be numbers, one for each row") from None
    if array.ndim != 1:
        raise InputError(f"the {name} must be one-dimensional, not of {array.ndim} dimensions")
    if array.size and not (array.min() >= 0 and array.max() <= upper):  # also when one is not a number
        raise InputError(
            f"the {name} must lie in [0, {upper:g}] with none missing; divide by the declared bound and drop absent cells"
        )
    return array
