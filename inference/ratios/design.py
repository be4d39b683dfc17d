"""The design of the noisy sums for a ratio of two means: which axes are measured, and the noise that a price buys.

>>> design = Design.joint("gaussian", weighted=False, binary=True)
>>> design.names, round(design.sensitivity, 3)
(('w', 'wy', 'ws', 'wss', 'wys'), 0.901)
>>> priced = PricedDesign.of_rho(0.5, weighted=False, binary=True)
>>> round(priced.deviation, 3)
0.901
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from equistrata.arrays import Counts, Floats
from equistrata.errors import InputError
from equistrata.inference.means.lattice import HALF
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import gaussian_sigma
from equistrata.stats.checks import positive, share

Mechanism = Literal["gaussian", "laplace"]
Composition = Literal["joint", "basic"]

# Scales of the axes of the joint design: a larger one means less noise for that sum and a larger sensitivity. Those of
# squares and weights cost no sensitivity up to these values (docs/proofs/ratio.md). Tuned: docs/experiments/ratios.md.
COUNT_SCALE, PRODUCT_SCALE = 0.5, 1.0
SQUARE_SCALES = WEIGHT_SCALES = {"gaussian": 2.0, "laplace": 1.5}


@dataclass(frozen=True, eq=False)
class Design:
    """Which sums are measured, and along which axes.

    A row with weight w in [0, u], score s and label y in [0, 1] has the features t = w/u (`w`), ty (`wy`), ts (`ws`),
    ts² (`wss`), tys (`wys`), with weights t² (`ww`), and unless y is binary ty² (`wyy`). Noise of one scale is added to
    `axes @ features`, summed over rows.

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
        """Each sum by itself, with sensitivity 1 in units of u (Σw²: of u², where the paper says u)."""
        names = _names(weighted, binary)
        return cls(names, np.eye(len(names)), 1.0)

    @classmethod
    def joint(cls, mechanism: Mechanism, *, weighted: bool, binary: bool) -> Design:
        """All sums at once, centred at the middle of their range, so that a row's vector is about half as long.

        The sensitivity is √13/4 in L2 and 7/4 in L1. See docs/proofs/ratio.md.
        """
        names = _names(weighted, binary)
        square, weight = SQUARE_SCALES[mechanism], WEIGHT_SCALES[mechanism]
        rows: dict[str, dict[str, float]] = {
            "w": {"w": COUNT_SCALE},
            "wy": {"wy": 1.0, "w": -0.5},
            "ws": {"ws": 1.0, "w": -0.5},
            "wss": {"wss": square, "ws": -square},
            "wys": {"wys": PRODUCT_SCALE, "wy": -PRODUCT_SCALE / 2, "ws": -PRODUCT_SCALE / 2, "w": PRODUCT_SCALE / 4},
            "ww": {"ww": weight, "w": -weight},
            "wyy": {"wyy": square, "wy": -square},
        }
        axes = np.array([[rows[axis].get(name, 0.0) for name in names] for axis in names])
        corner = np.array([COUNT_SCALE, 0.5, 0.5, PRODUCT_SCALE / 4])
        return cls(names, axes, float(np.linalg.norm(corner, 2 if mechanism == "gaussian" else 1)))

    def features_of(self, axes: Counts | Floats) -> Floats:
        """Sums of features, in units of the largest weight, from sums along the axes in lattice units; shape (…, k)."""
        solved: Floats = np.linalg.solve(self.axes, np.asarray(axes, dtype=np.float64)[..., None])[..., 0] / HALF
        return solved

    def lattice_sensitivity(self, mechanism: Mechanism) -> float:
        """The sensitivity in lattice units, with one unit of rounding for each coordinate."""
        k = len(self.names)
        return self.sensitivity * HALF + (math.sqrt(k) if mechanism == "gaussian" else k)


@dataclass(frozen=True, eq=False)
class PricedDesign:
    """A design with its price.

    Attributes:
        design, mechanism: what is measured, with Gaussian or Laplace noise.
        sensitivity: of a vector of lattice numbers, L2 for Gaussian noise and L1 for Laplace.
        rho, epsilon, delta: the cost, add-remove, in zCDP, and as (ε, δ)-DP where the price was stated so.
    """

    design: Design
    mechanism: Mechanism
    sensitivity: float
    rho: Rho
    epsilon: float | None = None
    delta: float | None = None

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on each axis, in units of the largest weight."""
        if self.mechanism == "gaussian":
            return gaussian_sigma(self.rho, self.sensitivity) / HALF
        assert self.epsilon is not None
        return math.sqrt(2) * self.sensitivity / self.epsilon / HALF

    def noise_maker(self, weight_bound: float) -> Floats:
        """The matrix, shape (k, k), that maps independent variables of variance 1 to the noise of the sums."""
        inverse = np.asarray(np.linalg.inv(self.design.axes), dtype=np.float64)
        return sums_in_unit((inverse * self.deviation).T, self.design.names, weight_bound).T

    @classmethod
    def of_rho(cls, rho: Rho | float, *, weighted: bool, binary: bool) -> PricedDesign:
        """Joint Gaussian noise for ρ > 0, of deviation Δ₂/√(2ρ). Raises InputError if ρ is not positive."""
        amount = Rho.of(rho)
        if not amount:
            raise InputError("rho is 0, but noisy sums need a positive amount; spend more on them")
        design = Design.joint("gaussian", weighted=weighted, binary=binary)
        return cls(design, "gaussian", design.lattice_sensitivity("gaussian"), amount)

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

        "joint": one noise vector for all k sums; Gaussian by zCDP with the tight conversion. "basic": each sum at (ε/k,
        δ/k), with the classical Gaussian mechanism σ = Δ√(2 ln(1.25k/δ))·k/ε (paper, eq. 5) or Laplace noise.

        Raises:
            InputError: a price out of its range, or a basic Gaussian one that the classical mechanism does not keep
                (ε/k > 1).
        """
        epsilon = positive("epsilon", epsilon)
        if mechanism == "gaussian":
            delta = share("delta", delta)
        joint, sums = composition == "joint", {"weighted": weighted, "binary": binary}
        design = Design.joint(mechanism, **sums) if joint else Design.basic(**sums)
        k = len(design.names)
        if mechanism == "laplace":
            sensitivity = design.lattice_sensitivity("laplace") if joint else (HALF + 1.0) * k
            return cls(design, mechanism, sensitivity, Rho.of_pure(epsilon), epsilon, 0.0)
        if joint:
            rho = Rho.from_epsilon_delta(epsilon, delta)
            return replace(cls.of_rho(rho, **sums), epsilon=epsilon, delta=delta)
        multiple = math.sqrt(2 * math.log(1.25 * k / delta)) * k / epsilon
        one = Rho(0.5 / multiple**2)
        if one.epsilon(delta / k) > epsilon / k:
            raise InputError(
                f"composition 'basic' with epsilon = {epsilon:g} asks more of the classical Gaussian mechanism "
                "than it keeps; use composition 'joint', or a smaller epsilon"
            )
        return cls(design, mechanism, (HALF + 1) * math.sqrt(k), one * k, epsilon, delta)


def sums_in_unit(features: Floats, names: Sequence[str], weight_bound: float) -> Floats:
    """Sums (…, k) in the weights' own unit: u times those of the features, and u² times for Σw²."""
    units: Floats = np.array([weight_bound**2 if name == "ww" else weight_bound for name in names])
    return features * units


def _names(weighted: bool, binary: bool) -> tuple[str, ...]:
    return ("w", "wy", "ws", "wss", "wys", *(("ww",) if weighted else ()), *(() if binary else ("wyy",)))
