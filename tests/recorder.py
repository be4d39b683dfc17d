"""Exact accounting and purity: what a release cost in truth, and whether anything but noise tells of the rows.

A release is made of a table D, and each call to its noise source is written down: what was given, the noise, the
answer. It is made again of a neighbour D′, and every call gets the answer that it got on D. What the calls were given,
on either side, says what each answer cost in truth; these costs add up, and may not pass the charge. And since all that
came from rows came through the noise source, what is published must be the same bytes.

Nothing in here knows what a mechanism measures or how it scores, so a fault cannot hide by being in both. Calls are
files in a folder, named by their stream and their place in it, so that noise may be drawn in other processes. A call
that only one table makes, or that is made with other noise, is a failure by itself: control flow that depends on more
than answers.
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

SLACK = 1e-9  # of rounding in floats, relative


class Recorder(SeededNoise):
    """Writes down each call into `folder`; answers by itself, or as the calls in `answers` were answered.

    A stream that is drawn from by two objects (so that seeded noise would repeat) fails: its files are there already.
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
    """A call to the noise source: what was given, the scale of the noise, what was claimed, and the answer."""

    kind: str
    given: np.ndarray
    scale: float
    sensitivity: float
    claim: float
    answer: np.ndarray

    def moved(self, other: Call) -> float:
        """How far a neighbour's values are from these, in the norm that the kind of noise asks for."""
        apart = np.abs(self.given.astype(np.float64) - other.given.astype(np.float64))
        if not apart.size:
            return 0.0
        return float({"gaussian": np.linalg.norm, "laplace": np.sum, "select": np.max}[self.kind](apart.ravel()))

    def cost(self, other: Call) -> float:
        """The ρ that this answer cost in truth: of the noise that was there and of how far the values really are apart.

        Gaussian noise: ‖x − x′‖²/(2σ²). Laplace: ε²/2 at ε = ‖x − x′‖₁/b. A choice: its log-probabilities move by d/b,
        d the scores' differences, up to a constant; so the range of that, η, bounds the ratio, and it costs η²/8 (Cesar
        and Rogers, arXiv:2004.07223, Lemma 3.4).
        """
        if self.kind == "select":
            apart = (self.given - other.given) / self.scale
            return float(np.ptp(apart)) ** 2 / 8
        return (self.moved(other) / self.scale) ** 2 / 2


def true_cost(first: Path, second: Path, unit_rows: int = 1) -> tuple[float, float]:
    """What all calls of a release cost in truth, in ρ, from the recordings on D and on D′; and what was claimed for
    those of them that the row moved at all (strata are disjoint, and claims of the others do not add to it).

    Where D and D′ differ by a unit of up to `unit_rows` rows, claims are for one row of it: a unit moves values by so
    many times as much, and pays the square of that.

    Raises AssertionError if a call is made on one table only or with other noise, moves by more than its sensitivity,
    or costs more than was claimed for it.
    """
    names = [{path.name for path in folder.iterdir()} for folder in (first, second)]
    assert names[0] == names[1], f"calls on one table only: {sorted(names[0] ^ names[1])}"
    total = claimed = 0.0
    for name in sorted(names[0]):
        one, two = (load_call(folder / name) for folder in (first, second))
        claims = [(call.kind, call.scale, call.sensitivity, call.claim) for call in (one, two)]
        assert claims[0] == claims[1], f"{name} is drawn with other noise on the neighbour: {claims}"
        exact = (
            1.0 if one.kind == "select" else 1 + 1e-12
        )  # a norm is rounded, the largest of scores that are exact is not
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
    """A release of D and one of D′ with the same answers: the results, what they cost in truth, and what was claimed
    for that."""

    results: tuple[Any, Any]
    cost: float
    claimed: float

    def keeps(self, charge: Rho | float) -> bool:
        """Whether the cost and the claims are at most the charge, and the cost not next to nothing: then nobody looked.

        A choice may cost less than its claim, and hide a small measurement off the books from the cost; the claims show
        it.
        """
        most = float(charge) * (1 + SLACK)
        return 0.2 * float(charge) < self.cost <= most and self.claimed <= most

    @property
    def pure(self) -> bool:
        """Whether both results are the same to the last bit."""
        return as_bytes(self.results[0]) == as_bytes(self.results[1])


def made_twice(make: Callable[[Any, Recorder], Any], table: Any, neighbour: Any, folder: Path, seed: int = 0) -> Twice:
    """`make(table, noise)` and `make(neighbour, noise)`, recorded in a folder and played back from it."""
    first, second = folder / "first", folder / "second"
    results = make(table, Recorder(first, seed=seed)), make(neighbour, Recorder(second, first, seed))
    return Twice(results, *true_cost(first, second))


def as_bytes(result: Any) -> Any:
    """Everything in a result, comparable to the last bit."""
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
    """A call that was written down."""
    assert path.exists(), f"{path.name} is a call that was not made on the first table"
    return pickle.loads(path.read_bytes())
