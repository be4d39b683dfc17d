"""Replicates of a release: models that are fitted to new noisy measurements of the release's own model.

This is a parametric bootstrap (Efron, 1979), which the US Census Bureau also used for replicate files of data with
known noise (2023). The fitted model takes the place of the rows. Its exact marginals get new noise with the published
standard deviation, and a new model is fitted by the same steps as in the release. The fit does not start from the
fitted model, because it would stop too close to it. The distance between replicates and the fitted model estimates the
distance between the fitted model and the rows, as far as it is due to noise, shrinkage and rounding. It does not
include the misfit of the model (see `equistrata.analysis.uncertainty.misfit`). All results are post-processing, so they
cost no privacy.
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

Replicate = tuple[StratifiedModel, list[Floats]]  # a model of rows and the noisy values of `Evidence.all`
_WORTH_A_POOL = 10.0  # the minimum remaining work in seconds for which starting processes is worthwhile
_AHEAD = 8  # the maximum number of replicates per process that are computed ahead


def expected(model: StratifiedModel, measurement: Measurement) -> Floats:
    """Return the value of a measurement without noise if the rows had the distribution of the model."""
    codes = dict(measurement.where)
    columns = [*measurement.columns, *codes]
    counts = model.marginal(columns)[cells_where(columns, codes)]
    return np.asarray(measurement.merged(counts))


@dataclass(frozen=True, eq=False)
class ReplicateGenerator:
    """A generator of replicates of `evidence.fitted`. A replicate only depends on the seed and its index.

    Attributes
    ----------
    evidence : Evidence
        The measurements of a release.
    seed : int
        The seed of the noise, which can be public.
    """

    evidence: Evidence
    seed: int = 0

    def models(self, places: Sequence[int], workers: int = 1) -> Iterator[Replicate]:
        """Generate the replicates with the given indices in order.

        Parameters
        ----------
        places : sequence of int
            The indices of the replicates.
        workers : int
            The number of processes that compute replicates in parallel. They are only used if this saves time.

        Yields
        ------
        tuple
            A model of rows and the noisy values of `Evidence.all`.
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
            yield first  # the processes continue while the caller uses it
            while waiting:
                made = waiting.popleft().result()
                waiting.extend(pool.submit(_again, *job) for job in islice(jobs, 1))
                yield made

    def noisy_rows(self, place: int) -> list[Floats]:
        """Return the noisy values of `Evidence.all` of the replicate at this place, without fitting its model."""
        return self.evidence.rows_of([each.values for each in self._noisy(place)])

    @cached_property
    def _exact(self) -> list[Floats]:
        """The exact values of the measurements in the model."""
        return [expected(self.evidence.fitted, each) for each in self.evidence.published]

    def _noisy(self, place: int) -> list[Measurement]:
        rng = np.random.default_rng([self.seed, 2, place])
        return [
            replace(each, values=values + rng.normal(0.0, each.sigma, values.shape))
            for each, values in zip(self.evidence.published, self._exact, strict=True)
        ]


def _again(evidence: Evidence, noisy: Sequence[Measurement]) -> Replicate:
    """Fit a model to new measurements, and return it with the noisy values of `Evidence.all`."""
    return evidence.of_rows(evidence.refitted(noisy)), evidence.rows_of([each.values for each in noisy])
