"""One fit of one system, with its training rows and the scores of its synthetic rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.child import Job, JobFailed, measure
from benchmarks.field.calling import PeerFailed, PeerTimeout, call
from benchmarks.field.systems import Ours, Peer, System
from benchmarks.rows import STRATA
from equistrata.data.table import CodedTable
from equistrata.eval.scores.scores import score
from equistrata.eval.scores.tables import Pair
from equistrata.eval.scores.workload import workload_error
from equistrata.privacy.budget import Rho
from paper.synthesizers import DELTA

TRAINING_SHARE = 0.8


@dataclass(frozen=True)
class Place:
    """One fit, given by its rows, system, ε and repetition."""

    rows: str
    system: str
    epsilon: float
    seed: int


@dataclass(frozen=True)
class Line(Place):
    """The errors and the cost of a fit. The best value of each error is 0.

    Attributes
    ----------
    singles, pairs : float
        The mean total variation distance over all marginals of one column and of two columns.
    triples : float
        The 3-way workload error.
    by_stratum : float
        The mean 3-way workload error within strata.
    parity : float
        The parity error of the means.
    distance : float
        The parity distance.
    forest : float
        The share of held-out rows that are misclassified by a random forest trained on the synthetic rows.
    seconds, cpu_seconds : float
        The elapsed time and the processor time for fitting and drawing, without imports.
    software : str
        The software and its version.
    """

    singles: float
    pairs: float
    triples: float
    by_stratum: float
    parity: float
    distance: float
    forest: float
    seconds: float
    cpu_seconds: float
    software: str


@dataclass(frozen=True)
class Fitted:
    """Synthetic rows as released values, and their cost."""

    drawn: pd.DataFrame
    seconds: float
    cpu_seconds: float
    software: str


def fitted(system: System, rows: CodedTable, place: Place, python: Path | None, limit: float) -> Fitted:
    """Fit a system to rows within `limit` seconds. Raises PeerFailed, or its subclass TooSlow."""
    if isinstance(system, Ours):
        job = Job(
            system.mechanism, system.strata, rows.schema.names, epsilon=place.epsilon, seed=place.seed,
            rules=system.rules,
        )  # fmt: skip
        try:
            cost, drawn = measure(job, rows, limit)
        except JobFailed as error:
            raise (PeerTimeout if "took longer" in str(error) else PeerFailed)(str(error)) from None
        return Fitted(drawn, cost.seconds, cost.cpu_seconds, f"equistrata {version('equistrata')}")
    assert isinstance(system, Peer)
    assert python is not None
    settings: dict[str, object] = {
        "synthesizer": system.synthesizer, "seed": place.seed, "draw": len(rows), "epsilon": place.epsilon,
        "delta": DELTA, "rho": float(Rho.from_epsilon_delta(place.epsilon, DELTA)),
    }  # fmt: skip
    made = call(python, system.path, rows, settings, limit)
    released = made.rows.decode(np.random.default_rng(place.seed))
    return Fitted(released, made.seconds, made.cpu_seconds, made.software)


def measured(
    system: System, table: CodedTable, place: Place, python: Path | None, limit: float,
    fit: Callable[[System, CodedTable, Place, Path | None, float], Fitted] = fitted,
) -> Line:  # fmt: skip
    """Fit a system on a random 80 % of the table, and score the released values.

    The training rows are the same for all systems in a repetition. Raises PeerFailed, or its subclass TooSlow.
    """
    training = np.random.default_rng(place.seed).random(len(table)) < TRAINING_SHARE
    rows, held_out = table.take(training), table.take(~training)
    made = fit(system, rows, place, python, limit)
    strata = [name for name in STRATA if name in table.schema.names]
    rng = np.random.default_rng(place.seed)
    real, test = rows.decode(rng), held_out.decode(rng)
    scores = score(
        real, made.drawn, strata, held_out=test, target=table.schema.target, classifiers=("random_forest",),
        baseline=False,
    )  # fmt: skip
    pair = Pair.of(real, made.drawn, strata)
    assert scores.accuracy is not None
    assert scores.parity_distance is not None
    return Line(
        **asdict(place),
        singles=workload_error(pair, 1) / 2,
        pairs=workload_error(pair, 2) / 2,
        triples=scores.workload3,
        by_stratum=scores.workload3_by_stratum,
        parity=scores.parity_error,
        distance=scores.parity_distance,
        forest=1 - scores.accuracy,
        seconds=round(made.seconds, 2),
        cpu_seconds=round(made.cpu_seconds, 2),
        software=made.software,
    )
