"""GEM: a mixture of product distributions, trained on marginals that are privately chosen round by round.

Liu, Vietri and Wu, "Iterative Methods for Private Synthetic Data" (arXiv:2106.07153), algorithm 1 and section 4, where
ρ pays for all rounds together. Where we leave the paper: whole marginals are chosen and measured, not single queries; a
choice subtracts the noise floor (AIM, arXiv:2201.12677, section 5.2); the number of rounds follows from the noisy
number of rows; the final model is trained from the start on all measurements; components have logits, not a network.

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
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from math import prod
from statistics import mean

from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import NoiseSource, gaussian_sigma
from equistrata.synth.measurements import NOISE_L1, Columns, Measurement, total_estimate
from equistrata.synth.mechanisms.base import LoggedMechanism
from equistrata.synth.mechanisms.session import Session, Step
from equistrata.synth.models.base import Model
from equistrata.synth.models.coarsening import modelled
from equistrata.synth.models.mixture import ProductMixture, mixture
from equistrata.synth.models.mixture_loss import Adam, MixtureLoss, Singles, start_logits


@dataclass(frozen=True)
class GEM(LoggedMechanism):
    """The GEM synthesizer.

    Attributes:
        rounds: most rounds of choosing and measuring a marginal.
        degree: marginals of 2 to this many columns can be chosen.
        single_share: part of ρ for all 1-way marginals, before the rounds.
        selection_share: part of a round's ρ for its choice.
        readable: rounds are at most this many times the number of rows (noisy) over the noise floor of a marginal
            that gets all of the rounds' ρ (expected L1 norm, mean over those that can be chosen). A table too small
            for one round gives all of ρ to 1-way marginals. Tuned: docs/experiments/gem.md.
        most_cells: marginals of more cells are not considered.
        components: products in the mixture.
        round_steps, steps: descents in each round, and for the model at the end.
        seed: fixes where training starts. Public: it protects nothing.
        optimizer: how the components' logits are trained.
    """

    rounds: int = 40
    degree: int = 3
    single_share: float = 0.1
    selection_share: float = 0.1
    readable: float = 1.0
    most_cells: int = 50_000
    components: int = 100
    round_steps: int = 30
    steps: int = 1200
    seed: int = 0
    optimizer: Adam = field(default_factory=Adam)

    name = "GEM"

    def __post_init__(self) -> None:
        for name in ("single_share", "selection_share"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(f"GEM's {name} is {getattr(self, name)}, but it is a part of the budget; give 0 to 1")
        for name, least in (("rounds", 0), ("degree", 2), ("components", 1), ("round_steps", 0), ("steps", 0)):
            if getattr(self, name) < least:
                raise InputError(f"GEM's {name} is {getattr(self, name)}; give {least} or more")

    def measure_with_log(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
    ) -> tuple[list[Measurement], list[Step]]:
        """Measure every column, then run rounds: train, choose a marginal, measure it.

        Cost: `rho` in zCDP; neighbours differ by one added or removed row. See docs/proofs/gem.md.

        Source: arXiv:2106.07153, algorithm 1, with the budget of its theorem 1 in zCDP.
        """
        session, schema = Session(table, rho, noise, known), table.schema
        single_rho, round_rho = rho.split([self.single_share, 1 - self.single_share])
        singles = single_rho.split([1] * len(schema.names))
        first = session.measure_all([((name,), price) for name, price in zip(schema.names, singles, strict=True)])
        session.coarsen(round_rho)
        schema = session.table.schema
        candidates = self.candidates(schema)
        rounds = self.rounds_for(schema, round_rho, total_estimate(session.measurements)[0])
        if not rounds:
            session.measure_again(first)
            return session.found, session.log
        logits = None
        for share in round_rho.split([1] * rounds):
            choice, rest = share.split([self.selection_share, 1 - self.selection_share])
            logits, model = self._trained(schema, session.measurements, self.round_steps, logits)
            scores = partial(session.scores, candidates, model, gaussian_sigma(rest))
            session.measure(candidates[session.choose(scores, choice)], rest, choice)
        return session.found, session.log

    def model(self, schema: Schema, measurements: Sequence[Measurement]) -> Model:
        """The model that measurements imply: the same bits for the same measurements and settings. Post-processing."""
        return modelled(schema, measurements, lambda coarse, found: self._trained(coarse, found, self.steps)[1])

    def candidates(self, schema: Schema) -> list[Columns]:
        """The marginals that can be chosen, by the schema alone."""
        sizes = dict(zip(schema.names, schema.sizes, strict=True))
        return [
            columns
            for degree in range(2, self.degree + 1)
            for columns in combinations(schema.names, degree)
            if prod(sizes[name] for name in columns) <= self.most_cells
        ]

    def rounds_for(self, schema: Schema, rho: Rho, rows: float) -> int:
        """How many rounds `rho` can pay in a table of about `rows` rows: see `readable`. Post-processing.

        >>> schema = Schema.load("acs_employment").select(["AGEP", "MAR", "SEX", "ESR"])
        >>> [GEM().rounds_for(schema, Rho(0.01), rows) for rows in (100, 500, 1000, 100_000)]
        [0, 4, 8, 40]
        """
        candidates = self.candidates(schema)
        if not candidates or rows <= 0:
            return 0
        cells = mean(prod(schema[name].size for name in columns) for columns in candidates)
        one = NOISE_L1 * gaussian_sigma(float(rho) * (1 - self.selection_share)) * cells
        return min(self.rounds, int(self.readable * rows / one))

    def _trained(
        self, schema: Schema, measurements: Sequence[Measurement], steps: int, logits: Singles | None = None
    ) -> tuple[Singles, ProductMixture]:
        """Logits after so many steps from these (None for the start), and their model."""
        total = max(total_estimate(measurements)[0], 1.0)
        if logits is None:
            logits = start_logits(schema, self.components, self.seed)
        if steps:
            logits = self.optimizer.train(MixtureLoss.of(schema, measurements, total), logits, steps)
        return logits, mixture(schema, total, logits)
