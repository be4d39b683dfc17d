"""Answers with intervals: what was measured by itself, else what follows from the model and how far that may be off.

See docs/proofs/estimates.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.analysis.axes import asked_names, holds
from equistrata.analysis.bases.grounds import Errors, Grounds, of_the_last
from equistrata.analysis.bases.grouped import grouped, shared_noise
from equistrata.analysis.bases.implied import errors, implied
from equistrata.analysis.bases.measured import LEAST_ROWS, measured, measured_limits, sampling, span
from equistrata.analysis.derived import IMPLIED, MEASURED, NUMBERS, REFUSED, contrasts, quantiles
from equistrata.analysis.headings import heading
from equistrata.analysis.questions import Of, Question, cumulative, has_numbers, question, widened
from equistrata.analysis.regression.coefficients import coefficients
from equistrata.analysis.regression.design import KINDS, Regression
from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.errors import InputError, enough_memory
from equistrata.stats.checks import confidence, number, one_of, share
from equistrata.stats.independence import independence
from equistrata.synth.measurements import Columns

STATISTICS = ("count", "proportion", "mean", "quantile", "difference", "ratio", "independence", *KINDS)
OF_NUMBERS = ("mean", "quantile", "difference", "ratio", *KINDS)  # they read the numbers of a column


def bin_number_notes(schema: Schema, statistic: str, of: Of, by: Sequence[str]) -> list[str]:
    """A sentence for each column that the answer reads as the numbers of its bins, because it was released so."""
    asked = [of] if isinstance(of, str) and statistic in OF_NUMBERS else []
    asked += [*by] if statistic in KINDS else []
    columns = [schema[name] for name in dict.fromkeys(asked) if name in schema.names]
    return [
        f"{column.name} was released as the numbers of its bins, from 0 ({column.words(0)}) to {column.size - 1} "
        f"({column.words(column.size - 1)}): the answer is in these numbers, and not in those of "
        f"{column.label or column.name}"
        for column in columns
        if column.numeric and column.edges and column.release == "index" and not column.layout
    ]


@dataclass(eq=False)
class Answers(Grounds):
    """What a release answers."""

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
    ) -> pd.DataFrame:
        """See `equistrata.analysis.release.Release.estimate`."""
        one_of("statistic", statistic, STATISTICS)
        confidence(level)
        schema, design_effect = self.evidence.strata.schema, self._design_effect(design_effect)
        sampled = self._sampled(population, design_effect)
        if statistic in KINDS:
            if where:
                raise InputError("a regression has no condition 'where'; put these columns into 'by'")
            return coefficients(self, Regression.of(schema, statistic, of, by), level, sampled)
        if statistic == "independence":
            return self._independence(of, by, where, level, design_effect)
        if statistic in ("difference", "ratio"):
            inner = "mean" if of in schema.names and has_numbers(schema[str(of)]) else "proportion"
            asked = question(schema, inner, of, by, where, not self.apart)
            assert asked.bottom is not None
            headings = [*map(heading, by)]
            ends = np.array([span(*parts) for parts in zip(asked.top, asked.bottom, strict=True)])
            groups = len(asked.labels[headings].drop_duplicates()) if by else 1
            first = np.arange(len(asked.top)) // groups * groups  # values one after the other, groups within
            found = self._frame(asked, level, sampled, "how these groups differ")
            shared = self._shared(asked, found, first, level, sampled)
            return contrasts(found, headings, level, statistic == "ratio", ends, shared, self.tested(asked, found))
        if statistic == "quantile":
            share("q", q)
            asked, ends = cumulative(schema, of, by, where, not self.apart)
            return quantiles(self._frame(asked, level, sampled), [*map(heading, by)], heading(str(of)), ends, q, level)
        several = statistic == "mean" and of in schema.names and schema[str(of)].size > 2  # of two it is a share
        assumed = "what the means of these groups are" if several else None
        return self._frame(self.asked(statistic, of, by, where), level, sampled, assumed)

    def _design_effect(self, given: float | None) -> float:
        """The one that is given, or else the most rows of a unit: its rows may be alike."""
        found = float(self.evidence.strata.schema.unit.at_most) if given is None else given
        if number("design_effect", found) < 1:
            raise InputError(f"design_effect is {found}; give 1 or more")
        return found

    def _sampled(self, population: bool, design_effect: float) -> float:
        """Times the variance of a random sample of rows: units are sampled, and held out, as a whole."""
        return design_effect if population else self.evidence.held_out * float(self.evidence.strata.schema.unit.at_most)

    def free_limits(
        self,
        asked: Question,
        level: float = 0.95,
        population: bool = False,
        design_effect: float | None = None,
    ) -> Floats:
        """Each measured number and its interval's ends where no range cuts them off, shape (n, 3): see
        `measured_limits`."""
        sampled = self._sampled(population, self._design_effect(design_effect))
        return measured_limits(self, asked, level, sampled)[:, 4:]

    def modelled(
        self,
        asked: Question,
        found: pd.DataFrame,
        level: float = 0.95,
        population: bool = False,
        design_effect: float | None = None,
    ) -> tuple[npt.NDArray[np.bool_], Errors] | None:
        """Which numbers follow from the model and have its errors, and these (`errors`); None if none do.

        Groups that are answered by other laws do not, and those of which the model has no row.

        Args:
            found: what `estimate` gave for this question, and these settings.
        """
        own = found["basis"].eq(IMPLIED).to_numpy()
        if not own.any():
            return None
        sampled = self._sampled(population, self._design_effect(design_effect))
        own = own & np.isnan(self._by_groups(asked, level, sampled)[:, 0])
        if asked.bottom is not None and own.any():
            own &= asked.bottom @ self.over(self.evidence.model, asked.columns, asked.merged).ravel() >= LEAST_ROWS
        return (own, errors(self, asked, level, sampled)) if own.any() else None

    def asked(self, statistic: str, of: Of, by: Sequence[str], where: Mapping[str, Any] | None) -> Question:
        """See `question`; of the same one twice in turn, made once: it may be large."""
        words = repr((statistic, of, tuple(by), where))
        schema, together = self.evidence.strata.schema, not self.apart
        return of_the_last(self._asked, words, lambda: question(schema, statistic, of, by, where, together))

    def _by_groups(self, asked: Question, level: float, sampled: float) -> Floats:
        """See `grouped`; of the question that was asked last, made once: a difference needs it twice."""
        return of_the_last(self._grouped, (asked, level, sampled), lambda: grouped(self, asked, level, sampled))

    def tested(self, asked: Question, found: pd.DataFrame) -> bool:
        """Whether a measurement tells what two columns have to do with each other, so that a p-value is of it. Of two
        that were not measured together, it would be of the model and of what that may be off by."""
        pair, implied_ = asked.columns, found["basis"].eq(IMPLIED).any()
        return not (implied_ and len(pair) == 2 and self.never_measured(pair, asked.merged))

    def _frame(self, asked: Question, level: float, sampled: float, assumed: str | None = None) -> pd.DataFrame:
        """An estimate for each ratio that is asked for, with its basis. Raises InputError if none can be answered.

        Args:
            assumed: what the answer is, if of groups that were not measured it would be a law of other tables.
        """
        found = measured(self, asked, level, sampled)
        unknown = np.isnan(found[:, 0])
        basis = np.where(unknown, IMPLIED, MEASURED)
        if unknown.any():
            apart = self._never_together(asked)
            if apart and unknown.all():
                apart = asked_names(self.evidence.strata.schema, apart, asked.merged)
                raise InputError(
                    f"the release measured {', '.join(apart)} never all together, and fewer of them at a time do not "
                    f"say how all go together; ask about {'two' if len(apart) == 3 else 'fewer'} of them at a time"
                )
            pair = len(asked.columns) == 2 and self.assumed_alone(asked.columns, asked.merged)
            if assumed and pair and unknown.all():
                one, other = asked_names(self.evidence.strata.schema, asked.columns, asked.merged)
                raise InputError(
                    f"the release never measured {one} with {other}, so it does not say {assumed}: the answer would be "
                    "how much groups usually differ; ask for each group's proportions, or for columns that were "
                    "measured together ('relations' of card.json)"
                )
            if apart or (assumed and pair) or not self.models:
                basis[unknown] = REFUSED
            else:
                found[unknown] = self._by_groups(asked, level, sampled)[unknown]
                left = np.isnan(found[:, 0])
                if left.any():
                    found[left] = implied(self, asked, level, sampled)[left]
        return asked.labels.assign(**dict(zip(NUMBERS, found.T, strict=True)), basis=basis)

    def _shared(
        self, asked: Question, found: pd.DataFrame, first: npt.NDArray[np.intp], level: float, sampled: float
    ) -> Floats:
        """The correlation of each estimate's error with that of another one, shape (n,); 0 between bases.

        Groups share noise: where their sum was measured with less noise than each, what one has too much the other
        lacks. The sampling of their rows they do not share.

        Args:
            first: the other's place, for each.
        """
        value, basis = found["estimate"].to_numpy(dtype=float), found["basis"].to_numpy()
        shared = np.zeros(len(value))
        ready = np.isfinite(value) & (basis == basis[first])
        counted, modelled = (ready & (basis == each) for each in (MEASURED, IMPLIED))
        if counted.any():
            parts = (asked.top, asked.bottom, asked.squares)
            for table in self.counted(asked.columns, asked.merged):
                top, bottom, squares = (
                    widened(part, asked.columns, table.columns, table.shape) for part in parts if part is not None
                )
                seen = counted & (table.has(top) & table.has(bottom))
                seen &= seen[first]
                counts = table.counts(self.values_in(asked.merged))
                below = np.maximum(bottom @ counts, LEAST_ROWS)
                off = np.where(seen, value, 0.0)
                linear = (top - off[:, None] * bottom) / below[:, None]
                spread = table.spread(linear)
                own = sampled * sampling(top, bottom, squares, counts, off) / below**2
                both = np.sqrt((spread * linear).sum(1) + own)
                shared[seen] = ((spread * linear[first]).sum(1) / np.maximum(both * both[first], 1e-300))[seen]
                counted &= ~seen
        if modelled.any():
            known_groups = self._by_groups(asked, level, sampled)
            own = modelled & np.isfinite(known_groups[:, 0])
            own &= own[first]
            if own.any():
                shared[own] = shared_noise(self, asked, known_groups, first)[own]
            modelled &= ~own
        if modelled.any():
            _, moved, off, known = errors(self, asked, level, sampled)
            both = np.sqrt((moved**2).mean(0) + (off**2).sum(1) + known)
            common = (moved * moved[:, first]).mean(0) + (off * off[first]).sum(1)
            shared[modelled] = (common / np.maximum(both * both[first], 1e-300))[modelled]
        return np.clip(shared, -1.0, 1.0)

    def _never_together(self, asked: Question) -> Columns:
        """The first three or more of the columns that no measurement holds together, as few as that are; or none."""
        schema, columns = self.evidence.strata.schema, asked.columns
        several = chain.from_iterable(combinations(columns, size) for size in range(3, len(columns) + 1))
        every = self.evidence.published
        return next((some for some in several if not any(holds(m, some, schema, asked.merged) for m in every)), ())

    def _independence(
        self, of: Of, by: Sequence[str], where: Mapping[str, Any] | None, level: float, design_effect: float
    ) -> pd.DataFrame:
        """Cramér's V of two columns, and a test of no relation; of measured counts only, since a model assumes it."""
        if not isinstance(of, str) or len(by) != 1 or of in by:
            raise InputError("a test of independence is of one column in 'of' and another one in 'by'; name both")
        schema = self.evidence.strata.schema
        asked = question(schema, "count", of, by, where, not self.apart)
        groups = len(asked.labels[heading(by[0])].drop_duplicates())
        for table in self.tables(asked.columns, asked.merged):
            top = widened(asked.top, asked.columns, table.columns, table.shape)
            if table.has(top).all():
                counts = (top @ table.counts(self.values_in(asked.merged))).reshape(-1, groups)
                rng = np.random.default_rng(self.seed + 3)
                covariance = np.asarray(table.spread(top) @ top.T)
                found = independence(counts, covariance, rng=rng, level=level, design_effect=design_effect)
                numbers = (found.v, found.lower, found.upper, found.standard_error)
                labels = {"column": of, "against": by[0]}
                line = labels | dict(zip(NUMBERS, numbers, strict=True)) | {"p_value": found.p_value, "basis": MEASURED}
                return pd.DataFrame([line])
        raise InputError(
            f"the release did not measure {' and '.join(asked.columns)} together, so a test would be of its model; "
            "measured pairs are in 'relations' of card.json"
        )
