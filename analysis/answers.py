"""Answers with intervals: what was measured by itself, else what follows from the model and how far that may be off.

See docs/proofs/estimates.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import combinations
from math import prod, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtri, stdtrit

from equistrata.analysis.derived import NUMBERS, contrasts, quantiles
from equistrata.analysis.evidence import Evidence
from equistrata.analysis.least_squares import NOT_MEASURED, LeastSquares
from equistrata.analysis.misfit import (
    UNKNOWN,
    learned_misfit,
    misfit_variance,
    strata_with,
    table_effects,
    unmeasured_pairs,
    with_margins,
)
from equistrata.analysis.moments import Moments
from equistrata.analysis.questions import Of, Question, cumulative, has_numbers, question, widened
from equistrata.analysis.regression import KINDS, Regression
from equistrata.analysis.replicates import replicate_models
from equistrata.arrays import Floats
from equistrata.data.units.unit import UNIT_ROWS
from equistrata.errors import InputError
from equistrata.stats.checks import number, one_of, share
from equistrata.stats.fieller import Spread, ratio_interval
from equistrata.stats.independence import independence
from equistrata.synth.measurements import Columns, at_level, cells_where
from equistrata.synth.strata.model import StratifiedModel

STATISTICS = ("count", "proportion", "mean", "quantile", "difference", "ratio", "independence", *KINDS)
MEASURED, IMPLIED, REFUSED = "measured", "implied", "refused"
REPLICATES = 25  # Student's quantile is then 3 % above that of 50
NOISES = 200  # draws of noise on measured sums
_LEAST_ROWS = 1.0


@dataclass(eq=False)
class Answers:
    """What a release answers.

    Attributes:
        evidence: what it measured.
        seed: of the replicates' noise. Public: it protects nothing.
        count: of replicates.
        progress: is called with how many replicates are made, and of how many.
    """

    evidence: Evidence
    seed: int = 0
    count: int = REPLICATES
    progress: Callable[[int, int], None] | None = None
    _replicated: list[tuple[StratifiedModel, list[Floats]]] = field(default_factory=list)
    _known: dict[Columns, LeastSquares | None] = field(default_factory=dict)

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
        share("level", level)
        schema = self.evidence.strata.schema
        alike = float(schema.unit.at_most)  # units are sampled, and held out, as a whole, and their rows may be alike
        if design_effect is None:
            design_effect = alike
        if number("design_effect", design_effect) < 1:
            raise InputError(f"design_effect is {design_effect}; give 1 or more")
        sampled = design_effect if population else self.evidence.held_out * alike
        if statistic in KINDS:
            if where:
                raise InputError("a regression has no condition 'where'; put these columns into 'by'")
            return self._regression(Regression.of(schema, statistic, of, by), level, sampled)
        if statistic == "independence":
            return self._independence(of, by, where, level, design_effect)
        if statistic in ("difference", "ratio"):
            inner = "mean" if isinstance(of, str) and has_numbers(schema[of]) else "proportion"
            asked = question(schema, inner, of, by, where)
            assert asked.bottom is not None
            ends = np.array([_range(*parts) for parts in zip(asked.top, asked.bottom, strict=True)])
            groups = prod(schema[name].size for name in by)
            first = np.arange(len(asked.top)) // groups * groups  # values one after the other, groups within
            found = self._frame(asked, level, sampled)
            shared = self._shared(asked, found, first, sampled)
            return contrasts(found, by, level, statistic == "ratio", ends, shared)
        if statistic == "quantile":
            share("q", q)
            asked, ends = cumulative(schema, of, by, where)
            return quantiles(self._frame(asked, level, sampled), by, str(of), ends, q, level)
        return self._frame(question(schema, statistic, of, by, where), level, sampled)

    @cached_property
    def misfit(self) -> float:
        """See `learned_misfit`."""
        return learned_misfit(self.evidence)

    @cached_property
    def unmeasured(self) -> list[Columns]:
        """See `unmeasured_pairs`."""
        return unmeasured_pairs(self.evidence)

    def replicated(self, count: int | None = None) -> list[tuple[StratifiedModel, list[Floats]]]:
        """So many replicates' models and noisy values, `self.count` of them if not said; each is made once."""
        wanted = self.count if count is None else count
        while len(self._replicated) < wanted:
            self._replicated.append(next(self._making))
            if self.progress is not None:
                self.progress(len(self._replicated), wanted)
        return self._replicated[:wanted]

    @cached_property
    def _making(self) -> Iterator[tuple[StratifiedModel, list[Floats]]]:
        return replicate_models(self.evidence, np.random.default_rng(self.seed))

    @cached_property
    def _values(self) -> list[Floats]:
        return [measurement.values for measurement in self.evidence.all]

    def _frame(self, asked: Question, level: float, sampled: float) -> pd.DataFrame:
        """An estimate for each ratio that is asked for, with its basis. Raises InputError if none can be answered."""
        found = self._measured(asked, level, sampled)
        unknown = np.isnan(found[:, 0])
        basis = np.where(unknown, IMPLIED, MEASURED)
        if unknown.any():
            apart = self._never_together(asked.columns)
            if apart and unknown.all():
                raise InputError(
                    f"the release measured {', '.join(apart)} never all together, and pairs of them do not say how the "
                    "three go together; ask about two of them at a time"
                )
            if apart:
                basis[unknown] = REFUSED
            else:
                found[unknown] = self._implied(asked, level, sampled)[unknown]
        return asked.labels.assign(**dict(zip(NUMBERS, found.T, strict=True)), basis=basis)

    def _measured(self, asked: Question, level: float, sampled: float) -> Floats:
        """Estimate, ends and standard error of each ratio that was measured, shape (n, 4); NaN of the others."""
        found = np.full((len(asked.top), 4), np.nan)
        if asked.assumed is not None and not _negligible(asked):
            return found
        for table in self._tables(asked.columns):
            counts = table.counts(self._values)
            top, squares = (
                widened(part, asked.columns, table.columns, table.shape) for part in (asked.top, asked.squares)
            )
            seen, bottom = table.has(top), None
            if asked.bottom is not None:
                bottom = widened(asked.bottom, asked.columns, table.columns, table.shape)
                seen &= table.has(bottom)
            for place in np.flatnonzero(seen & np.isnan(found[:, 0])):
                below = None if bottom is None else bottom[place]
                parts = (counts, table.covariance, top[place], below, squares[place])
                found[place] = self._ratio(*parts, level, sampled)
            if not np.isnan(found).any():
                break
        return found

    def _shared(self, asked: Question, found: pd.DataFrame, first: npt.NDArray[np.intp], sampled: float) -> Floats:
        """The correlation of each estimate's error with that of another one, shape (n,); 0 between bases.

        Groups share noise: where their sum was measured with less noise than each, what one has too much the other
        lacks. The sampling of their rows they do not share.

        Args:
            first: the other's place, for each.
        """
        value, basis = found["estimate"].to_numpy(dtype=float), found["basis"].to_numpy()
        shared = np.zeros(len(value))
        ready = np.isfinite(value) & (basis == basis[first])
        measured, implied = (ready & (basis == each) for each in (MEASURED, IMPLIED))
        if measured.any():
            parts = (asked.top, asked.bottom, asked.squares)
            for table in self._tables(asked.columns):
                top, bottom, squares = (
                    widened(part, asked.columns, table.columns, table.shape) for part in parts if part is not None
                )
                seen = measured & (table.has(top) & table.has(bottom))
                seen &= seen[first]
                counts = table.counts(self._values)
                below = np.maximum(bottom @ counts, _LEAST_ROWS)
                off = np.where(seen, value, 0.0)
                errors = (top - off[:, None] * bottom) / below[:, None]
                spread = errors @ table.covariance
                own = sampled * _sampling(top, bottom, squares, counts, off) / below**2
                both = np.sqrt((spread * errors).sum(1) + own)
                shared[seen] = ((spread * errors[first]).sum(1) / np.maximum(both * both[first], 1e-300))[seen]
                measured &= ~seen
        if implied.any():
            _, moved, off, known = self._errors(asked, sampled)
            both = np.sqrt((moved**2).mean(0) + (off**2).sum(1) + known)
            common = (moved * moved[:, first]).mean(0) + (off * off[first]).sum(1)
            shared[implied] = (common / np.maximum(both * both[first], 1e-300))[implied]
        return np.clip(shared, -1.0, 1.0)

    def _ratio(
        self,
        counts: Floats,
        covariance: Floats,
        top: Floats,
        bottom: Floats | None,
        squares: Floats,
        level: float,
        sampled: float,
    ) -> tuple[float, float, float, float]:
        z, kept = float(ndtri((1 + level) / 2)), 1 - self.evidence.held_out
        x, of_x = float(top @ counts), float(top @ covariance @ top)
        if bottom is None:
            error = sqrt(of_x + sampled * max(x, 0.0)) / kept
            return x / kept, max(x / kept - z * error, 0.0), max(x / kept + z * error, 0.0), error
        n = float(bottom @ counts)
        joint, of_n = float(top @ covariance @ bottom), float(bottom @ covariance @ bottom)
        squared = max(float(squares @ counts), 0.0)
        spread = Spread(of_x, joint, of_n) + Spread(sampled * squared, sampled * x, sampled * max(n, 0.0))
        least, most = _range(top, bottom)
        if not least < most:
            return least, least, most, 0.0
        lower, upper = ratio_interval(x, n, spread, level=level, lower=least, upper=most)
        value = x / n if n >= _LEAST_ROWS else (lower + upper) / 2
        return min(max(value, lower), upper), lower, upper, (upper - lower) / (2 * z)

    def _tables(self, columns: Columns) -> list[LeastSquares]:
        """With the columns that define strata where these were measured one by one, which says all that was measured;
        and by these columns, where that has more cells than a covariance is worked out for."""
        found = (self._table(names) for names in dict.fromkeys([self._by_strata(columns), columns]))
        return [table for table in found if table is not None]

    def _table(self, columns: Columns) -> LeastSquares | None:
        """See `LeastSquares.of`; made once."""
        if columns not in self._known:
            self._known[columns] = LeastSquares.of(self.evidence.strata.schema, self.evidence.all, columns)
        return self._known[columns]

    def _never_together(self, columns: Columns) -> Columns:
        """The first three of these columns that no measurement holds together; none if there are no such three."""
        held = [{*m.columns, *dict(m.where)} for m in self.evidence.published]
        return next((t for t in combinations(columns, 3) if not any(set(t) <= each for each in held)), ())

    def _implied(self, asked: Question, level: float, sampled: float) -> Floats:
        """As `_measured`, from the model, its replicates, and the misfit of pairs that were not measured."""
        kept, (value, moved, off, known) = 1 - self.evidence.held_out, self._errors(asked, sampled)
        noise = (moved**2).mean(0)
        variance = noise + (off**2).sum(1) + known
        error = np.sqrt(variance)
        # Only the noise's variance is a mean of so few squares.
        freedom = self.count * (variance / np.maximum(noise, 1e-4 * variance + 1e-300)) ** 2
        far = stdtrit(freedom, (1 + level) / 2) * error
        if asked.bottom is None:
            return np.column_stack([value, np.maximum(value - far, 0.0), value + far, error]) / kept
        least, most = np.array([_range(*each) for each in zip(asked.top, asked.bottom, strict=True)]).T
        return np.column_stack([value, np.maximum(value - far, least), np.minimum(value + far, most), error])

    def _errors(self, asked: Question, sampled: float) -> tuple[Floats, Floats, Floats, Floats]:
        """What the model says, shape (n,), and what it may be off by: the replicates' distances, shape (replicates, n);
        parts of the misfit that are independent, shape (n, parts); the variance of all else, shape (n,)."""
        columns = self._by_strata(asked.columns)
        table = self.evidence.model.marginal(columns)
        counts, ratio = table.ravel(), asked.bottom is not None
        bottom_of = np.zeros_like(asked.top) if asked.bottom is None else asked.bottom
        top, bottom, squares = (
            widened(each, asked.columns, columns, table.shape) for each in (asked.top, bottom_of, asked.squares)
        )

        def value_of(counts: Floats) -> Floats:
            return np.asarray(top @ counts / (np.maximum(bottom @ counts, _LEAST_ROWS) if ratio else 1.0))

        value = value_of(counts)
        moved = np.array([value_of(model.marginal(columns).ravel()) for model, _ in self.replicated()]) - value
        below = np.maximum(bottom @ counts, _LEAST_ROWS) if ratio else np.ones(len(value))
        misfits = np.asarray(self._misfits(asked.columns, columns, table) + self._size_misfits(columns))
        functionals = (top - value[:, None] * bottom) / below[:, None]
        pair = columns == asked.columns and table.ndim == 2
        off = with_margins(functionals, misfits) if pair else functionals * np.sqrt(misfits.ravel())
        known = sampled * _sampling(top, bottom, squares, counts, value * ratio) / below**2
        if asked.assumed is not None:
            known = known + (widened(asked.assumed, asked.columns, columns, table.shape) @ counts / below) ** 2
        return value, moved, off, known

    def _disturbed(self, model: StratifiedModel, columns: Columns, rng: np.random.Generator) -> Floats:
        """A model's table over columns as rows might have it: `table_effects`, of each stratum measured by itself."""
        strata, wide = self.evidence.strata, self._by_strata(columns)
        table = model.marginal(wide)
        if wide == columns and not any(measurement.where for measurement in self.evidence.all):
            return table_effects(table, columns, self._sets, self.misfit, self._noise, rng)
        inner = tuple(name for name in wide if name not in strata.columns)
        for key in strata.keys:
            codes = strata.codes_of(key)
            here = [m for m in self.evidence.all if dict(m.where).items() <= codes.items()]
            sets = [frozenset((*m.columns, *dict(m.where))) for m in here]
            cells = cells_where(wide, dict(codes))
            noise = partial(self._noise_in, codes=codes)
            table[cells] = table_effects(table[cells], inner, sets, self.misfit, noise, rng)
        return np.asarray(table.sum(axis=tuple(axis for axis, name in enumerate(wide) if name not in columns)))

    def _noise(self, columns: Columns) -> Floats:
        """The variance of the measured counts over some columns, one axis each."""
        known = self._table(columns)
        if known is not None:
            return known.variance.reshape(known.shape)
        # More cells than a covariance is worked out for: that of the best measurement that holds them all.
        held = [m.sigma**2 for m in self.evidence.all if set(columns) <= {*m.columns, *dict(m.where)}]
        sizes = [self.evidence.strata.schema[name].size for name in columns]
        return np.full(sizes, min(held, default=NOT_MEASURED))

    def _noise_in(self, columns: Columns, codes: Mapping[str, int]) -> Floats:
        """The same within a stratum."""
        wide = at_level(self.evidence.strata.schema, columns, self.evidence.strata.columns)
        return np.asarray(self._noise(wide)[cells_where(wide, dict(codes))])

    @cached_property
    def _sets(self) -> list[frozenset[str]]:
        return [frozenset(measurement.columns) for measurement in self.evidence.all]

    def _by_strata(self, columns: Columns) -> Columns:
        """The columns, and where strata were measured one by one, those that define them."""
        apart = any(measurement.where for measurement in self.evidence.published)
        return at_level(self.evidence.strata.schema, columns, self.evidence.strata.columns) if apart else columns

    def _misfits(self, asked: Columns, columns: Columns, table: Floats) -> Floats:
        """The misfit's variance of each cell of a table over `columns`: of strata in which a pair was not measured."""
        found, strata = np.zeros(table.shape), self.evidence.strata
        pairs = list(combinations(asked, 2))
        if columns == asked and not set(strata.columns) <= set(columns):
            if any(pair in self.unmeasured for pair in pairs):
                found = misfit_variance(table, self.misfit * table.sum())
            return found
        measured = [strata_with(self.evidence, pair) for pair in pairs]
        for key in strata.keys:
            if not all(key in keys for keys in measured):
                cells = cells_where(columns, strata.codes_of(key))
                found[cells] = misfit_variance(table[cells], self.misfit * table[cells].sum())
        return found

    def _size_misfits(self, columns: Columns) -> Floats | float:
        """The same, of how many rows the units in each cell have, where units count as one and it was not measured.

        Units are known, and rows are Σ m·c(m) over the c(m) of them with m rows: off by Σ (m − m̄)²·Var c(m).
        """
        evidence = self.evidence
        if not evidence.strata.schema.weighed:
            return 0.0
        if any({*columns, UNIT_ROWS} <= {*m.columns, *dict(m.where)} for m in evidence.published):
            return 0.0
        units = np.maximum(evidence.fitted.marginal((*columns, UNIT_ROWS)), 0.0)
        sizes = np.arange(1.0, units.shape[-1] + 1)
        mean = (units @ sizes) / np.maximum(units.sum(-1), 1e-9)
        together = all(any({name, UNIT_ROWS} <= {*m.columns} for m in evidence.published) for name in columns)
        off = misfit_variance(units, 0.0 if together else self.misfit * units.sum())
        return np.asarray(((sizes - mean[..., None]) ** 2 * off).sum(-1))

    def _independence(
        self, of: Of, by: Sequence[str], where: Mapping[str, Any] | None, level: float, design_effect: float
    ) -> pd.DataFrame:
        """Cramér's V of two columns, and a test of no relation; of measured counts only, since a model assumes it."""
        if not isinstance(of, str) or len(by) != 1 or of in by:
            raise InputError("a test of independence is of one column in 'of' and another one in 'by'; name both")
        schema = self.evidence.strata.schema
        asked = question(schema, "count", of, by, where)
        for table in self._tables(asked.columns):
            top = widened(asked.top, asked.columns, table.columns, table.shape)
            if table.has(top).all():
                counts = (top @ table.counts(self._values)).reshape(schema[of].size, schema[by[0]].size)
                rng = np.random.default_rng(self.seed + 3)
                covariance = np.asarray(top @ table.covariance @ top.T)
                found = independence(counts, covariance, rng=rng, level=level, design_effect=design_effect)
                numbers = (found.v, found.lower, found.upper, found.standard_error)
                labels = {"column": of, "against": by[0]}
                line = labels | dict(zip(NUMBERS, numbers, strict=True)) | {"p_value": found.p_value, "basis": MEASURED}
                return pd.DataFrame([line])
        raise InputError(
            f"the release did not measure {' and '.join(asked.columns)} together, so a test would be of its model; "
            "measured pairs are in 'relations' of card.json"
        )

    def _regression(self, asked: Regression, level: float, sampled: float) -> pd.DataFrame:
        """The coefficients. Linear ones follow from measured pairs, if all were; else from the model."""
        whole = not any(np.isnan(numbers).any() for _, numbers in asked.parts)  # else rows drop out by three columns
        found = self._linear(asked) if whole and asked.kind == "ols" else None
        basis = np.full(len(asked.terms), IMPLIED if found is None else MEASURED)
        counts = self.evidence.model.marginal(asked.columns).ravel() if found is None or sampled else np.zeros(0)
        if found is None:
            basis[self._apart(asked)] = REFUSED
            if (basis == REFUSED).all():
                raise InputError(
                    f"the release measured {asked.parts[-1][0]} with none of the columns in 'by', so its model has no "
                    "relation of them; measured pairs are in 'relations' of card.json"
                )
            if asked.kind == "logit" and (basis == REFUSED).any():  # not collapsible: all coefficients depend on it
                alone = {name for name, _ in asked.parts[1:-1] if name in self._alone(asked.parts[-1][0])}
                raise InputError(
                    f"the release never measured {asked.parts[-1][0]} with {', '.join(sorted(map(str, alone)))}, and "
                    "odds of all other columns depend on that; leave it out of 'by'"
                )
            value, variance, settled = self._from_models(asked, counts, whole)
            basis[~settled] = REFUSED
        else:
            value, variance = found
        error = np.sqrt(variance + (sampled * asked.sampling(counts, value) if sampled else 0.0))
        far = float(stdtrit(self.count, (1 + level) / 2)) * error
        answered = np.where(basis == REFUSED, np.nan, (value, value - far, value + far, error))
        return pd.DataFrame({"term": asked.terms, **dict(zip(NUMBERS, answered, strict=True)), "basis": basis})

    def _apart(self, asked: Regression) -> npt.NDArray[np.bool_]:
        """The terms of columns that were not measured with the outcome, shape (terms,); the intercept with any such."""
        alone = self._alone(asked.parts[-1][0])
        apart = [name in alone for name, _ in asked.parts[:-1]]
        return np.array([any(apart), *apart[1:]])

    def _alone(self, outcome: str | None) -> set[str]:
        """The columns that were not measured with this one."""
        return {name for pair in self.unmeasured if outcome in pair for name in pair if name != outcome}

    def _linear(self, asked: Regression) -> tuple[Floats, Floats] | None:
        """Coefficients by measured sums of products, and their variance: the same sums with more noise, many times."""
        moments = Moments.of(self.evidence.strata.schema, self._tables, asked.parts[:-1], asked.parts)
        if moments is None:
            return None
        sums, rng, drawn = moments.sums(self._values), np.random.default_rng(self.seed + 2), []
        smallest = float(np.linalg.eigvalsh(sums[:, :-1])[0])
        for _ in range(NOISES):
            moved = sums + moments.sums([rng.normal(0.0, m.sigma, m.values.shape) for m in self.evidence.all])
            smallest = min(smallest, float(np.linalg.eigvalsh(moved[:, :-1])[0]))
            drawn.append(np.linalg.lstsq(moved[:, :-1], moved[:, -1], rcond=None)[0])
        if smallest <= 0:  # a group of so few rows that noise may be all of them
            return None
        value: Floats = np.linalg.solve(sums[:, :-1], sums[:, -1]).astype(np.float64)
        return value, np.asarray(((np.array(drawn) - value) ** 2).mean(0))

    def _from_models(
        self, asked: Regression, counts: Floats, whole: bool
    ) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
        """Coefficients by the model's table, with measured sums of terms times outcome where there are all.

        And their variances, and which are finite.
        """
        rng, schema = np.random.default_rng(self.seed + 1), self.evidence.strata.schema
        products = Moments.of(schema, self._tables, asked.parts[:-1], asked.parts[-1:]) if whole else None
        believed = np.ones(1)  # of a measured sum, as far as its noise is less than what the model may be off by
        if products is not None and asked.kind == "ols":
            noises = ([rng.normal(0.0, m.sigma, m.values.shape) for m in self.evidence.all] for _ in range(NOISES))
            spread = np.array([products.sums(noise)[:, 0] for noise in noises]).var(0)
            prior = asked.spread(misfit_variance(counts, UNKNOWN * counts.sum()))
            believed = prior / np.maximum(prior + spread, 1e-12)

        def sums(values: list[Floats], modelled: Floats) -> Floats | None:
            if products is None:
                return None
            seen, own = products.sums(values)[:, 0], asked.products(modelled)
            return np.asarray(own + believed * (seen - own))

        truth, drawn = asked.coefficients(counts), []
        best = sums(self._values, counts)
        value, settled = asked.coefficients(counts, best), asked.settled(counts, best)
        for model, values in self.replicated():
            modelled = model.marginal(asked.columns).ravel()
            disturbed = self._disturbed(model, asked.columns, rng).ravel()
            drawn.append(asked.coefficients(disturbed, sums(values, modelled)))
        kept = asked.products(counts) if best is None else best
        assumed = sum((asked.coefficients(each, kept) - value) ** 2 for each in self._apart_tables(asked, counts))
        return value, np.asarray(((np.array(drawn) - truth) ** 2).mean(0) + assumed), settled

    def _apart_tables(self, asked: Regression, counts: Floats) -> Iterator[Floats]:
        """The table without what the model says of each pair of explaining columns that was not measured.

        How such columns go together follows from their relations to others if nothing else joins them. That is assumed,
        and the misfit, no more than about a cell itself, does not undo it where the model leaves hardly a row.
        """
        table = counts.reshape([self.evidence.strata.schema[name].size for name in asked.columns])
        for pair in self.unmeasured:
            if set(pair) <= set(asked.columns) - {asked.parts[-1][0]}:
                others = tuple(axis for axis, name in enumerate(asked.columns) if name not in pair)
                joint = np.maximum(table.sum(others, keepdims=True), 1e-9)
                axes = [asked.columns.index(name) for name in pair]
                alone = joint.sum(axes[0], keepdims=True) * joint.sum(axes[1], keepdims=True) / joint.sum()
                yield np.asarray(table * alone / joint).ravel()


def _sampling(top: Floats, bottom: Floats, squares: Floats, counts: Floats, value: Floats) -> Floats:
    """Sums over the rows of the squares of what each is above the ratio, shape (n,)."""
    return np.asarray(np.maximum(squares @ counts - 2 * value * (top @ counts) + value**2 * (bottom @ counts), 0.0))


def _range(top: Floats, bottom: Floats) -> tuple[float, float]:
    """The least and the largest that a ratio may be; 0 and 1 where nothing is below."""
    inside = bottom > 0
    values = top[inside] / bottom[inside]
    return (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)


def _negligible(asked: Question) -> bool:
    """Whether what is assumed within bins is far below what the bins say: at most a hundredth of their spread."""
    assert asked.assumed is not None
    inside = asked.top[0][np.ones(asked.top.shape[1], bool) if asked.bottom is None else asked.bottom[0] > 0]
    return bool(asked.assumed.max() <= 0.01 * max(float(np.ptp(inside)), 1e-12)) if inside.size else True
