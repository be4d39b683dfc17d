"""The design of the noisy sums for a ratio of two means.

A design contains the axes that are measured, and the noise at a given privacy cost.

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

# The scales of the axes of the joint design. A larger scale means less noise in that sum and a larger sensitivity. The
# first two are a compromise between the noise of the ratio and the noise of its variance. The scales of squares and
# weights do not increase the sensitivity up to these values (docs/proofs/ratio.md).
COUNT_SCALE, PRODUCT_SCALE = 0.5, 1.0
SQUARE_SCALES = WEIGHT_SCALES = {"gaussian": 2.0, "laplace": 1.5}


@dataclass(frozen=True, eq=False)
class Design:
    """The sums that are measured, and the axes along which they are measured.

    A row with the weight w in [0, u], the score s and the label y in [0, 1] has the features t = w/u (`w`), ty (`wy`),
    ts (`ws`), ts² (`wss`) and tys (`wys`). If there are weights, it also has the feature t² (`ww`). If y is not binary,
    it also has the feature ty² (`wyy`). The noise has the same scale for each element of `axes @ features`, summed over
    the rows.

    Attributes
    ----------
    names : tuple of str
        The names of the k sums, in order.
    axes : ndarray of shape (k, k)
        The axes, as an invertible matrix.
    sensitivity : float
        The largest norm of `axes @ features` of a row. It is the L2 norm for Gaussian noise and the L1 norm for Laplace
        noise.
    """

    names: tuple[str, ...]
    axes: Floats
    sensitivity: float

    @classmethod
    def basic(cls, *, weighted: bool, binary: bool) -> Design:
        """Return the design in which each sum is measured separately.

        The sensitivity of each sum is 1 in units of u. For Σw² it is in units of u², but the paper has u.
        """
        names = _names(weighted, binary)
        return cls(names, np.eye(len(names)), 1.0)

    @classmethod
    def joint(cls, mechanism: Mechanism, *, weighted: bool, binary: bool) -> Design:
        """Return the design in which all sums are measured together.

        The features are centred at the middle of their ranges, so that the vector of a row is about half as long. The
        sensitivity is √13/4 in the L2 norm and 7/4 in the L1 norm. See docs/proofs/ratio.md.
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
        """Convert sums along the axes in lattice units to sums of features.

        The sums of features are in units of the largest weight and have the shape (..., k).
        """
        solved: Floats = np.linalg.solve(self.axes, np.asarray(axes, dtype=np.float64)[..., None])[..., 0] / HALF
        return solved

    def lattice_sensitivity(self, mechanism: Mechanism) -> float:
        """Return the sensitivity in lattice units, including one unit for the rounding of each coordinate."""
        k = len(self.names)
        return self.sensitivity * HALF + (math.sqrt(k) if mechanism == "gaussian" else k)


@dataclass(frozen=True, eq=False)
class PricedDesign:
    """A design with its privacy cost.

    Attributes
    ----------
    design : Design
        The sums that are measured.
    mechanism : {"gaussian", "laplace"}
        The distribution of the noise.
    sensitivity : float
        The sensitivity of the vector in lattice units. It is the L2 norm for Gaussian noise and the L1 norm for Laplace
        noise.
    rho : Rho
        The cost in zCDP under add-remove.
    epsilon, delta : float or None
        The cost as (ε, δ)-DP, if it was given in this form.
    """

    design: Design
    mechanism: Mechanism
    sensitivity: float
    rho: Rho
    epsilon: float | None = None
    delta: float | None = None

    @property
    def deviation(self) -> float:
        """Return the standard deviation of the noise on each axis, in units of the largest weight."""
        if self.mechanism == "gaussian":
            return gaussian_sigma(self.rho, self.sensitivity) / HALF
        assert self.epsilon is not None
        return math.sqrt(2) * self.sensitivity / self.epsilon / HALF

    def noise_maker(self, weight_bound: float) -> Floats:
        """Return the matrix of shape (k, k) that maps independent variables of variance 1 to the noise of the sums."""
        inverse = np.asarray(np.linalg.inv(self.design.axes), dtype=np.float64)
        return sums_in_unit((inverse * self.deviation).T, self.design.names, weight_bound).T

    @classmethod
    def of_rho(cls, rho: Rho | float, *, weighted: bool, binary: bool) -> PricedDesign:
        """Return the joint design with Gaussian noise of standard deviation Δ₂/√(2ρ).

        Raise InputError if ρ is not positive.
        """
        amount = Rho.of(rho)
        if not amount:
            raise InputError("rho is 0, but noisy sums need a positive amount; choose a larger one")
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
        """Return the design for a privacy cost of (ε, δ). For Laplace noise the cost is (ε, 0).

        Parameters
        ----------
        epsilon, delta : float
            The privacy cost, with ε > 0 and 0 < δ < 1. The value of δ is not used for Laplace noise.
        mechanism : {"gaussian", "laplace"}
            The distribution of the noise.
        composition : {"joint", "basic"}
            If "joint", one noise vector is added to all k sums, and Gaussian noise is calibrated by zCDP with the tight
            conversion. If "basic", the cost of each sum is (ε/k, δ/k), for Laplace noise or for the classical Gaussian
            mechanism with σ = Δ√(2 ln(1.25k/δ))·k/ε (equation 5 of the paper).
        weighted : bool
            If True, the rows have weights.
        binary : bool
            If True, the labels are 0 or 1.

        Returns
        -------
        PricedDesign
            The design and its noise.

        Raises
        ------
        InputError
            If the cost is out of its range, or if the classical Gaussian mechanism does not guarantee it (ε/k > 1).
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
                f"epsilon = {epsilon:g} is too large for composition 'basic', because the classical Gaussian mechanism "
                "would not guarantee it; use composition 'joint', or a smaller epsilon"
            )
        return cls(design, mechanism, (HALF + 1) * math.sqrt(k), one * k, epsilon, delta)


def sums_in_unit(features: Floats, names: Sequence[str], weight_bound: float) -> Floats:
    """Convert sums of features to the unit of the weights: multiply them by u, or by u² for Σw²."""
    units: Floats = np.array([weight_bound**2 if name == "ww" else weight_bound for name in names])
    return features * units


def _names(weighted: bool, binary: bool) -> tuple[str, ...]:
    return ("w", "wy", "ws", "wss", "wys", *(("ww",) if weighted else ()), *(() if binary else ("wyy",)))
