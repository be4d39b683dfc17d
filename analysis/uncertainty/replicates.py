"""Replicates: models of tables that the release's own model could have given, measured and modelled again.

The parametric bootstrap (Efron, 1979; for synthesis with known noise, as the US Census Bureau's replicate files, 2023):
the fitted model stands for the rows, its exact marginals get fresh noise of the published σ, and the same steps as in
the release make a model of them, from nothing: one that began at the fitted model would stop too near it. How far these
are from the fitted model says how far that may be from the rows, as far as noise, shrinkage and rounding go. What a
model leaves out is not in them: `equistrata.analysis.uncertainty.misfit`.
Post-processing, no cost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, starmap
from time import perf_counter

import numpy as np

from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.arrays import Floats
from equistrata.synth.measurements import Measurement, cells_where
from equistrata.synth.strata.fitting import process_pool
from equistrata.synth.strata.model import StratifiedModel

Replicate = tuple[StratifiedModel, list[Floats]]  # a model of rows, and the noisy values of `Evidence.all`
_WORTH_A_POOL = 10.0  # seconds of work that is left: processes take some to start
_AHEAD = 8  # replicates of each process that wait, at most, until they are used


def expected(model: StratifiedModel, measurement: Measurement) -> Floats:
    """What a measurement would be without noise if the rows were the model's."""
    codes = dict(measurement.where)
    columns = [*measurement.columns, *codes]
    counts = model.marginal(columns)[cells_where(columns, codes)]
    return np.asarray(measurement.merged(counts))


@dataclass(frozen=True, eq=False)
class Replicating:
    """Models of rows, each of fresh noise on `evidence.fitted`. A replicate depends on the seed and its place alone.

    Attributes:
        seed: public.
    """

    evidence: Evidence
    seed: int = 0

    def models(self, places: Sequence[int], workers: int = 1) -> Iterator[Replicate]:
        """The replicates at these places, in their order.

        Args:
            workers: processes that make them side by side, where that takes longer than to start these.
        """
        if not places:
            return
        bare = replace(
            self.evidence, stored=None
        )  # without the models it has made, which processes would be sent with each job
        jobs = ((bare, self._noisy(place)) for place in places)
        began = perf_counter()
        first = _again(*next(jobs))
        left = len(places) - 1
        if workers < 2 or (perf_counter() - began) * left < _WORTH_A_POOL:
            yield first
            yield from starmap(_again, jobs)
            return
        with process_pool(min(workers, left)) as pool:
            waiting = deque(pool.submit(_again, *job) for job in islice(jobs, _AHEAD * workers))
            yield first  # they work while it is used
            while waiting:
                made = waiting.popleft().result()
                waiting.extend(pool.submit(_again, *job) for job in islice(jobs, 1))
                yield made

    def noisy_rows(self, place: int) -> list[Floats]:
        """Return the noisy values of `Evidence.all` of the replicate at this place, without fitting its model."""
        return self.evidence.rows_of([each.values for each in self._noisy(place)])

    @cached_property
    def _exact(self) -> list[Floats]:
        """What was measured, as the model has it."""
        return [expected(self.evidence.fitted, each) for each in self.evidence.published]

    def _noisy(self, place: int) -> list[Measurement]:
        rng = np.random.default_rng([self.seed, 2, place])
        return [
            replace(each, values=values + rng.normal(0.0, each.sigma, values.shape))
            for each, values in zip(self.evidence.published, self._exact, strict=True)
        ]


def _again(evidence: Evidence, noisy: Sequence[Measurement]) -> Replicate:
    """The model of these measurements, and the noisy values of `Evidence.all`."""
    return evidence.of_rows(evidence.refitted(noisy)), evidence.rows_of([each.values for each in noisy])
