"""The price of a release.

This module splits the ρ of a release, converts it to the price of one row, and computes the cost of open columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from equistrata.data.units.unit import Unit
from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.privacy.budget import Rho
from equistrata.privacy.thresholds import bought
from equistrata.synth.foreign.base import ForeignSynthesizer
from equistrata.synth.mechanisms.base import Mechanism

SYNTHESIS, UNIT_SIZES = "synthesis", "counts of units by their rows"
FORMER_MONTHS = "former months of the series"
DELTA_PART = Fraction(1, 5)  # the fraction of the cost that pays for δ; doubling δ only lowers a threshold by 0.5%


@dataclass(frozen=True)
class Price:
    """The split of a release's ρ, for one unit or one row. The parts add up exactly."""

    total: Rho  # the price of the whole release, from (ε, δ)
    counts: Rho  # for noisy counts of the sizes of strata; 0 without strata, or if only public weights are used
    means: Rho  # for private means; 0 if there are none
    finding: Rho  # for the values of open columns, including their δ; 0 if there are none
    sizes: Rho  # for counts of units by their rows, which show how many rows the bound left out; 0 if not requested

    @classmethod
    def of(cls, config: ReleaseConfig, total: Rho, *, counts: bool, means: bool, finding: bool) -> Price:
        """Split an amount by the shares in the settings.

        Parameters
        ----------
        config : ReleaseConfig
            The settings.
        total : Rho
            The amount.
        counts : bool
            True if the sizes of strata are measured.
        means : bool
            True if private means are estimated.
        finding : bool
            True if a column is open.

        Returns
        -------
        Price
            The split.

        Raises
        ------
        InputError
            If nothing is left for the synthesizer.
        """
        parts = [
            total * share if paid else Rho(0)
            for paid, share in (
                (counts, config.count_share),
                (means, config.means_share),
                (finding, config.open_share),
                (True, config.bound_share),
            )
        ]
        if not sum(parts, start=Rho(0)) < total:
            raise InputError(
                "count_share, means_share, open_share and bound_share leave nothing for the synthesizer; lower "
                "one of them"
            )
        return cls(total, *parts)

    def drawn(self, unit: Unit) -> Price:
        """Return the amounts at which noise is drawn for one row, so that a unit pays this price.

        If the synthesis counts units, its noise is drawn for one unit.
        """
        means, finding = (part * Fraction(1, unit.sum_cost) for part in (self.means, self.finding))
        counts, synthesis = (part * Fraction(1, unit.synthesis_cost) for part in (self.counts, self.synthesis))
        sizes = self.sizes * Fraction(1, unit.histogram_cost)
        total = counts + synthesis + means + finding + sizes
        return Price(total, counts, means, finding, sizes)

    @property
    def synthesis(self) -> Rho:
        """The remaining amount, which is for the synthesizer."""
        return self.total - self.counts - self.means - self.finding - self.sizes


def priced(
    config: ReleaseConfig,
    own: Mechanism,
    total: Rho,
    *,
    counts: bool,
    means: bool,
    open_columns: Sequence[str] = (),
    account: tuple[float, float] | None = None,
) -> tuple[Mechanism, Price]:
    """Split the ρ of a release and complete the synthesizer with its δ and its guarantee.

    A synthesizer that only guarantees (ε, δ) measures its own counts. The price of the release is then the price of
    this guarantee.

    Parameters
    ----------
    config : ReleaseConfig
        The settings.
    own : Mechanism
        The synthesizer.
    total : Rho
        The amount that corresponds to (ε, δ) or to a month of a series.
    counts, means : bool
        The same as in `Price.of`.
    open_columns : sequence of str, default=()
        The names of the open columns.
    account : tuple of float or None, default=None
        The parameters ε and δ of the budget that is charged.

    Returns
    -------
    own : Mechanism
        The synthesizer.
    price : Price
        The split.

    Raises
    ------
    InputError
        If nothing is left for the synthesizer, or if its guarantee does not compose with other parts of the release.
    """
    if not isinstance(own, ForeignSynthesizer):
        return own, Price.of(config, total, counts=counts, means=means, finding=bool(open_columns))
    own = replace(own, delta=config.delta)
    if own.converts:
        return own, Price.of(config, total, counts=counts, means=means, finding=bool(open_columns))
    hindrance = [f"the cost of finding the values of open column {name!r}; declare its values" for name in open_columns]
    hindrance += (
        [] if config.series.name is None else ["the costs of the other months of a series; leave the series out"]
    )
    if hindrance:
        raise InputError(
            f"synthesizer {config.synthesizer!r} only guarantees (ε, δ), which cannot be added to "
            f"{hindrance[0]}, or choose mst, aim or gem"
        )
    price = Price.of(config, total, counts=False, means=means, finding=False)
    own = own.promised(config.epsilon, config.delta, price.means, account)
    assert own.promise is not None
    return own, replace(price, total=price.means + price.sizes + own.promise.rho)


@dataclass(frozen=True)
class Opening:
    """The cost of finding the values of one open column.

    Attributes
    ----------
    column : str
        The name of the column.
    rho : Rho
        The cost of the noise, for one unit.
    delta : float
        Upper bound for the probability that values of a single unit are found.
    paid : Rho
        The amount of ρ that is charged for this δ (see `equistrata.privacy.thresholds.bought`).
    """

    column: str
    rho: Rho
    delta: float
    paid: Rho


def openings_of(columns: Sequence[str], finding: Rho, budgets: Sequence[tuple[float, float]]) -> Mapping[str, Opening]:
    """Return the cost of each open column, by its name in `Plan.parts`.

    The columns share ρ equally. The fraction DELTA_PART of each share is charged for δ.

    Parameters
    ----------
    columns : sequence of str
        The names of the open columns.
    finding : Rho
        The amount for all of them.
    budgets : sequence of (float, float)
        The parameters ε and δ of the release, of its series, and of the account that is charged. The δ is charged to
        each of them.

    Returns
    -------
    mapping of str to Opening
        The costs.
    """
    if not columns:
        return {}
    shares = finding.split([1] * len(columns))
    paid = [share * DELTA_PART for share in shares]
    delta = [bought(part, budgets) for part in paid]
    each = zip(columns, shares, paid, delta, strict=True)
    return {f"values of {name}": Opening(name, share - part, small, part) for name, share, part, small in each}


def total_price(epsilon: float, delta: float) -> Rho:
    """Return the price of a whole release or audit in zCDP.

    Raises
    ------
    InputError
        If `epsilon` or `delta` is out of its range.
    """
    try:
        return Rho.from_epsilon_delta(epsilon, delta)
    except ValueError as error:
        raise InputError(f"settings 'epsilon' and 'delta' give no usable budget: {error}") from None
