"""Answers that are implied by the model, with errors from its replicates and from the misfit of unmeasured columns.

See docs/proofs/estimates.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy

from equistrata.analysis.axes import has_nested_groups
from equistrata.analysis.bases.grounds import AnswerSources, table_of
from equistrata.analysis.bases.measured import LEAST_ROWS, sampling, span
from equistrata.analysis.bases.misfits import measured_groups, misfit_parts
from equistrata.analysis.bases.weights import model_weight_ratios, weight_errors
from equistrata.analysis.derived import parts_of
from equistrata.analysis.questions import Question
from equistrata.arrays import Floats
from equistrata.synth.measurements import sum_groups
from equistrata.synth.models.coarsening import Coarsening
from equistrata.synth.strata.model import StratifiedModel

_ROUNDING = 1e-9  # relative tolerance for squares


@dataclass(frozen=True, eq=False)
class ModelErrors:
    """The answers of a model and their errors.

    Attributes
    ----------
    value : ndarray of shape (n,)
        The answers.
    moved : ndarray of shape (replicates, n)
        The difference between the answers of each replicate and the answers of the model.
    misfit : ndarray of shape (n, parts)
        Independent components of the error due to columns that were not measured together.
    known : ndarray of shape (n,)
        The variance due to all other sources.
    empty : ndarray of bool, shape (n,)
        True if the model has no rows in the group.
    sampling : ndarray of shape (n,)
        The part of `known` that is due to the sampling of rows.
    shared : ndarray of shape (n, parts)
        The components of the sampling error that answers share. They exist if the weights are adjusted to control
        totals.
    """

    value: Floats
    moved: Floats
    misfit: Floats
    known: Floats
    empty: npt.NDArray[np.bool_]
    sampling: Floats
    shared: Floats

    @classmethod
    def of(cls, grounds: AnswerSources, asked: Question, sampled: float) -> ModelErrors:
        """Compute the answers to a question and their errors."""
        top, ratio, schema = asked.top, asked.bottom is not None, grounds.evidence.strata.schema
        bottom = np.zeros_like(top) if asked.bottom is None else asked.bottom
        table = table_of(grounds.evidence.model, asked.columns, asked.merged)
        sums = _measured_sums(grounds, asked)
        values_of = [measurement.values for measurement in grounds.evidence.all]

        def answers(counts: Floats) -> Floats:
            return np.asarray(top @ counts / (np.maximum(bottom @ counts, LEAST_ROWS) if ratio else 1.0))

        weights = np.ones(top.shape[1]) if asked.weight is None else asked.by_group(schema, asked.weight.mean)

        def agreeing(counts: Floats) -> Floats:
            """Multiply counts by the factors that adjust the people in the cells to the control totals."""
            return counts if asked.strata is None else counts * asked.strata.factors(counts * weights)

        def by(model: StratifiedModel, counts: Floats) -> Floats:
            """Compute answers from a model's counts and from the survey weights of this model."""
            times = 1.0 if asked.weight is None else asked.by_group(schema, model_weight_ratios(model, asked.weight))
            return answers(agreeing(counts.ravel() * times))

        counts = sums(table, values_of).ravel()
        agreed = agreeing(counts)
        value, rows, truth = answers(agreed), bottom @ agreed, by(grounds.evidence.model, table)
        below = np.maximum(rows, LEAST_ROWS) if ratio else np.ones(len(value))
        drawn = counts * asked.sampling_times(schema)
        if asked.strata is None:
            linear, shaken = (top - value[:, None] * bottom) / below[:, None], np.zeros((len(top), 0))
            variance = sampling(top, bottom, asked.squares, drawn, value * ratio) / below**2
        else:
            linear, shaken, variance = _residuals(asked, value, below, counts, agreed, weights, drawn)
        misfit = misfit_parts(grounds, asked, table, linear)
        sides = top - value[:, None] * bottom
        shared, own = weight_errors(grounds, asked, linear, sides, counts, noise=False)
        misfit, known = np.concatenate([misfit, shared], axis=1), sampled * variance + (own**2).sum(1)
        if asked.assumed is not None:
            known = known + (asked.assumed @ agreed / below) ** 2
        made = (
            (model, sums(table_of(model, asked.columns, asked.merged), noisy)) for model, noisy in grounds.replicated()
        )
        moved = np.array([by(model, each) - truth for model, each in made])
        empty = (bottom @ agreeing(table.ravel()) < LEAST_ROWS) & ratio
        return cls(value, moved, misfit, known, empty, sampled * variance, np.sqrt(sampled) * shaken)

    @property
    def noise(self) -> Floats:
        """The variance due to noise, shrinkage and the fit, shape (n,)."""
        return np.asarray((self.moved**2).mean(0))

    @property
    def variance(self) -> Floats:
        """The variance of each answer, shape (n,)."""
        return np.asarray(self.noise + (self.misfit**2).sum(1) + self.known)

    def reach(self, level: float) -> Floats:
        """Return the half-width of each answer's interval, shape (n,).

        It uses a quantile of Student's t because part of the variance is estimated from a few replicates. The degrees
        of freedom are those of Satterthwaite (1946).
        """
        variance = np.maximum(self.variance, 1e-300)
        freedom = len(self.moved) * (variance / np.maximum(self.noise, 1e-4 * variance)) ** 2
        return np.asarray(scipy.special.stdtrit(freedom, (1 + level) / 2) * np.sqrt(variance))

    def correlation(self, first: npt.NDArray[np.intp]) -> Floats:
        """Return the correlation of each error with the error of the answer at the index `first`, shape (n,)."""
        error = np.sqrt(self.variance)
        common = (self.moved * self.moved[:, first]).mean(0) + (self.misfit * self.misfit[first]).sum(1)
        common = common + (self.shared * self.shared[first]).sum(1)
        return np.asarray(common / np.maximum(error * error[first], 1e-300))

    def numbers(self, asked: Question, level: float, held_out: float) -> Floats:
        """Return the estimate, the ends of its interval, the standard error and its parts (`ANSWER`), shape (n, 6).

        If the model has no rows in a group, then any value is possible. The estimate is the middle of the range, and
        the interval is the whole range.
        """
        value, error, far = self.value, np.sqrt(self.variance), self.reach(level)
        parts = parts_of(error, self.variance - self.sampling, self.sampling)
        if asked.bottom is None:
            kept = 1.0 if asked.strata is not None else 1 - held_out
            return np.column_stack([value, np.maximum(value - far, 0.0), value + far, error, *parts]) / kept
        least, most = np.array([span(*each) for each in zip(asked.top, asked.bottom, strict=True)]).T
        found = np.column_stack([value, np.maximum(value - far, least), np.minimum(value + far, most), error, *parts])
        error = (most - least) / (2 * scipy.special.ndtri((1 + level) / 2))
        whole = np.column_stack([(least + most) / 2, least, most, error, error, np.zeros(len(error))])
        return np.where(self.empty[:, None], whole, found)  # the same rule as for a measured ratio without rows


def _residuals(
    asked: Question, value: Floats, below: Floats, counts: Floats, agreed: Floats, weights: Floats, drawn: Floats
) -> tuple[Floats, Floats, Floats]:
    """Linearise answers that use weights adjusted to control totals.

    Returns the answers as sums over the counts of cells, the sampling error of each cell, and the sampling variance of
    the answers. The variance includes the variation between the rows of a cell. To first order, each row contributes
    the difference between its value and the weighted mean of its cell of the totals (Särndal, Swensson and Wretman,
    1992).
    """
    assert asked.strata is not None
    factors = asked.strata.factors(counts * weights)
    bottom = np.zeros_like(asked.top) if asked.bottom is None else asked.bottom
    linear = (asked.top - value[:, None] * bottom) * factors / below[:, None]
    means = asked.strata.means(linear * counts, agreed * weights)
    linear = linear - means * weights * factors
    # The part of the squares due to variation between the rows of a cell, in addition to E[w²] / w².
    within = asked.squares - np.divide(asked.top**2, weights, out=np.zeros_like(asked.top), where=weights > 0)
    within = np.where(within > _ROUNDING * asked.squares, within, 0.0)
    own = linear * np.sqrt(np.divide(drawn, weights, out=np.zeros(len(drawn)), where=weights > 0))
    return linear, own, (own**2).sum(1) + within @ (drawn * factors**2) / below**2


def _measured_sums(grounds: AnswerSources, asked: Question) -> Callable[[Floats, Sequence[Floats]], Floats]:
    """Return a function that scales a model's table to the measured sums of groups of codes.

    If columns were measured together in groups of bins, then the number of rows in each group is measured. The model
    only determines the distribution within the group. The table is returned unchanged if no groups were measured or if
    there are too many groups.
    """
    columns = asked.columns
    groups = {} if grounds.counts.apart or asked.nested or len(columns) < 2 else measured_groups(grounds, asked)
    level_of = (*asked.merged, *groups.items())
    read = asked.strata is None and (groups or asked.weight is not None)  # a model's counts are not negative
    known = grounds.counts.table(columns, level_of) if read else None
    if known is None or known.missing.size:
        return lambda table, values: table
    level = [has_nested_groups(each, level_of) for each in grounds.evidence.all]
    coarse = Coarsening(grounds.evidence.strata.schema, dict(level_of))

    def summed(table: Floats, values: Sequence[Floats]) -> Floats:
        own = zip(grounds.evidence.all, values, level, strict=True)
        seen = known.counts([coarse.coarse(replace(each, values=v)).values for each, v, kept in own if kept])
        modelled, index = table, np.indices(table.shape)
        for name, labels in groups.items():
            axis = columns.index(name)
            modelled = sum_groups(modelled, axis, labels)
            index[axis] = np.asarray(labels)[index[axis]]
        times = seen.reshape(modelled.shape) / np.maximum(modelled, 1e-9)
        return np.asarray(table * times[tuple(index)])

    return summed
