"""The GEM mechanism.

GEM trains a mixture of product distributions on marginals. The marginals are privately selected, one per round.

The implementation follows algorithm 1 and section 4 of Liu, Vietri and Wu, "Iterative Methods for Private Synthetic
Data" (arXiv:2106.07153), where ρ is the cost of all rounds together. There are five differences from the paper:

- Whole marginals are selected and measured instead of single queries.
- The score of a selection subtracts the noise floor, as in section 5.2 of AIM (arXiv:2201.12677).
- The number of rounds depends on the noisy number of rows.
- The final model is trained from the start on all measurements.
- The components are represented by logits instead of a network.

If there are strata, marginals can be measured within strata as well as over all rows, and one selection serves all
strata (`equistrata.synth.mechanisms.levels`). One mixture of all columns is then cut into the mixtures of the strata.

>>> import numpy as np
>>> from equistrata.privacy.noise import SeededNoise
>>> schema = Schema.load("acs_employment").select(["AGEP", "MAR", "ESR"])
>>> a = np.random.default_rng(0).integers(1, 5, 20_000)
>>> table = CodedTable(np.stack([a, np.minimum(a, 2), a < 3], axis=1).astype(np.uint8), schema)
>>> noisy = GEM(rounds=3).measure(table, Rho(0.1), SeededNoise(0))
>>> [m.columns for m in noisy][:4]
[('AGEP',), ('MAR',), ('ESR',), ('AGEP', 'MAR', 'ESR')]
>>> model = GEM(rounds=3).model(schema, noisy)
>>> bool(np.abs(model.marginal(["AGEP", "ESR"]) - table.marginal(["AGEP", "ESR"])).sum() < 0.02 * len(table))
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import combinations
from math import comb, inf, prod
from statistics import mean
from typing import Self

from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import NoiseSource, gaussian_sigma
from equistrata.stats.distributions import NOISE_L1
from equistrata.synth.measurements import Columns, Measurement, join_level_columns, total_estimate, varying
from equistrata.synth.mechanisms.base import Opening, SharingMechanism
from equistrata.synth.mechanisms.levels import Levels
from equistrata.synth.mechanisms.session import NOTHING, Session, Step
from equistrata.synth.models.mixtures.descent import MixtureDescent
from equistrata.synth.noise_floors import NOISY_SIZES

# For many columns, the number of rounds is raised to one round per _PAIRS_A_ROUND pairs. It is at most _NOISIER times
# the number of rounds with little noise. For 16 columns, this reduces the workload error by 13 to 17 %.
_NOISIER, _PAIRS_A_ROUND = 3, 4
LARGE_NOISE = 0.006  # the value of `Levels.large_noise` (docs/experiments/gem.md)


@dataclass(frozen=True)
class GEM(SharingMechanism):
    """The GEM synthesizer.

    Parameters
    ----------
    rounds : int, default=40
        The maximum number of rounds. Each round selects and measures one marginal.
    degree : int, default=3
        The maximum number of columns of a selected marginal. The minimum is 2. Within strata, the maximum is one column
        less, but at least 2, in addition to the stratum columns.
    levels : Levels
        The strata, and the levels at which marginals can be measured. If there are no strata, the only level is all
        rows.
    single_share : float, default=0.1
        The fraction of ρ for all 1-way marginals before the rounds. If there are strata, see `Levels`.
    selection_share : float, default=0.1
        The fraction of the ρ of a round that is spent on its selection.
    readable : float, default=1.0
        The factor that limits the number of rounds. The number is at most this factor times the noisy number of rows,
        divided by the noise floor of a marginal that gets all of the ρ of the rounds. The noise floor is the mean of
        the expected L1 norm over the marginals that can be selected over all rows. If the table is too small for one
        round, all of ρ is spent on 1-way marginals. If there are so many columns that most relations would be
        omitted, there are more rounds with more noise.
    most_cells : int, default=50_000
        The maximum number of cells of a marginal.
    round_steps : int, default=30
        The number of training steps in each round.
    engine : MixtureDescent
        The trainer of the mixture. It trains the final model from the start.

    Raises
    ------
    InputError
        If a setting has an invalid value.
    """

    rounds: int = 40
    degree: int = 3
    levels: Levels = field(default_factory=Levels)
    single_share: float = 0.1
    selection_share: float = 0.1
    readable: float = 1.0
    most_cells: int = 50_000
    round_steps: int = 30
    engine: MixtureDescent = field(default_factory=MixtureDescent)

    name = "GEM"

    def __post_init__(self) -> None:
        for name in ("single_share", "selection_share"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(
                    f"GEM's {name} is {getattr(self, name)}, but must be a part of the budget; give 0 to 1"
                )
        for name, least in (("rounds", 0), ("degree", 2), ("round_steps", 0)):
            if getattr(self, name) < least:
                raise InputError(f"GEM's {name} is {getattr(self, name)}; give {least} or more")

    @property
    def model_size(self) -> float:
        """See `SharingMechanism.model_size`.

        The size of a mixture depends only on its columns and not on the measurements.
        """
        return inf

    @property
    def choice_part(self) -> float:
        """See `Mechanism.choice_part`."""
        return self.selection_share / (1 - self.selection_share)

    def with_levels(self, strata: Columns, coarse: bool, fine: bool, each: bool = True) -> Self:
        """See `SharingMechanism.with_levels`."""
        large = LARGE_NOISE if each else 0.0
        levels = Levels(strata, coarse, fine, alone=self.single_share, large_noise=large, sizes_noise=NOISY_SIZES)
        return replace(self, levels=levels)

    def measure_with_log(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
    ) -> tuple[list[Measurement], list[Step]]:
        """Measure every column, and then run rounds that train the model, select a marginal and measure it.

        If all strata are large (`Levels.large`), the columns are measured over all rows first. Each stratum is then
        measured separately in the same way.

        Parameters
        ----------
        table : CodedTable
            The private rows.
        rho : Rho
            The privacy cost in zCDP.
        noise : NoiseSource
            The source of the noise.
        known : sequence of Measurement, default=()
            Measurements of the same rows that are already paid for.

        Returns
        -------
        measurements : list of Measurement
            The known measurements and the new measurements.
        log : list of Step
            The steps of the run, which add up to `rho`.

        Privacy
        -------
        The new measurements are `rho`-zCDP. Neighbouring tables differ by one added or removed row. See
        docs/proofs/gem.md.

        References
        ----------
        .. [1] Liu, Vietri and Wu, arXiv:2106.07153, algorithm 1, with the budget of theorem 1 in zCDP.
        """
        session = Session(table, rho, noise, known)
        opening = self.opening(session)
        if opening.each is not None:
            session.measure_each(self.strata, opening.each.measure_with_log)
            return session.found, session.log
        if not opening.choices:
            session.measure_again(opening.first)
            return session.found, session.log
        schema, logits = session.table.schema, None
        candidates, trainer = self.candidates(schema, opening.levels), replace(self.engine, steps=self.round_steps)
        for share in opening.tree.split([1] * opening.choices):
            choice, rest = share.split([self.selection_share, 1 - self.selection_share])
            logits, model = trainer.trained(schema, self.levels.modelled(session.measurements), logits)
            scores = partial(session.scores, candidates, model, gaussian_sigma(rest))
            session.measure(candidates[session.choose(scores, choice)], rest, choice)
        return session.found, session.log

    def opening(self, session: Session) -> Opening:
        """See `SharingMechanism.opening`.

        Every column is measured. The number of rounds is then set (`rounds_for`).
        """
        if self.strata:
            first = self.levels.measure_over_all(session)
            if self.levels.large(session):
                names, within = self.levels.inner(session.table.schema), replace(self.levels, coarse=False)
                alone = replace(self, levels=Levels())
                return Opening(first, names, within, session.budget.remaining, 0, NOTHING, alone)
            first = self.levels.measure_within(session, first)
        else:
            singles = (session.budget.total * self.single_share).split([1] * len(session.table.schema.names))
            priced = zip(session.table.schema.names, singles, strict=True)
            first = session.measure_all([((name,), price) for name, price in priced])
            session.coarsen(session.budget.remaining)
        schema, left, levels = session.table.schema, session.budget.remaining, self.levels.reached(session.measurements)
        rounds = self.rounds_for(schema, left, total_estimate(session.measurements)[0], levels)
        price = left * (1 - self.selection_share) * Fraction(1, rounds) if rounds else NOTHING
        return Opening(first, schema.names, levels, left, rounds, price)

    def candidates(self, schema: Schema, levels: Levels | None = None) -> list[Columns]:
        """Return the marginals that can be selected, either over all rows or within strata.

        The result depends only on the schema.

        Parameters
        ----------
        schema : Schema
            The schema of the table.
        levels : Levels or None, default=None
            The levels at which marginals can be measured. If None, the levels of this mechanism are used.

        Returns
        -------
        list of tuple of str
            The columns of each marginal.
        """
        levels = levels or self.levels
        sizes = dict(zip(schema.names, schema.sizes, strict=True))
        found: list[Columns] = []
        if levels.coarse:
            names = varying(schema, schema.names)
            found += [c for degree in range(2, self.degree + 1) for c in combinations(names, degree)]
        if levels.strata and levels.fine:
            inner, degrees = varying(schema, levels.inner(schema)), range(2, max(self.degree, 3))
            found += [
                join_level_columns(schema, c, levels.strata) for degree in degrees for c in combinations(inner, degree)
            ]
        return [c for c in dict.fromkeys(found) if prod(sizes[name] for name in c) <= self.most_cells]

    def rounds_for(self, schema: Schema, rho: Rho, rows: float, levels: Levels | None = None) -> int:
        """Compute the number of rounds for a table (see `readable`).

        The number is computed by post-processing.

        Parameters
        ----------
        schema : Schema
            The schema of the table.
        rho : Rho
            The ρ of all rounds.
        rows : float
            The approximate number of rows.
        levels : Levels or None, default=None
            The levels at which marginals can be measured. If None, the levels of this mechanism are used.

        Returns
        -------
        int
            The number of rounds.

        Examples
        --------
        >>> schema = Schema.load("acs_employment").select(["AGEP", "MAR", "SEX", "ESR"])
        >>> [GEM().rounds_for(schema, Rho(0.01), rows) for rows in (100, 500, 1000, 100_000)]
        [0, 4, 8, 40]
        """
        levels = levels or self.levels
        candidates = self.candidates(schema, replace(levels, fine=False) if levels.coarser else levels)
        if not candidates or rows <= 0:
            return 0
        cells = mean(prod(schema[name].size for name in columns) for columns in candidates)
        one = NOISE_L1 * gaussian_sigma(float(rho) * (1 - self.selection_share)) * cells
        readable, pairs = int(self.readable * rows / one), comb(len(schema.names), 2)
        return min(self.rounds, max(readable, min(_NOISIER * readable, pairs // _PAIRS_A_ROUND)))
