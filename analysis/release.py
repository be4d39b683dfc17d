"""A published release and the methods that readers need: rows, code book, measurements, estimates and replicates.

Only the release folder is needed. There is no access to private rows or the ledger, and Prefect is not required. All
results are post-processing, so they cost no privacy. This applies to releases of any age.
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
from equistrata.analysis.changes import ComparedRelease, changes
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
from equistrata.analysis.questions import Of, read_group_names
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.sources import read_frame
from equistrata.data.strata import Strata
from equistrata.data.survey.controls import CONTROLS, Controls
from equistrata.data.table import CodedTable, with_labels
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
from equistrata.synth.strata.poststratified import calibrate_weights

TABLES = 50  # the default number of replicates
WEIGHTS = 80  # the default number of replicate weights, as in the American Community Survey


@dataclass(frozen=True, eq=False)
class Release:
    """A release folder that agrees with its manifest.

    Attributes
    ----------
    folder : Path
        The release folder.
    card : mapping
        The content of `card.json`, which includes the guarantee, the price and the method.
    schema : Schema
        The schema, which describes the columns.
    manifest : str
        The SHA-256 of the manifest, in hexadecimal.
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
        """Return an HTML summary for notebooks: the name, the price and the columns."""
        return f"<p>{escape(repr(self)[1:-1])}</p>{self.schema._repr_html_()}"

    @classmethod
    def open(cls, folder: str | Path) -> Release:
        """Open a release folder.

        Every file is checked against the manifest, and the card and the schema are read.

        Parameters
        ----------
        folder : str or Path
            The release folder.

        Returns
        -------
        Release
            The release.

        Raises
        ------
        InputError
            If a check fails. The message describes the first problem that was found.
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
            raise InputError(f"{where} has people with the same id in several months; read it with equistrata 0.1.0")
        return cls(folder, card, schema, manifest)

    @cached_property
    def strata(self) -> Strata:
        """The strata by which the release divides its rows."""
        return Strata.over(self.schema.modelled, self.card["strata"]["columns"])

    @property
    def unit(self) -> Unit:
        """The unit of privacy. It is one row for releases that were made before 2026-11-24."""
        return self.schema.unit

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """The published measurements. If units count as one, they include the column UNIT_ROWS.

        Raises InputError if no measurements were published.
        """
        return self.evidence.published

    @cached_property
    def private_means(self) -> Mapping[str, Any] | None:
        """The content of `means.json`, or None if the release has no private means."""
        return read_means(self.folder)

    def rows(self, labels: bool = True) -> pd.DataFrame:
        """Read the synthetic rows.

        Parameters
        ----------
        labels : bool
            If True, categorical columns are returned as pandas categories with their words, in the declared order. If
            False, the values are returned as released.

        Returns
        -------
        DataFrame
            One row per synthetic row.
        """
        frame = read_frame(self.folder / "synthetic.parquet")
        if not {column.name for column in self.schema.published} <= set(frame.columns) or not frame.columns.is_unique:
            where = f"synthetic.parquet of release {str(self.folder)!r}"
            raise InputError(f"the columns of {where} differ from schema.json; {MEND}")
        return with_labels(frame, self.schema) if labels else frame

    def codebook(self) -> pd.DataFrame:
        """Return the code book of the release.

        Returns
        -------
        DataFrame
            One row for each code of each column, with `column`, `label`, `code` and `words`. The code is the released
            value, or the place of a bin.
        """
        return codebook(self.schema)

    def price(self) -> pd.DataFrame:
        """Return the privacy loss of the release folder.

        Returns
        -------
        DataFrame
            The first row is the loss of the folder. If audits were added to the folder, the next row is the loss of the
            release alone. `of` names the row. `epsilon`, `delta` and `rho` are the privacy parameters. `unit` is the
            unit that is protected as a whole, and `relation` is the neighbouring relation. `private` is False if any
            noise in the folder was seeded. In this case, there is no privacy guarantee.
        """
        return price(self.card)

    def sampling_frame(self) -> pd.DataFrame:
        """Return the relation between the released rows and the private rows for each stratum.

        Returns
        -------
        DataFrame
            One row for each stratum, including strata without rows. `stratum` is the name that is used in `measured`.
            `rows` is the number of released rows. `share` is the share of all released rows, which is equal to the
            weight of the stratum except for rounding to whole rows. `weights` is the source of the weights. `held_out`
            is the probability that a private unit was left out at random before the measurements. Estimates account for
            this.
        """
        return sampling_frame(self.card, self.strata, self._sizes())

    def measured(self) -> pd.DataFrame:
        """Return a summary of the measurements.

        Returns
        -------
        DataFrame
            One row per measurement. `columns` are the columns of the marginal. `stratum` is empty if it is over all
            rows. `sigma` is the standard deviation of the noise in a cell. `cells` is the number of cells.
        """
        return measured(self.measurements, self.schema)

    def not_measured(self) -> list[tuple[str, str]]:
        """Return the pairs of columns that were never measured together.

        Returns
        -------
        list of tuple of str
            The pairs of columns.

        Raises
        ------
        InputError
            If the measurements were not published.
        """
        names, relations = self.schema.names, self.card.get("relations")
        if relations is not None:
            found = [(pair[0], pair[1]) for pair in relations["not_measured"]]
        else:
            sets = [(*dict(each.where), *each.columns) for each in self.measurements]
            found = [(pair[0], pair[1]) for pair in measured_pairs(names, sets)[1]]
        if any(column.within for column in self.schema.columns):  # a measurement by state does not include the PUMA
            schema, every = self.strata.schema, self.measurements
            by_outer = [pair for pair in combinations(names, 2) if not any(holds(m, pair, schema) for m in every)]
            found = [pair for pair in combinations(names, 2) if pair in {*found, *by_outer}]
        return found

    @cached_property
    def evidence(self) -> Evidence:
        """The measurements and the settings of the model. Raises InputError if no measurements were published."""
        return read_evidence(self.folder, self.card, self.strata)

    @property
    def public_weights_source(self) -> str | None:
        """The source of the weights of the strata, or None if the weights are based on noisy counts."""
        source = self.card["strata"].get("weights", NOISY_SOURCE)
        return None if not self.strata.columns or source == NOISY_SOURCE else str(source)

    def _public_weights(self) -> PublicWeights | None:
        """Return the public weights as shares of the released rows, or None if the weights are based on noisy counts.

        The released rows follow the public weights except for rounding to whole rows.
        """
        source = self.public_weights_source
        if source is None:
            return None
        return PublicWeights.from_counts(dict(zip(self.strata.keys, self._sizes(), strict=True)), self.strata, source)

    def _sizes(self) -> Floats:
        """Return the number of released rows in each stratum."""
        rows, columns = self.rows(labels=False), list(self.strata.columns)
        if not columns:
            return np.array([float(len(rows))])
        table = CodedTable.encode(rows[columns], self.schema.coded().select(columns))
        return np.bincount(self.strata.index(table), minlength=len(self.strata.keys)).astype(float)

    @cached_property
    def controls(self) -> Controls | None:
        """The public control totals that the weights of the rows meet, or None if there are none."""
        path, said = self.folder / CONTROLS, self.card.get("controls")
        return replace(Controls.from_file(path, self.schema), source=said["source"]) if said else None

    @cached_property
    def answers(self) -> Answers:
        """The object that answers questions about the release. It stores the models of the replicates.

        Raises InputError if each row is a person (`expand`), because answers are about the private rows.
        """
        if self.schema.expanded_by is not None:
            raise InputError(
                f"each row of release {str(self.folder)!r} is a person (expand), but estimates describe the private "
                "rows; count the released rows, or make a release without expand to get estimates with intervals"
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
        """Estimate a statistic of the private table with intervals.

        The intervals account for privacy noise, the error of the model and sampling. If the release has a survey
        weight, the estimate is about the people that the rows of the table stand for. If units have several rows, the
        estimate uses at most `unit.at_most` rows of each unit.

        Parameters
        ----------
        statistic : str
            "count", "proportion", "mean", "quantile" or "median"; "difference" or "ratio" to compare each group with
            the first group; "ols" or "logit" for a regression; or a statistic of `of` and the column in `by` (all names
            are in `equistrata.analysis.statistics.names.PAIRS`), such as "correlation" for Pearson's correlation of
            numeric columns, or "independence" for Cramér's V with a p-value for independence in the population.
        of : str or mapping, optional
            A column, or {column: value or values}. Values can be released values or their words. If None, all rows are
            counted.
        by : str or sequence of str
            The columns that define groups. For a regression, the explanatory variables, where "A*B" stands for A, B and
            their interaction.
        where : mapping, optional
            The condition {column: value or values}. Only rows with these values are used.
        level : float
            The level of the intervals, in (0, 1).
        population : bool
            If True, the estimate is about the population from which the rows of the table were sampled. If there is no
            survey weight, each member of the population must be equally likely to be in the table.
        design_effect : float, optional
            The ratio of the sampling variance of the survey to that of simple random sampling, which is at least 1. The
            default is the maximum number of rows of a unit, because these rows are sampled together and may be similar.
            The effect of unequal weights is measured, so it must not be included here.
        q : float
            The order of the quantile, in (0, 1).
        weighted : bool, optional
            If True, people are counted by the survey weight. If False, rows of the file are counted. The default is
            True if the release has a survey weight.

        Returns
        -------
        DataFrame
            One row for each group, and for each value or term. It contains the labels, `estimate`, `lower`, `upper`,
            `standard_error` and the two parts of the standard error: `privacy_error` for noise and the model, and
            `sampling_error`. `counted` is "people" or "rows of the file". It is given if there is a survey weight or
            `population` is True. `basis` is "measured" if the estimate is computed from noisy counts and does not
            depend on the model. It is "implied" if the estimate is computed from the model. The interval then includes
            an estimate of the error of the model. It is "refused" for the groups that cannot be answered, because three
            or more columns were never measured together. Differences have a `p_value`, which is NaN if the columns were
            not measured together.

        Raises
        ------
        InputError
            If a column, value or statistic is unknown, or if three or more columns were never measured together.

        Warns
        -----
        UserWarning
            If the answer is in bin numbers, because a column was released as the numbers of its bins.

        Notes
        -----
        This is post-processing, so it costs no privacy. See docs/proofs/estimates.md.
        """
        groups = read_group_names(by)
        for note in bin_number_notes(self.schema, statistic, of, groups):
            warnings.warn(note, stacklevel=2)
        return self.answers.estimate(statistic, of, groups, where, level, population, design_effect, q, weighted)

    def plot_groups(self, axes: Axes | None = None) -> Axes:
        """Plot the expected error of each group's released distributions, with the largest error at the top.

        Groups with an unknown error come first and have no bar.

        Parameters
        ----------
        axes : matplotlib Axes, optional
            The axes to draw on. New axes are created by default.

        Returns
        -------
        matplotlib Axes
            The axes.
        """
        return plot_groups(self, axes)

    def plot_marginal(
        self, column: str, by: str | Sequence[str] = (), axes: Axes | None = None, level: float = 0.95
    ) -> Axes:
        """Plot the estimated shares of a column's values with their intervals, for all rows or by group.

        Parameters
        ----------
        column : str
            The column.
        by : str or sequence of str
            The columns that define groups.
        axes : matplotlib Axes, optional
            The axes to draw on. New axes are created by default.
        level : float
            The level of the intervals, in (0, 1).

        Returns
        -------
        matplotlib Axes
            The axes.
        """
        return plot_marginal(self, column, by, axes, level)

    def plot_pair(self, column: str, other: str, axes: Axes | None = None) -> Axes:
        """Plot the estimated shares of a column's values within each value of another column as a heat map.

        Parameters
        ----------
        column : str
            The column of the values, which are the rows of the heat map.
        other : str
            The column of the groups, which are the columns of the heat map.
        axes : matplotlib Axes, optional
            The axes to draw on. New axes are created by default.

        Returns
        -------
        matplotlib Axes
            The axes.
        """
        return plot_pair(self, column, other, axes)

    def means(self, level: float = 0.95) -> pd.DataFrame:
        """Return the private means over all rows, the means computed from counts, and their combination.

        The release has two estimates for each of these means, and both are valid within their intervals. Their
        combination by inverse-variance weighting is more accurate.

        Parameters
        ----------
        level : float
            The level of the intervals, in (0, 1).

        Returns
        -------
        DataFrame
            One row per column. `estimate`, `lower`, `upper` and `standard_error` refer to the combined mean. `private`
            and `private_error` refer to `means.json`. `counted` and `counted_error` refer to `estimate("mean", …)`.
            `better` is the estimate with the smaller error. It is "neither" if both errors are unknown, for example
            because both intervals reach the bounds of the column. In this case, there is no combined mean. Columns in
            which absent cells are numbers are left out, and so are means that use public weights. In these cases, the
            two means refer to different people.

        Raises
        ------
        InputError
            If the release has no `means.json`.

        Notes
        -----
        This is post-processing, so it costs no privacy.
        """
        confidence(level)
        means = self.private_means
        if means is None:
            where = f"release {str(self.folder)!r}"
            raise InputError(
                f"{where} has no private means; compute means from its counts with estimate('mean', column)"
            )
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
        """Estimate the change of a statistic since a former release with the same columns.

        The noise of two releases is independent, and the private tables are treated as fixed, so the two estimates are
        independent. If `population` is True, the two samples are assumed to be independent as well. If the same people
        are in both samples, then the intervals are too wide.

        Parameters
        ----------
        former : Release
            The former release.
        statistic : str
            "count", "proportion", "mean", "quantile" or "median".
        of, by, where, level, population, design_effect, q, weighted
            See `estimate`.
        ratio : bool
            If True, the ratio of the two estimates is returned instead of their difference.

        Returns
        -------
        DataFrame
            The columns of `estimate` for the estimate of this release minus the estimate of the former release.
            `former` and `later` contain the two estimates. `p_value` is for the hypothesis of no change. It is not
            given for ratios, and it is NaN if two columns were not measured together.

        Raises
        ------
        InputError
            If `estimate` raises it, if both releases are the same, or if a column has different values in the two
            releases.

        Notes
        -----
        This is post-processing, so it costs no privacy.
        """
        groups = read_group_names(by)
        statistic, q = ("quantile", 0.5) if statistic == "median" else (statistic, q)
        sides = [ComparedRelease(each.manifest, each.schema, each.answers) for each in (former, self)]
        settings = {
            "level": level, "population": population, "design_effect": design_effect, "q": q, "weighted": weighted,
        }  # fmt: skip
        return changes(sides[0], sides[1], statistic, of, groups, where, ratio=ratio, **settings)  # type: ignore

    def expected_distances(self) -> pd.DataFrame:
        """Compute the expected error of each column in each group.

        Returns
        -------
        DataFrame
            The result of `equistrata.analysis.expected.expected_distances`.

        Raises
        ------
        InputError
            If no measurements were published.
        """
        return expected_distances(self.answers)

    def cells(self, level: float = 0.95) -> pd.DataFrame:
        """Estimate each cell of the measured marginals, and mark the cells that are noise.

        Parameters
        ----------
        level : float
            The level of the intervals, in (0, 1).

        Returns
        -------
        DataFrame
            The result of `equistrata.analysis.cells.noisy_cells`.

        Raises
        ------
        InputError
            If no measurements were published.
        """
        return noisy_cells(self.evidence, level)

    def replicates(
        self, count: int = TABLES, seed: int = 0, labels: bool = True, workers: int = 1
    ) -> Iterator[pd.DataFrame]:
        """Generate tables like the released one, each with a new draw of the noise.

        You can run a program on the released rows and on each replicate, and pass the results to `combine`. Pairs of
        columns that were not measured vary between replicates by the estimated misfit of the model (see
        `equistrata.analysis.uncertainty.misfit`).

        Parameters
        ----------
        count : int
            The number of replicates, which is at least 2.
        seed : int
            The seed of the noise. It can be public, because it does not protect anything.
        labels : bool
            See `rows`.
        workers : int
            The number of processes that fit the models in parallel, if this takes more than a few seconds. The results
            do not depend on it.

        Yields
        ------
        DataFrame
            A table with as many rows as the release.
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
                    frame = calibrate_weights(self.controls, frame, self.schema)
            yield with_labels(frame, self.schema) if labels else frame

    def replicate_weights(
        self, count: int = WEIGHTS, seed: int = 0, design_effect: float | None = None, workers: int = 1
    ) -> pd.DataFrame:
        """Compute replicate weights, from which other programs can estimate standard errors of weighted estimates.

        These standard errors account for privacy noise, the error of the model and sampling. The variance of an
        estimate is 4/count times the sum of the squared differences between the estimate with each replicate weight and
        the estimate with the released weight. This is called successive difference replication, centred at the
        estimate.

        Parameters
        ----------
        count : int
            The number of replicate weights, which is at least 2.
        seed : int
            The seed of the noise. It can be public, because it does not protect anything.
        design_effect : float, optional
            See `estimate`.
        workers : int
            See `replicates`.

        Returns
        -------
        DataFrame
            One row for each released row, in the same order. If the survey weight is W, the columns are W1, W2, and so
            on. They meet the control totals in the same way as the survey weight.

        Raises
        ------
        InputError
            If the release has no survey weight.

        Notes
        -----
        This is post-processing, so it costs no privacy. See docs/survey-weights.md.
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
