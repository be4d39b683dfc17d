"""A published release, opened by its reader: rows, code book, what was measured, estimates with intervals, replicates.

Nothing but the folder is needed: no private row, no ledger, no Prefect. All of it is post-processing, so it costs no
privacy, for releases of any age.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from equistrata.analysis.answers import Answers, bin_number_notes
from equistrata.analysis.axes import holds
from equistrata.analysis.cells import noisy_cells
from equistrata.analysis.changes import Side, changes
from equistrata.analysis.contents.card import check_card, read_card, read_means
from equistrata.analysis.contents.frames import codebook, price, sampling_frame
from equistrata.analysis.contents.measured import measured, read_evidence
from equistrata.analysis.contents.models import with_models
from equistrata.analysis.contents.replicate_weights import replicate_weights
from equistrata.analysis.contents.tables import combine as combine
from equistrata.analysis.contents.tables import replicate_rows
from equistrata.analysis.expected import expected_distances
from equistrata.analysis.means import means_frame, two_means
from equistrata.analysis.plots import plot_groups, plot_marginal, plot_pair
from equistrata.analysis.questions import Of, names_of
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.sources import read_frame
from equistrata.data.strata import Strata
from equistrata.data.survey.controls import CONTROLS, Controls
from equistrata.data.table import CodedTable, worded
from equistrata.data.texts.json_documents import read_json
from equistrata.data.texts.manifest import MEND, check_manifest
from equistrata.data.units.unit import Unit
from equistrata.data.weights import PublicWeights
from equistrata.errors import InputError, enough_memory
from equistrata.stats.checks import confidence, whole
from equistrata.synth.measurements import Measurement, measured_pairs
from equistrata.synth.strata.model import NOISY_SOURCE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
from equistrata.synth.strata.poststratified import weighted_to

TABLES = 50  # replicates, where no number is given
WEIGHTS = 80  # columns of weights, as the American Community Survey has them


@dataclass(frozen=True, eq=False)
class Release:
    """A release folder that passed the check of its manifest.

    Attributes:
        folder: where it is.
        card: `card.json`: guarantee, price, method.
        schema: what its columns mean.
        manifest: the SHA-256 of its manifest, in hexadecimal.
    """

    folder: Path
    card: Mapping[str, Any]
    schema: Schema
    manifest: str

    def __repr__(self) -> str:
        guarantee, rows = self.card["guarantee"], self.card["rows"]
        price = f"ε = {guarantee['epsilon']:g}, δ = {guarantee['delta']:g}"
        return f"<Release {self.card['name']}: {rows:,} rows, {price}, in {str(self.folder)!r}>"

    def _repr_html_(self) -> str:
        """For notebooks: what it is, what it cost, and its columns."""
        return f"<p>{escape(repr(self)[1:-1])}</p>{self.schema._repr_html_()}"

    @classmethod
    def open(cls, folder: str | Path) -> Release:
        """Check every file against the manifest, and read the card and the schema.

        Raises InputError with one sentence about the first thing that is wrong.
        """
        folder = Path(folder)
        manifest = check_manifest(folder)
        where = f"release {str(folder)!r}"
        card, schema = (
            read_card(folder),
            Schema.from_plain(read_json(folder / "schema.json", where), f"schema.json of {where}"),
        )
        check_card(card, schema, where)
        if card.get("panel") is not None:
            raise InputError(f"{where} has people who keep ids over months; only equistrata 0.1.0 reads such releases")
        return cls(folder, card, schema, manifest)

    @cached_property
    def strata(self) -> Strata:
        """How the release cut its rows."""
        return Strata.over(self.schema.modelled, self.card["strata"]["columns"])

    @property
    def unit(self) -> Unit:
        """The unit of privacy; one row in releases from before 2026-11-24."""
        return self.schema.unit

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """What was measured, with UNIT_ROWS where units count as one each. Raises InputError if none were published."""
        return self.evidence.published

    @cached_property
    def private_means(self) -> Mapping[str, Any] | None:
        """`means.json`; None if it has none."""
        return read_means(self.folder)

    def rows(self, labels: bool = True) -> pd.DataFrame:
        """The synthetic rows.

        Args:
            labels: categorical columns as pandas categories with their words, in the declared order; else as released.
        """
        frame = read_frame(self.folder / "synthetic.parquet")
        if not {column.name for column in self.schema.published} <= set(frame.columns) or not frame.columns.is_unique:
            where = f"synthetic.parquet of release {str(self.folder)!r}"
            raise InputError(f"{where} has other columns than schema.json; {MEND}")
        return worded(frame, self.schema) if labels else frame

    def codebook(self) -> pd.DataFrame:
        """A line for each code of each column: `column`, `label`, `code` as released (a bin by its place), `words`."""
        return codebook(self.schema)

    def price(self) -> pd.DataFrame:
        """The privacy loss of the folder, and under it that of the release alone where audits were added.

        Returns:
            `of`, `epsilon`, `delta`, `rho`; `unit`: who is protected as a whole; `relation`: by what neighbouring
            tables differ; `private`: False where any noise in the folder was seeded, and the price is that of nothing.
        """
        return price(self.card)

    def sampling_frame(self) -> pd.DataFrame:
        """How the released rows stand for the private ones, a line for each stratum, those without rows too.

        Returns:
            `stratum`, as `measured` names it; `rows` that were released; `share`, of all of them, which is its weight
            to the last row; `weights`: where the weights are from; `held_out`: the chance by which each private unit
            was left out, at random, before marginals were measured. Estimates allow for it.
        """
        return sampling_frame(self.card, self.strata, self._sizes())

    def measured(self) -> pd.DataFrame:
        """What was measured: `columns`, `stratum` (empty for all rows), `sigma` of a cell, and `cells`."""
        return measured(self.measurements, self.schema)

    def not_measured(self) -> list[tuple[str, str]]:
        """The pairs of columns that were measured in no set together.

        Raises InputError where what was measured was not published.
        """
        names, relations = self.schema.names, self.card.get("relations")
        if relations is not None:
            found = [(pair[0], pair[1]) for pair in relations["not_measured"]]
        else:
            sets = [(*dict(each.where), *each.columns) for each in self.measurements]
            found = [(pair[0], pair[1]) for pair in measured_pairs(names, sets)[1]]
        if any(column.within for column in self.schema.columns):  # by state is not by PUMA
            schema, every = self.strata.schema, self.measurements
            by_outer = [pair for pair in combinations(names, 2) if not any(holds(m, pair, schema) for m in every)]
            found = [pair for pair in combinations(names, 2) if pair in {*found, *by_outer}]
        return found

    @cached_property
    def evidence(self) -> Evidence:
        """The measurements, and how the model was made of them. Raises InputError if none were published."""
        return read_evidence(self.folder, self.card, self.strata)

    @property
    def public_weights_source(self) -> str | None:
        """Where the strata's weights are from, if not from noisy counts."""
        source = self.card["strata"].get("weights", NOISY_SOURCE)
        return None if not self.strata.columns or source == NOISY_SOURCE else str(source)

    def _public_weights(self) -> PublicWeights | None:
        """Shares that are not those of noisy counts: as the rows have them, which follow them to the last row."""
        source = self.public_weights_source
        if source is None:
            return None
        return PublicWeights.from_counts(dict(zip(self.strata.keys, self._sizes(), strict=True)), self.strata, source)

    def _sizes(self) -> Floats:
        """The released rows of each stratum."""
        rows, columns = self.rows(labels=False), list(self.strata.columns)
        if not columns:
            return np.array([float(len(rows))])
        table = CodedTable.encode(rows[columns], self.schema.coded().select(columns))
        return np.bincount(self.strata.index(table), minlength=len(self.strata.keys)).astype(float)

    @cached_property
    def controls(self) -> Controls | None:
        """The public totals of people that its rows meet; None if it has none."""
        path, said = self.folder / CONTROLS, self.card.get("controls")
        return replace(Controls.from_file(path, self.schema), source=said["source"]) if said else None

    @cached_property
    def answers(self) -> Answers:
        """What the release answers, with its replicates' models once they were needed.

        Raises InputError where rows are people: answers are about the private rows.
        """
        if self.schema.expanded_by is not None:
            raise InputError(
                f"each row of release {str(self.folder)!r} is a person (expand), and estimates are of the private "
                "rows; count its rows, or make the release without expand, which has estimates with intervals"
            )
        evidence, replicates = with_models(self.folder, self.evidence)
        answers = Answers(evidence, controls=self.controls)
        return replace(answers, count=max(len(replicates), answers.count), stored=replicates)

    def estimate(
        self,
        statistic: str,
        of: Of = None,
        by: str | Sequence[str] = (),
        where: Mapping[str, Any] | None = None,
        level: float = 0.95,
        population: bool = False,
        design_effect: float | None = None,
        q: float = 0.5,
        weighted: bool | None = None,
    ) -> pd.DataFrame:
        """A statistic of the private table, with intervals that know of the noise, the model and the sampling.

        Where the release has a survey weight, it is of the people that the table's rows stand for. Of a unit's rows,
        those that were used: at most `unit.at_most`.

        Args:
            statistic: "count", "proportion", "mean", "quantile", "median"; "difference" or "ratio" of each group and
                the first;
                "correlation" (Pearson's) or
                "independence" of `of` and one column in `by` (Cramér's V, with the p-value of no relation in the
                population); "ols" or "logit".
            of: a column; or {column: value, or several}, by released values or their words. None counts all rows.
            by: the columns that define groups; of a regression, those that explain `of`, where "A*B" stands for A, B
                and their interaction.
            where: {column: value, or several}: only these rows.
            level: of the intervals, in (0, 1).
            population: whether the answer is about the population that the table's rows were sampled from; without a
                survey weight, of which every member is as likely to be in the file.
            design_effect: by which the survey's sampling variance is that of rows drawn one by one; 1 or more. None for
                the most rows of a unit: they are sampled together, and may be alike. What unequal weights add is
                measured, so it is no part of this.
            q: of a quantile, in (0, 1).
            weighted: whether people are counted, by the survey weight, instead of rows of the file. None for people
                wherever there is one.

        Returns:
            A row for each group (and value, or term) with its labels, `estimate`, `lower`, `upper`, `standard_error`
            and its parts, `privacy_error` (noise and the model) and `sampling_error`. `counted` is "people" or
            "rows of the file", where there is a survey weight or a population is asked for. `basis` is "measured" where
            it follows from noisy counts of its own, whatever the model is; "implied" where it follows from the model,
            with an estimate of the model's own error; "refused" where three columns or more were never measured
            together, for some groups. Differences have a `p_value`, NaN where their columns were not measured together.

        Raises:
            InputError: an unknown column, value or statistic; three columns or more that were never measured together.

        Warns:
            UserWarning: the answer is in numbers of bins, because a column was released as these.

        Cost: none. See docs/proofs/estimates.md.
        """
        groups = names_of(by)
        statistic, q = ("quantile", 0.5) if statistic == "median" else (statistic, q)
        for note in bin_number_notes(self.schema, statistic, of, groups):
            warnings.warn(note, stacklevel=2)
        return self.answers.estimate(statistic, of, groups, where, level, population, design_effect, q, weighted)

    def plot_groups(self, axes: Axes | None = None) -> Axes:
        """Draw how far each group's released distributions are expected to be off, the worst served on top."""
        return plot_groups(self, axes)

    def plot_marginal(
        self, column: str, by: str | Sequence[str] = (), axes: Axes | None = None, level: float = 0.95
    ) -> Axes:
        """Draw the estimated shares of a column's values, with intervals, in all rows or by group."""
        return plot_marginal(self, column, by, axes, level)

    def plot_pair(self, column: str, other: str, axes: Axes | None = None) -> Axes:
        """Draw the estimated shares of a column's values within each value of another, as a heat map."""
        return plot_pair(self, column, other, axes)

    def means(self, level: float = 0.95) -> pd.DataFrame:
        """The means over all rows that were bought for themselves (`means.json`), beside those by counts, and joined.

        Two answers for one mean are both right within their intervals; joined by inverse variance they are nearer.

        Args:
            level: of the intervals, in (0, 1).

        Returns:
            A row for each column: `estimate`, `lower`, `upper` and `standard_error` of the joined mean; `private` and
            `private_error` of that in `means.json`, `counted` and `counted_error` of `estimate("mean", …)`; `better`:
            which of the two has the smaller error, or neither where both may be anywhere: an interval that ends at the
            bounds says nothing there, and then there is no joined mean. Left out are columns in which absent cells are
            numbers, and means by public weights: there the two are of different people.

        Raises InputError where the release has no `means.json`.

        Cost: none.
        """
        confidence(level)
        means = self.private_means
        if means is None:
            where = f"release {str(self.folder)!r}"
            raise InputError(f"{where} has no private means; ask for its counts' means: estimate('mean', column)")
        return means_frame(two_means(self.answers, means), level)

    def compare(
        self,
        former: Release,
        statistic: str,
        of: Of = None,
        by: str | Sequence[str] = (),
        where: Mapping[str, Any] | None = None,
        *,
        ratio: bool = False,
        level: float = 0.95,
        population: bool = False,
        design_effect: float | None = None,
        q: float = 0.5,
        weighted: bool | None = None,
    ) -> pd.DataFrame:
        """The change of a statistic since a former release of the same columns, with intervals.

        The noise of two releases is drawn apart, and what they are of is given, so their estimates are independent.
        With `population`, so are the two samples taken to be: where the same people are in both, intervals are too
        wide.

        Args:
            former: the other release.
            statistic: "count", "proportion", "mean", "quantile" or "median".
            of, by, where, level, population, design_effect, q, weighted: as for `estimate`.
            ratio: how many times as large the number is, instead of the difference.

        Returns:
            As `estimate`, of this release's number less the former one's, with both of them in `former` and `later`,
            and `p_value` of no change (not for ratios; NaN for two columns that were not measured together).

        Raises:
            InputError: as `estimate`; the same release twice; a column with other values in one of them.

        Cost: none.
        """
        groups = names_of(by)
        statistic, q = ("quantile", 0.5) if statistic == "median" else (statistic, q)
        sides = [Side(each.manifest, each.schema, each.answers) for each in (former, self)]
        settings = {
            "level": level, "population": population, "design_effect": design_effect, "q": q, "weighted": weighted,
        }  # fmt: skip
        return changes(sides[0], sides[1], statistic, of, groups, where, ratio=ratio, **settings)  # type: ignore

    def expected_distances(self) -> pd.DataFrame:
        """How far the release is expected to be off, by group and column: see `equistrata.analysis.expected`."""
        return expected_distances(self.answers)

    def cells(self, level: float = 0.95) -> pd.DataFrame:
        """Each cell of the measured marginals, with an interval, and whether it is noise: see `noisy_cells`."""
        return noisy_cells(self.evidence, level)

    def replicates(
        self, count: int = TABLES, seed: int = 0, labels: bool = True, workers: int = 1
    ) -> Iterator[pd.DataFrame]:
        """Whole tables like the released one, each as another draw of the noise might have made it.

        Run a program on the released rows and on each of these, and give the results to `combine`. Pairs of columns
        that were not measured differ between them by the misfit that was learned
        (`equistrata.analysis.uncertainty.misfit`).

        Args:
            count: 2 or more.
            seed: public: it protects nothing.
            labels: as `rows`.
            workers: processes that make their models side by side, if that takes more than some seconds. They change no
                number.
        """
        whole("count", count, 2)
        whole("workers", workers, 1)
        answers = self.answers if seed == self.answers.seed else Answers(self.evidence, seed, controls=self.controls)
        rng = np.random.default_rng([seed, 1])
        made, weights = answers.replicates(count, workers), self._public_weights()
        for _ in range(count):
            with enough_memory("a replicate of this release", "take fewer processes ('workers'), or another machine"):
                model, _ = next(made)
                model = model if weights is None else replace(model, weights=weights)
                frame = replicate_rows(answers, model, self.schema, int(self.card["rows"]), rng)
                if self.controls is not None:
                    frame = weighted_to(self.controls, frame, self.schema)
            yield worded(frame, self.schema) if labels else frame

    def replicate_weights(
        self, count: int = WEIGHTS, seed: int = 0, design_effect: float | None = None, workers: int = 1
    ) -> pd.DataFrame:
        """Replicate weights, with which other programs find standard errors of weighted estimates: of privacy noise and
        the model, and of sampling.

        The variance of an estimate is 4/count times the sum of its squared distances, by each of these columns, from
        that by the released weight ("successive difference replication", centred at the estimate).

        Args:
            count: 2 or more.
            seed: public: it protects nothing.
            design_effect: as for `estimate`.
            workers: as for `replicates`.

        Returns:
            A row for each released one, in their order, and the columns W1, W2, … of a survey weight W. They meet
            control totals as that does.

        Raises InputError where the release has no survey weight.

        Cost: none. See docs/survey-weights.md.
        """
        whole("count", count, 2)
        whole("workers", workers, 1)
        if self.schema.survey_weight is None:
            raise InputError(f"release {str(self.folder)!r} has no survey weight; make tables instead (--replicates)")
        answers = self.answers
        if seed != answers.seed:
            answers = Answers(self.evidence, seed, controls=self.controls, progress=answers.progress)
        with enough_memory("these weights", "take fewer processes ('workers'), or another machine"):
            return replicate_weights(
                answers, self.rows(labels=False), self.schema, count, answers.design_effect(design_effect), workers
            )
