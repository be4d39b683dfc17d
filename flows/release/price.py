"""The price of a release: how its ρ is split, what a row pays of what a unit does, and what finding values costs."""

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
DELTA_PART = Fraction(1, 5)  # of what finding values costs: a threshold falls by half a per cent where δ doubles


@dataclass(frozen=True)
class Price:
    """How the release's ρ is split, for one unit or for one row. The parts add up exactly."""

    total: Rho  # of the whole release, from (ε, δ)
    counts: Rho  # for noisy counts of the strata's sizes; 0 without strata, or with public weights alone
    means: Rho  # for private means; 0 without
    finding: Rho  # for the values of open columns, and the δ of finding them; 0 without
    sizes: Rho  # for counts of units by their rows, which tell how many rows the bound left out; 0 without

    @classmethod
    def of(cls, config: ReleaseConfig, total: Rho, *, counts: bool, means: bool, finding: bool) -> Price:
        """The split of `total` by the settings' shares. Raises InputError if nothing is left for the synthesizer.

        Args:
            counts: whether the strata's sizes are bought.
            means: whether private means are.
            finding: whether a column is open.
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
                "count_share, means_share, open_share and bound_share leave nothing for the synthesizer; lower one"
            )
        return cls(total, *parts)

    def drawn(self, unit: Unit) -> Price:
        """What noise is drawn at for one row (one unit, in a synthesis where units count), so that a unit pays this."""
        means, finding = (part * Fraction(1, unit.sum_cost) for part in (self.means, self.finding))
        counts, synthesis = (part * Fraction(1, unit.synthesis_cost) for part in (self.counts, self.synthesis))
        sizes = self.sizes * Fraction(1, unit.histogram_cost)
        total = counts + synthesis + means + finding + sizes
        return Price(total, counts, means, finding, sizes)

    @property
    def synthesis(self) -> Rho:
        """The rest, for the synthesizer."""
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
    """The split of a release's ρ, and the synthesizer, which knows its δ then, and its promise if it has one.

    A synthesizer that promises (ε, δ) only buys its counts itself, and its price is not that of `total` but of its
    promise. Raises InputError as `Price.of`, and where a promise does not add up with what else is asked for.

    Args:
        total: ρ of (ε, δ), or of a month of a series.
        counts, means: as for `Price.of`.
        account: (ε, δ) of the budget that is charged, if one is.
    """
    if not isinstance(own, ForeignSynthesizer):
        return own, Price.of(config, total, counts=counts, means=means, finding=bool(open_columns))
    own = replace(own, delta=config.delta)
    if own.converts:
        return own, Price.of(config, total, counts=counts, means=means, finding=bool(open_columns))
    hindrance = [f"what finding the values of open column {name!r} costs; declare them" for name in open_columns]
    hindrance += [] if config.series.name is None else ["the other months of a series; leave the series out"]
    if hindrance:
        raise InputError(
            f"synthesizer {config.synthesizer!r} promises (ε, δ) only, which does not add up with {hindrance[0]}, or "
            "choose mst, aim or gem"
        )
    price = Price.of(config, total, counts=False, means=means, finding=False)
    own = own.promised(config.epsilon, config.delta, price.means, account)
    assert own.promise is not None
    return own, replace(price, total=price.means + price.sizes + own.promise.rho)


@dataclass(frozen=True)
class Opening:
    """What finding the values of one open column costs.

    Attributes:
        rho: of the noise, for one unit.
        delta: the chance with which values that one unit alone holds are found is at most this.
        paid: ρ that buys this δ (`equistrata.privacy.thresholds.bought`).
    """

    column: str
    rho: Rho
    delta: float
    paid: Rho


def openings_of(columns: Sequence[str], finding: Rho, budgets: Sequence[tuple[float, float]]) -> Mapping[str, Opening]:
    """What each open column costs, by its name in `Plan.parts`: they share ρ equally, and DELTA_PART buys their δ.

    Args:
        finding: ρ for all of them.
        budgets: (ε, δ) of the release, of its series, and of the account that is charged: the δ is paid for in each.
    """
    if not columns:
        return {}
    shares = finding.split([1] * len(columns))
    paid = [share * DELTA_PART for share in shares]
    delta = [bought(part, budgets) for part in paid]
    each = zip(columns, shares, paid, delta, strict=True)
    return {f"values of {name}": Opening(name, share - part, small, part) for name, share, part, small in each}


def total_price(epsilon: float, delta: float) -> Rho:
    """The price of a whole release or audit in zCDP. Raises InputError if (ε, δ) is no budget."""
    try:
        return Rho.from_epsilon_delta(epsilon, delta)
    except ValueError as error:
        raise InputError(f"settings 'epsilon' and 'delta' give no usable budget: {error}") from None
