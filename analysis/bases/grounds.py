"""Sources of answers: measured counts, replicates of the release's model, and the misfit of the model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import numpy as np

from equistrata.analysis.axes import Merged
from equistrata.analysis.bases.counts import MeasuredCounts
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.learned import ModelMisfit
from equistrata.analysis.uncertainty.replicates import Replicate, ReplicateGenerator
from equistrata.analysis.uncertainty.weight_law import law_of, measured_weight, redrawn_laws, weight_column
from equistrata.arrays import Floats
from equistrata.data.survey.controls import Controls
from equistrata.synth.measurements import Columns, sum_groups
from equistrata.synth.strata.model import StratifiedModel

NOISES = 50  # the number of noise draws for the distribution of the survey weight
REPLICATES = 6  # intervals use quantiles of Student's t for the part of the error that replicates estimate


@dataclass(eq=False)
class AnswerSources:
    """The sources from which a release's answers are computed.

    Attributes
    ----------
    evidence : Evidence
        The measurements of a release.
    seed : int
        The seed of the replicates' noise. It can be public, because it does not protect anything.
    count : int
        The number of replicates.
    models : bool
        If True, the model answers questions about columns that were not measured together.
    progress : callable or None
        A function that is called with the number of completed replicates and the total number of replicates. If None,
        the progress is printed in notebooks only.
    workers : int
        The number of processes that compute replicates in parallel, if this takes long.
    controls : Controls or None
        The control totals of people to which the survey weights are adjusted.
    stored : sequence of Replicate
        The replicates that the release keeps. A file is read when its replicate is needed.
    """

    evidence: Evidence
    seed: int = 0
    count: int = REPLICATES
    models: bool = True
    progress: Callable[[int, int], None] | None = None
    workers: int = 1
    controls: Controls | None = None
    stored: Sequence[Replicate] = ()
    _replicated: list[Replicate] = field(default_factory=list, repr=False)

    @cached_property
    def counts(self) -> MeasuredCounts:
        """The least squares estimates of the measured counts."""
        return MeasuredCounts(self.evidence)

    @cached_property
    def misfit(self) -> ModelMisfit:
        """The error of the model for columns that were not measured together."""
        return ModelMisfit(self.evidence)

    @cached_property
    def weight_law(self) -> Floats:
        """The number of rows for each code of the survey weight.

        It is measured over all rows if possible, and computed from the model otherwise.
        """
        measured = measured_weight(self.evidence)
        if measured:
            return law_of(self.evidence, measured)
        return np.maximum(self.evidence.model.marginal((weight_column(self.evidence).name,)), 0.0)

    @cached_property
    def weight_draws(self) -> list[Floats]:
        """Replicates of `weight_law` with new noise."""
        if measured_weight(self.evidence):
            return list(redrawn_laws(self.evidence, NOISES, self.seed))
        column = weight_column(self.evidence).name
        return [np.maximum(model.marginal((column,)), 0.0) for model, _ in self.replicated()]

    def replicated(self, workers: int | None = None) -> list[Replicate]:
        """Return `count` replicates. Each replicate is computed only once."""
        return list(self.replicates(self.count, workers))

    def replicates(self, count: int, workers: int | None = None) -> Iterator[Replicate]:
        """Generate replicates, computed by several processes as in `ReplicateGenerator.models`.

        The first `self.count` replicates are stored. If `workers` is None, the attribute `workers` is used.
        """
        yield from (known := self._replicated[:count])
        places = range(len(known), count)
        stored = (self.stored[place] for place in places if place < len(self.stored))
        fresh = range(max(len(known), len(self.stored)), count)
        made_again = ReplicateGenerator(self.evidence, self.seed).models(fresh, workers or self.workers)
        progress = self.progress or (report_in_notebook if fresh and in_notebook() else None)
        for place, made in zip(places, chain(stored, made_again), strict=True):
            if place == len(self._replicated) < self.count:
                self._replicated.append(made)
            if progress is not None:
                progress(place + 1, count)
            yield made


def in_notebook() -> bool:
    """Return True if the code runs in a Jupyter kernel."""
    return "ipykernel" in sys.modules


def report_in_notebook(done: int, of: int) -> None:
    """Print the progress of the replicates on one line, which is overwritten each time."""
    print(f"\rreplicate {done} of {of}", end="\n" if done == of else "", file=sys.stderr, flush=True)


def table_of(model: StratifiedModel, columns: Columns, merged: Merged = ()) -> Floats:
    """Return a model's counts over some columns, which can be in groups of codes."""
    table = model.marginal(columns)
    for name, groups in merged:
        if name in columns:
            table = sum_groups(table, columns.index(name), groups)
    return table
