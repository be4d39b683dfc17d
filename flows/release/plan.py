"""The plan of a release, which is a validated configuration with its public objects.

They are the source, the schema, the strata, the mechanism, the weights and the split of ρ. No private row is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from pathlib import Path

from equistrata.data.columns.nesting import BETWEEN
from equistrata.data.schema import Column, Schema
from equistrata.data.sources import Source
from equistrata.data.strata import Strata
from equistrata.data.survey.controls import Controls
from equistrata.data.units.unit import ROW, Unit
from equistrata.data.weights import PublicWeights
from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release import runners
from equistrata.flows.release.inputs import (
    controls_of,
    means_of,
    means_schema_of,
    released_schema,
    schema_of,
    source_of,
    unit_of_release,
    weights_of,
    with_workload,
)
from equistrata.flows.release.inside import check_place
from equistrata.flows.release.price import SYNTHESIS, UNIT_SIZES, Opening, Price, openings_of, priced, total_price
from equistrata.flows.release.series import SeriesMonth
from equistrata.flows.release.size import ResourceEstimate
from equistrata.flows.run.landing import check_output
from equistrata.privacy.budget import ADD_REMOVE, Rho, relation_of
from equistrata.synth.foreign.base import ForeignSynthesizer
from equistrata.synth.foreign.promise import Promise
from equistrata.synth.mechanisms.base import Mechanism, SharingMechanism, shared_mechanism
from equistrata.synth.names import is_foreign
from equistrata.synth.registry import mechanism
from equistrata.synth.size import size
from equistrata.synth.strata.selection import shared_selection
from equistrata.synth.synthesizer import stratified_name


@dataclass(frozen=True)
class Plan:
    """A validated configuration and the public objects that it names."""

    config: ReleaseConfig
    source: Source
    declared: tuple[Schema, ...]  # the schema of the rows and, if it is a different file, the schema of the means
    unit: Unit  # the unit of privacy
    schema: Schema  # the released columns; open columns have placeholder values until `opened` is called
    means: Schema | None  # the columns for which means are estimated
    strata: Strata
    mechanism: Mechanism  # for all strata together (if its `levels` are set), or for each stratum separately
    weights: PublicWeights | None  # if None, weights are based on noisy counts only
    price: Price  # the price for one unit, which is charged
    openings: Mapping[str, Opening]  # the costs of open columns, by their names in `parts`
    month: SeriesMonth | None = None  # the month, if the release belongs to a series
    controls: Controls | None = None  # totals of people that the rows must match

    @classmethod
    def of(
        cls,
        config: ReleaseConfig,
        begun: bool = False,
        account: tuple[float, float] | None = None,
        month: SeriesMonth | None = None,
    ) -> Plan:
        """Validate a configuration and load the public objects that it names. Nothing is written or charged.

        Parameters
        ----------
        config : ReleaseConfig
            The configuration.
        begun : bool, default=False
            True if the release was started before. Then the output may exist, and the input may be missing if its rows
            are not needed any more.
        account : tuple of float or None, default=None
            The parameters ε and δ of the budget that is charged.
        month : SeriesMonth or None, default=None
            The month of the series that the configuration names.

        Returns
        -------
        Plan
            The plan.

        Raises
        ------
        InputError
            If the configuration is not valid.
        """
        assert (month is None) == (config.series.name is None), "a month of a series has the price of a month"
        if not begun:
            check_output(Path(config.output))
            check_place(Path(config.output))
        runners.check_runner(config)
        declared = schema_of(config)
        raw = released_schema(config, declared)
        schema = raw.largest_possible()
        _ = schema.sizes  # raises an error if a column has no bins
        _check_columns(config, raw, schema)
        _ = Strata.over(raw, config.strata)  # raises an error if a column is open
        total = total_price(config.epsilon, config.delta) if month is None else month.price
        unit = unit_of_release(config, declared, schema, float(total))
        _check_foreign(config, unit)
        schema = replace(schema.expanded() if config.expand else schema, unit=unit)
        strata = Strata.over(schema.modelled, config.strata)
        averaged = means_schema_of(config, declared)
        means = means_of(config, averaged) if config.means else None
        _check_means(config)
        weights = weights_of(config, strata)
        controls = controls_of(config, raw, strata)
        own = with_workload(mechanism(config.synthesizer, config.engine, config.synthesizer_python), config, schema)
        counts = (weights is None or config.combine_weights) and len(strata.keys) > 1
        own, price = priced(
            config, own, total, counts=counts, means=means is not None, open_columns=raw.open, account=account
        )
        _check_unit(config, unit, price, raw)
        fits = shared_selection(own, strata, config.selection, config.levels) or own
        files = (declared,) if means is None or averaged is declared else (declared, averaged)
        # The budget of a month is checked in addition to the budget of all months together.
        stated = [] if month is None else [(total.epsilon(config.delta), config.delta)]
        budgets = [(config.epsilon, config.delta), *stated, *([account] if account else [])]
        openings = openings_of(raw.open, price.finding, budgets)
        source = source_of(config, files)
        plan = cls(config, source, files, unit, schema, means, strata, fits, weights, price, openings, month, controls)
        if not begun:
            plan.source.check(plan.columns)
            plan.demand.check()
            plan.mechanism.try_out(strata.rest(strata.keys[0]))
        return plan

    @property
    def warnings(self) -> list[str]:
        """A list of warnings about settings that the steward may want to change. Each warning is one sentence."""
        months = self.month.warning if self.month else None
        # The values of an open column are found later, so the card reports whether something is learned about it.
        changed = self.month.changed(self.modelled, but=self.raw.open) if self.month else None
        return [each for each in (self.demand.warning, months, changed) if each is not None]

    @cached_property
    def demand(self) -> ResourceEstimate:
        """The time and the memory that the release needs.

        Raises
        ------
        InputError
            If the release is so large that a fit may fail after it was paid for.
        """
        config, strata = self.config, len(self.strata.keys)
        rho = self.drawn.counts or self.drawn.synthesis  # its noise alone adds about one standard deviation of rows
        rows = int(strata / sqrt(2 * float(rho)))
        if config.expand and self.controls is not None:
            rows = round(self.controls.people)
        return ResourceEstimate(
            config,
            size=size(self.mechanism, self.strata, config.shrinkage),
            mechanism=self.mechanism.name,
            columns=len(self.modelled.names),
            strata=strata,
            means=len(self.estimates),
            rows=rows if config.rows is None else config.rows,
        )

    def opened(self, found: Mapping[str, Sequence[str]]) -> Plan:
        """Return the plan with the values that were found for its open columns.

        The names of the parts do not change, and the sizes do not increase.
        """
        schema = self.raw.with_values(found)
        schema = schema.expanded() if self.config.expand else schema
        return replace(self, schema=schema, strata=Strata.over(schema.modelled, self.strata.columns))

    @property
    def drawn(self) -> Price:
        """The amounts at which noise is drawn, so that all rows of a unit together pay `price`."""
        return self.price.drawn(self.unit)

    @property
    def modelled(self) -> Schema:
        """The schema of the columns that are measured and modelled."""
        return self.strata.schema

    @property
    def promise(self) -> Promise | None:
        """The (ε, δ) of a foreign synthesizer that does not have any other guarantee. It is None for all others."""
        return self.mechanism.promise if isinstance(self.mechanism, ForeignSynthesizer) else None

    def epsilon_of(self, spent: Rho, times: int) -> float:
        """Return the value of ε that corresponds to an amount of ρ.

        Parameters
        ----------
        spent : Rho
            The amount that was spent.
        times : int
            The number of times that the synthesis was drawn.

        Returns
        -------
        float
            The value of ε for the δ of the release.

        Raises
        ------
        InputError
            If the synthesizer is fitted so many times that its δ is larger than the δ of the release.
        """
        delta = self.config.delta
        if self.promise is None:
            return spent.epsilon(delta)
        epsilon = self.promise.group(1, spent - self.promise.rho * times, delta, times)
        if epsilon is None:
            raise InputError(
                f"{self.mechanism.name} spends δ = {self.promise.delta:g} each time it is fitted, and another fit "
                f"would exceed the release's δ = {delta:g}; give the release up (equistrata resume --discard "
                f"{self.config.release_id}) and make another"
            )
        return epsilon

    @property
    def relation(self) -> str:
        """The neighbouring relation of `price`, in the form of the ledger."""
        own = self.mechanism.relation
        return relation_of(self.unit.column, self.unit.relation) if own == ADD_REMOVE else own

    @property
    def raw(self) -> Schema:
        """The schema of the columns that are read, as declared, with the unit. The unit may be given by a setting."""
        weight = self.schema.expanded_by
        names = [*self.schema.names, *([] if weight is None else [weight.name])]
        return replace(self.declared[0].select(names), unit=self.unit)

    @property
    def shared(self) -> SharingMechanism | None:
        """The mechanism, if its selection is shared by all strata (see `equistrata.synth.mechanisms.levels`)."""
        return shared_mechanism(self.mechanism)

    @cached_property
    def fitted(self) -> Strata:
        """The parts that are fitted separately. They are the strata, or all rows if the selection is shared."""
        return self.strata if self.shared is None else Strata.over(self.modelled, ())

    @property
    def fixed_weights(self) -> PublicWeights | None:
        """The public weights, if no noisy counts are used. Otherwise it is None."""
        return None if self.config.combine_weights else self.weights

    @property
    def name(self) -> str:
        """The name of the variant as in the paper, for example MST_SEX_RAC1P."""
        return stratified_name(self.mechanism, self.strata.columns)

    @property
    def columns(self) -> list[str]:
        """The columns that are read: the released columns, the columns of means, and the column of the unit."""
        own = [] if self.unit.column is None else [self.unit.column]
        return list(dict.fromkeys([*self.raw.cells, *(self.means.names if self.means else ()), *own]))

    @property
    def held_out(self) -> float:
        """The probability that a unit is held out, so that classifiers can be tested on other rows."""
        return self.config.holdout if self.config.evaluate == "full" else 0.0

    @cached_property
    def estimates(self) -> list[tuple[Column, str]]:
        """The column and the estimator of each mean, in order. They share their part of ρ equally."""
        both = self.config.means_estimator == "both"
        kinds = ("stratified", "vanilla") if both else (self.config.means_estimator,)
        return [] if self.means is None else [(column, kind) for column in self.means.columns for kind in kinds]

    @cached_property
    def parts(self) -> Mapping[str, Rho]:
        """The parts of ρ that are charged for a unit, by name.

        They are the synthesis with the counts of strata, each mean, each open column with its δ, and the counts of
        units by their rows.
        """
        shares = self.price.means.split([1] * len(self.estimates)) if self.estimates else []
        means = {
            f"{kind} mean of {column.name}": share for (column, kind), share in zip(self.estimates, shares, strict=True)
        }
        found = {name: each.rho + each.paid for name, each in self.openings.items()}
        sizes = {UNIT_SIZES: self.price.sizes} if self.price.sizes else {}
        return {SYNTHESIS: self.price.counts + self.price.synthesis, **means, **found, **sizes}


def _check_columns(config: ReleaseConfig, raw: Schema, schema: Schema) -> None:
    """Raise an InputError if a name cannot be written to a CSV file, or if a stratum column is not released."""
    if any("\0" in str(text) for column in raw.columns for text in (column.name, *column.values, *column.codes)):
        raise InputError(
            "a name or a value of a released column contains a zero byte, which CSV files cannot contain; rename it"
        )
    for name in config.strata:
        if name not in (*schema.names, *schema.cells) and BETWEEN not in name:
            raise InputError(
                f"stratum column {name!r} is not among the released columns ({', '.join(schema.names)}); name it with "
                "--columns, or choose another"
            )


def _check_means(config: ReleaseConfig) -> None:
    """Raise an InputError if the same estimate would be paid for twice."""
    if config.means and config.means_estimator == "both" and not config.strata:
        raise InputError(
            "means_estimator 'both' estimates means by strata and over all rows, and these are the same "
            "without strata; leave it out, or name the stratum columns with --strata"
        )


def _check_foreign(config: ReleaseConfig, unit: Unit) -> None:
    """Raise an InputError if a foreign synthesizer has to protect a unit. Its environment does not need to exist."""
    if unit != ROW and is_foreign(config.synthesizer):
        raise InputError(
            f"synthesizer {config.synthesizer!r} has its own guarantee, which is for one row only; choose "
            "mst, aim or gem, or leave unit and relation out"
        )


def _check_unit(config: ReleaseConfig, unit: Unit, price: Price, raw: Schema) -> None:
    """Raise an InputError if the settings are not supported for this unit."""
    if price.sizes and (unit.column is None or unit.unique):
        raise InputError(
            "setting 'bound_share' pays for counts of the rows that a bound leaves out, but there is no unit "
            "with a bound; give its column and its bound (unit, at_most), or leave 'bound_share' out"
        )
    if unit.relation != ADD_REMOVE and raw.open:
        raise InputError(
            f"column {raw.open[0]!r} is open, and open values can only be found under the relation "
            "add-remove; declare its values, or leave the relation out"
        )
