"""Estimates with intervals for questions about a release.

If the release measured the columns of a question together, the answer is computed from the noisy counts. Otherwise, it
is computed from the model, and the interval also accounts for the error of the model. See docs/proofs/estimates.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain, combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.analysis.axes import holds, question_names
from equistrata.analysis.bases.grounds import AnswerSources
from equistrata.analysis.bases.implied import ModelErrors
from equistrata.analysis.bases.measured import measured_limits, shared_noise, span
from equistrata.analysis.bases.weights import question_about_people, survey_weight
from equistrata.analysis.derived import ANSWER, IMPLIED, MEASURED, REFUSED, contrasts, quantiles
from equistrata.analysis.headings import heading
from equistrata.analysis.questions import (
    Of,
    Question,
    averaged,
    broadcast_functionals,
    column_of_numbers,
    cumulative,
    has_numbers,
    question,
)
from equistrata.analysis.regression.coefficients import coefficients
from equistrata.analysis.regression.design import Regression
from equistrata.analysis.statistics.names import PAIRS, REGRESSIONS, STATISTICS
from equistrata.analysis.statistics.pair import Pair
from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.errors import InputError, enough_memory
from equistrata.stats.checks import confidence, number, one_of, share
from equistrata.synth.measurements import Columns

COUNTED, PEOPLE, ROWS = "counted", "people", "rows of the file"
# The statistics that use the numeric values of a column.
PAIRS_OF_NUMBERS = tuple(name for name, pair in PAIRS.items() if pair.numbers)
OF_NUMBERS = ("mean", "quantile", "median", "difference", "ratio", *PAIRS_OF_NUMBERS, *REGRESSIONS)


def bin_number_notes(schema: Schema, statistic: str, of: Of, by: Sequence[str]) -> list[str]:
    """Return a note for each column that the answer reads as bin numbers.

    A column with `release: index` was released as the numbers of its bins, so the answer is not in the unit of the
    column.
    """
    asked = [of] if isinstance(of, str) and statistic in OF_NUMBERS else []
    asked += [*by] if statistic in (*REGRESSIONS, *PAIRS_OF_NUMBERS) else []
    columns = [schema[name] for name in dict.fromkeys(asked) if name in schema.names]
    return [
        f"{column.name} was released as the numbers of its bins, from 0 ({column.words(0)}) to {column.size - 1} "
        f"({column.words(column.size - 1)}), so the answer is in these bin numbers, not in units of "
        f"{column.label or column.name}"
        for column in columns
        if column.numeric and column.edges and column.release == "index" and not column.layout
    ]


@dataclass(frozen=True, eq=False)
class AnswerSet:
    """The answers to a question.

    Attributes
    ----------
    asked : Question
        The question.
    numbers : ndarray of shape (n, 6)
        The columns of `ANSWER`: the estimate, the ends of its interval, the standard error and the two parts of the
        standard error.
    basis : ndarray of str, shape (n,)
        The basis of each answer: "measured", "implied" or "refused".
    limits : ndarray of shape (n, 3)
        For measured answers, the estimate and the ends of its interval before they are clipped to the possible range.
        The values are NaN for all other answers.
    errors : ModelErrors or None
        The errors of the answers that are implied by the model. None if there are no such answers.
    tested : bool
        If False, the model answers a question about two columns that were never measured together, so no p-value is
        given.
    """

    asked: Question
    numbers: Floats
    basis: npt.NDArray[np.str_]
    limits: Floats
    errors: ModelErrors | None
    tested: bool

    @property
    def frame(self) -> pd.DataFrame:
        """A data frame with one row per answer, including its labels."""
        return self.asked.labels.assign(**dict(zip(ANSWER, self.numbers.T, strict=True)), basis=self.basis)

    @property
    def ends(self) -> Floats:
        """The smallest and the largest possible value of each answer, shape (n, 2)."""
        if self.asked.bottom is None:
            return np.tile([0.0, np.inf], (len(self.basis), 1))
        return np.array([span(*parts) for parts in zip(self.asked.top, self.asked.bottom, strict=True)])


@dataclass(eq=False)
class Answers(AnswerSources):
    """An object that answers questions about a release."""

    @enough_memory("this question", "ask for fewer groups, values or columns")
    def estimate(
        self,
        statistic: str,
        of: Of = None,
        by: Sequence[str] = (),
        where: Mapping[str, Any] | None = None,
        level: float = 0.95,
        population: bool = False,
        design_effect: float | None = None,
        q: float = 0.5,
        weighted: bool | None = None,
    ) -> pd.DataFrame:
        """Estimate a statistic. See `equistrata.analysis.release.Release.estimate`."""
        found = self._estimate(statistic, of, by, where, level, population, design_effect, q, self.people(weighted))
        if population or self.evidence.strata.schema.survey_weight is not None:
            found.insert(list(found).index("basis"), COUNTED, PEOPLE if self.people(weighted) else ROWS)
        return found

    def people(self, weighted: bool | None) -> bool:
        """Return True if the answers are about people rather than rows.

        If `weighted` is None, the answers are about people if the release has a survey weight. Raises InputError if
        `weighted` is True and there is no survey weight.
        """
        has = self.evidence.strata.schema.survey_weight is not None
        if weighted and not has:
            raise InputError(
                "the release has no survey weight, so it can only count rows of the file; leave out 'weighted'"
            )
        return has if weighted is None else weighted

    def _estimate(
        self,
        statistic: str,
        of: Of,
        by: Sequence[str],
        where: Mapping[str, Any] | None,
        level: float,
        population: bool,
        design_effect: float | None,
        q: float,
        weighted: bool,
    ) -> pd.DataFrame:
        one_of("statistic", statistic, STATISTICS)
        schema, together = self.evidence.strata.schema, not self.counts.apart
        if weighted and statistic in (*REGRESSIONS, *PAIRS):
            raise InputError(
                f"{statistic!r} cannot be estimated for people, because it needs sums of weights that were not "
                "measured; estimate it for the rows of the file (weighted=False, or --unweighted)"
            )
        sampled = self._sampled(population, design_effect)
        if statistic in REGRESSIONS:
            confidence(level)
            if where:
                raise InputError("a regression cannot have a condition 'where'; add these columns to 'by' instead")
            return coefficients(self, Regression.of(schema, statistic, of, by), level, sampled)
        if statistic in PAIRS:
            confidence(level)
            effect = self.design_effect(design_effect)
            pair = replace(self._pair(statistic, of, by, where), level=level, sampled=sampled, design_effect=effect)
            line: pd.DataFrame = import_module(f"equistrata.analysis.statistics.{statistic}").answer(pair)
            return line
        if statistic in ("difference", "ratio"):
            inner = "mean" if of in schema.names and has_numbers(schema[str(of)]) else "proportion"
            found = self.answer(inner, of, by, where, level, population, design_effect, weighted)
            headings = [*map(heading, by)]
            groups = len(found.asked.labels[headings].drop_duplicates()) if by else 1
            first = np.arange(len(found.basis)) // groups * groups  # rows are ordered by value, then by group
            shared, ratio = self._shared(found, first, sampled), statistic == "ratio"
            return contrasts(found.frame, headings, level, ratio, found.ends, shared, found.tested)
        if statistic in ("quantile", "median"):
            confidence(level)
            q = 0.5 if statistic == "median" else share("q", q)
            asked, ends = cumulative(schema, of, by, where, together)
            shares = self._answered(self._about(asked, weighted), level, sampled).frame
            return quantiles(shares, [*map(heading, by)], heading(str(of)), ends, q, level)
        return self.answer(statistic, of, by, where, level, population, design_effect, weighted).frame

    def answer(
        self,
        statistic: str,
        of: Of = None,
        by: Sequence[str] = (),
        where: Mapping[str, Any] | None = None,
        level: float = 0.95,
        population: bool = False,
        design_effect: float | None = None,
        weighted: bool | None = None,
    ) -> AnswerSet:
        """Estimate a count, proportion or mean of each group. See `estimate` for the parameters."""
        confidence(level)
        asked = question(self.evidence.strata.schema, statistic, of, by, where, not self.counts.apart)
        asked = self._about(asked, self.people(weighted))
        return self._answered(asked, level, self._sampled(population, design_effect))

    def _about(self, asked: Question, people: bool) -> Question:
        """Convert a question about rows into a question about people, if `people` is True."""
        if not people:
            return asked
        weight = survey_weight(self, asked.columns, asked.merged)
        return question_about_people(self.evidence.strata.schema, asked, weight, self.controls)

    def design_effect(self, given: float | None) -> float:
        """Return the given design effect, or the default if it is None.

        The default is the maximum number of rows of a unit, because the rows of a unit may be similar. Raises
        InputError if the design effect is less than 1.
        """
        found = float(self.evidence.strata.schema.unit.at_most) if given is None else given
        if number("design_effect", found) < 1:
            raise InputError(f"design_effect is {found}; give 1 or more")
        return found

    def _sampled(self, population: bool, design_effect: float | None) -> float:
        """Return the factor that multiplies the variance of simple random sampling.

        The factor allows for the fact that units are sampled, and held out, as a whole.
        """
        effect = self.design_effect(design_effect)
        return effect if population else self.evidence.held_out * float(self.evidence.strata.schema.unit.at_most)

    def _answered(self, asked: Question, level: float, sampled: float) -> AnswerSet:
        """Answer from the measurements if possible, and from the model otherwise.

        Raises InputError if none of the answers can be given.
        """
        found = measured_limits(self, asked, level, sampled)
        numbers, limits, unknown, errors = found[:, :6], found[:, 6:], np.isnan(found[:, 0]), None
        basis = np.where(unknown, IMPLIED, MEASURED)
        if unknown.any():
            apart = self._never_together(asked)
            if apart and unknown.all():
                apart = question_names(self.evidence.strata.schema, apart, asked.nested)
                raise InputError(
                    f"the release did not measure {', '.join(apart)} all together, and smaller sets of these columns "
                    f"do not determine their joint distribution; ask about {'two' if len(apart) == 3 else 'fewer'} of "
                    "them at a time"
                )
            if apart or not self.models:
                basis[unknown] = REFUSED
            else:
                errors = ModelErrors.of(self, asked, sampled)
                numbers[unknown] = errors.numbers(asked, level, self.evidence.held_out)[unknown]
        pair = asked.asked if len(asked.asked) == 2 and errors is not None else None
        tested = pair is None or not self.misfit.never_measured(pair, asked.nested)
        return AnswerSet(asked, numbers, basis, limits, errors, tested)

    def _shared(self, found: AnswerSet, first: npt.NDArray[np.intp], sampled: float) -> Floats:
        """Return the correlation of each estimate's error with the error of a reference estimate, shape (n,).

        `first` is the index of the reference estimate for each estimate. The correlation is 0 if the two have a
        different basis.
        """
        value, alike = found.numbers[:, 0], found.basis == found.basis[first]
        counted = np.where(found.basis == MEASURED, value, np.nan)
        shared = shared_noise(self, found.asked, counted, first, sampled)
        if found.errors is not None:
            shared = np.where(found.basis == IMPLIED, found.errors.correlation(first), shared)
        return np.clip(np.where(alike, shared, 0.0), -1.0, 1.0)

    def _never_together(self, asked: Question) -> Columns:
        """Return the first smallest set of three or more columns that no measurement contains, or an empty tuple."""
        schema, columns = self.evidence.strata.schema, asked.asked
        several = chain.from_iterable(combinations(columns, size) for size in range(3, len(columns) + 1))
        every = self.evidence.published
        return next((some for some in several if not any(holds(m, some, schema, asked.nested) for m in every)), ())

    def _pair(self, statistic: str, of: Of, by: Sequence[str], where: Mapping[str, Any] | None) -> Pair:
        """Return the measured counts of two columns.

        Raises
        ------
        InputError
            If the two columns were not measured together.
        """
        if not isinstance(of, str) or len(by) != 1 or of in by:
            raise InputError(f"{PAIRS[statistic].title} needs one column in 'of' and another column in 'by'; give both")
        schema = self.evidence.strata.schema
        numbers = [averaged(column_of_numbers(schema, name)) for name in (of, by[0]) if PAIRS[statistic].numbers]
        asked = question(schema, "count", of, by, where, not self.counts.apart)
        groups = len(asked.labels[heading(by[0])].drop_duplicates())
        for table in self.counts.tables(asked.columns, asked.merged):
            top = broadcast_functionals(asked.top, asked.columns, table.columns, table.shape)
            if table.has(top).all():
                counts = (top @ table.counts(self.counts.values(asked.merged))).reshape(-1, groups)
                noise = np.asarray(table.spread(top) @ top.T)
                return Pair(of, by[0], counts, noise, numbers, self.seed + 3)
        raise InputError(
            f"the release did not measure {' and '.join(asked.columns)} together, so the answer would depend "
            "only on the model; choose a measured pair, which 'relations' in card.json lists"
        )
