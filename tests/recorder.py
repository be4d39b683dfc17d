"""Tests of the exact privacy cost of a release, and of the claim that only noise depends on the rows.

A release is made from a table D, and each call of its noise source is recorded with its input, its noise and its
answer. The release is then made from a neighbour D′, where each call returns the answer that was recorded on D. The
true cost of each answer is computed from the inputs on both tables. The sum of these costs must not exceed the charge.
All information about the rows passes through the noise source, so the published files must be identical.

This module does not use any code of the mechanisms, so that it cannot have the same error as a mechanism. Each call is
stored in a file with the name of its stream and its position, so that noise can be drawn in other processes. If a call
is made on one table only, or with different noise, the test fails, because the control flow then depends on more than
the answers.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SeededNoise

SLACK = 1e-9  # the relative rounding error of floats


class Recorder(SeededNoise):
    """A noise source that stores each call in `folder`. The answers are random or are taken from the calls in
    `answers`.

    If two objects draw from the same stream, so that the noise of a seed is repeated, an error is raised because the
    files exist already.
    """

    def __init__(self, folder: Path, answers: Path | None = None, seed: int | np.random.SeedSequence = 0) -> None:
        super().__init__(seed)
        self.folder, self.answers, self.calls = folder, answers, 0
        folder.mkdir(parents=True, exist_ok=True)

    def spawn(self, stream: int) -> Recorder:
        key = (*self._sequence.spawn_key, stream)
        return type(self)(self.folder, self.answers, np.random.SeedSequence(self._sequence.entropy, spawn_key=key))

    def _gaussian(self, counts, sigma, sensitivity, rho):
        draw = super()._gaussian
        return self._call("gaussian", counts, sigma, sensitivity, rho, lambda: draw(counts, sigma, sensitivity, rho))

    def _laplace(self, values, scale, sensitivity, epsilon):
        draw, claim = super()._laplace, Rho.of_pure(epsilon)
        return self._call(
            "laplace", values, scale, sensitivity, claim, lambda: draw(values, scale, sensitivity, epsilon)
        )

    def _select(self, scores, scale, sensitivity, rho):
        draw = super()._select
        return int(self._call("select", scores, scale, sensitivity, rho, lambda: draw(scores, scale, sensitivity, rho)))

    def _call(self, kind: str, given: np.ndarray, scale: float, sensitivity: float, rho: Rho, draw: Callable[[], Any]):
        name = f"{'-'.join(map(str, self._sequence.spawn_key)) or 'root'}.{self.calls}"
        self.calls += 1
        if self.answers is None:
            answer = np.asarray(draw())
        else:
            before = load_call(self.answers / name)
            assert (before.kind, before.given.shape) == (kind, given.shape), f"{name} is another call on the neighbour"
            answer = before.answer
        with (self.folder / name).open("xb") as file:
            pickle.dump(Call(kind, given, scale, sensitivity, float(rho), answer), file)
        return answer


@dataclass(frozen=True)
class Call:
    """A call of the noise source, with its input, the scale of the noise, the claimed cost and the answer."""

    kind: str
    given: np.ndarray
    scale: float
    sensitivity: float
    claim: float
    answer: np.ndarray

    def moved(self, other: Call) -> float:
        """Return the distance between the inputs of both calls, in the norm for this kind of noise."""
        apart = np.abs(self.given.astype(np.float64) - other.given.astype(np.float64))
        if not apart.size:
            return 0.0
        return float({"gaussian": np.linalg.norm, "laplace": np.sum, "select": np.max}[self.kind](apart.ravel()))

    def cost(self, other: Call) -> float:
        """Return the true cost of this answer in ρ, which depends on the scale of the noise and the distance between
        the inputs.

        For Gaussian noise the cost is ‖x − x′‖²/(2σ²). For Laplace noise it is ε²/2 with ε = ‖x − x′‖₁/b. For a
        selection, the log-probabilities change by d/b up to a constant, where d is the difference of the scores. The
        range η of d/b is a bound for the ratio of the probabilities, so the cost is η²/8 (Cesar and Rogers,
        arXiv:2004.07223, Lemma 3.4).
        """
        if self.kind == "select":
            apart = (self.given - other.given) / self.scale
            return float(np.ptp(apart)) ** 2 / 8
        return (self.moved(other) / self.scale) ** 2 / 2


def true_cost(first: Path, second: Path, unit_rows: int = 1) -> tuple[float, float]:
    """Return the true cost of all calls of a release in ρ, and the sum of the claims of all calls that the row changes.

    The strata are disjoint, so the claims of calls on other strata are not added. If D and D′ differ by a unit of up to
    `unit_rows` rows, each claim is for one row of the unit. The unit changes the values by this factor, and its cost is
    larger by the square of this factor.

    Raises
    ------
    AssertionError
        If a call is made on one table only or with different noise, if a value changes by more than its sensitivity, or
        if the true cost is larger than the claim.
    """
    names = [{path.name for path in folder.iterdir()} for folder in (first, second)]
    assert names[0] == names[1], f"calls on one table only: {sorted(names[0] ^ names[1])}"
    total = claimed = 0.0
    for name in sorted(names[0]):
        one, two = (load_call(folder / name) for folder in (first, second))
        claims = [(call.kind, call.scale, call.sensitivity, call.claim) for call in (one, two)]
        assert claims[0] == claims[1], f"{name} is drawn with other noise on the neighbour: {claims}"
        exact = 1.0 if one.kind == "select" else 1 + 1e-12  # a norm is rounded, but the maximum of exact scores is not
        moved = one.moved(two)
        most, claim = unit_rows * one.sensitivity, unit_rows**2 * one.claim
        assert moved <= most * exact, f"{name} ({one.kind}) moves by {moved}, not {most}"
        cost = one.cost(two)
        assert cost <= claim * (1 + SLACK), f"{name} ({one.kind}) costs {cost}, not {claim}"
        total += cost
        claimed += claim if moved else 0.0
    return total, claimed


@dataclass(frozen=True)
class Twice:
    """Two releases of D and D′ with the same answers, with their results, their true cost and the claimed cost."""

    results: tuple[Any, Any]
    cost: float
    claimed: float

    def keeps(self, charge: Rho | float) -> bool:
        """Return True if the true cost and the claims are at most the charge, and the cost is not close to zero.

        A cost close to zero means that the mechanism did not use the row. The cost of a selection may be less than its
        claim, so that a small uncharged measurement would be hidden in the cost. It is found in the claims.
        """
        most = float(charge) * (1 + SLACK)
        return 0.2 * float(charge) < self.cost <= most and self.claimed <= most

    @property
    def pure(self) -> bool:
        """Return True if both results are identical to the last bit."""
        return as_bytes(self.results[0]) == as_bytes(self.results[1])


def made_twice(make: Callable[[Any, Recorder], Any], table: Any, neighbour: Any, folder: Path, seed: int = 0) -> Twice:
    """Run `make(table, noise)` and record its calls, and run `make(neighbour, noise)` with the recorded answers."""
    first, second = folder / "first", folder / "second"
    results = make(table, Recorder(first, seed=seed)), make(neighbour, Recorder(second, first, seed))
    return Twice(results, *true_cost(first, second))


def as_bytes(result: Any) -> Any:
    """Return the content of a result in a form that can be compared exactly."""
    if isinstance(result, np.ndarray):
        return result.dtype.str, result.shape, result.tobytes()
    if isinstance(result, Mapping):
        return [(as_bytes(key), as_bytes(value)) for key, value in result.items()]
    if isinstance(result, list | tuple):
        return [as_bytes(each) for each in result]
    if is_dataclass(result):
        return [type(result).__name__, *(as_bytes(getattr(result, field.name)) for field in fields(result))]
    return repr(result)


def load_call(path: Path) -> Call:
    """Return a recorded call."""
    assert path.exists(), f"{path.name} is a call that was not made on the first table"
    return pickle.loads(path.read_bytes())
