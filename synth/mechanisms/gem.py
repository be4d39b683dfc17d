"""GEM: a mixture of product distributions, trained on marginals that are privately chosen round by round.

Liu, Vietri and Wu, "Iterative Methods for Private Synthetic Data" (arXiv:2106.07153), algorithm 1 and section 4, at an
honest budget: ρ pays for all rounds together. (The code published with the stratification paper spends its ε in every
one of 100 rounds.) Where we leave the paper: whole marginals are chosen and measured, not single queries; a choice
subtracts the noise that measuring would bring (AIM, arXiv:2201.12677, section 5.2); the number of rounds follows from
the noisy number of rows; and the model is trained once more from the start on all measurements, so that it can be
made again from the saved ones.

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

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import NoiseSource, gaussian_sigma
from equistrata.synth.measurements import NOISE_L1, Measurement, total_estimate
from equistrata.synth.mechanisms.books import Books, Columns, Step
from equistrata.synth.models.mixture import ProductMixture
from equistrata.synth.models.mixture_loss import MixtureLoss
from equistrata.synth.models.mixture_training import Adam, DirectLogits, Generator, Weights, mixture


@dataclass(frozen=True)
class GEM:
    """The GEM synthesizer.

    Attributes:
        rounds: most rounds of choosing and measuring a marginal.
        degree: marginals of 2 to this many columns can be chosen.
        single_share: part of ρ for all 1-way marginals, before the rounds.
        selection_share: part of a round's ρ for its choice.
        readable: rounds are at most this many times the ratio of the number of rows, as the 1-way marginals estimate
            it, to the noise expected on one marginal that gets all of the rounds' ρ (mean L1 norm over those that can
            be chosen). A table too small for one round gives all of ρ to 1-way marginals. The rule is linear because
            that is where New York's strata of 600 to 8,000 rows had their least error (docs/performance.md).
        most_cells: marginals of more cells are not considered.
        components: products in the mixture.
        round_steps, steps: descents in each round, and for the model at the end.
        seed: fixes where training starts. Public: it protects nothing.
        generator: what makes the components: their logits directly, or the paper's network (`equistrata.synth.models.mixture_network`).
        optimizer: how it is trained.
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
    generator: Generator = field(default_factory=DirectLogits)
    optimizer: Adam = field(default_factory=Adam)

    def __post_init__(self) -> None:
        for name in ("single_share", "selection_share"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(f"GEM's {name} is {getattr(self, name)}, but it is a part of the budget; give 0 to 1")
        for name, least in (("rounds", 0), ("degree", 2), ("components", 1), ("round_steps", 0), ("steps", 0)):
            if getattr(self, name) < least:
                raise InputError(f"GEM's {name} is {getattr(self, name)}; give {least} or more")

    @property
    def name(self) -> str:
        """GEM."""
        return "GEM"

    def measure(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
    ) -> list[Measurement]:
        """Measure a table. Costs `rho` in zCDP; neighbours differ by one added or removed row.

        Proof sketch: every marginal is released with Gaussian noise at sensitivity 1 (`measure_marginal`). How many
        rounds there are follows from noisy numbers alone. A round's choice scores a marginal by
        ‖true − model‖₁ − √(2/π)·σ·cells. The model, and so its counts, are made from noisy numbers, and the second
        term is public: its sensitivity is 1 (`equistrata.synth.mechanisms.books.score`; it can go either way, so ε is taken over twice the
        sensitivity). The exponential mechanism at ε = √(8ρ') then costs ρ'. Rounds compose adaptively (Bun and Steinke, Lemma 2.3); their
        amounts are exact fractions of ρ that add up to it, and the budget object raises if they would pass it.

        Source: arXiv:2106.07153, algorithm 1, with the budget of its theorem 1 in zCDP.
        """
        return self.measure_with_log(table, rho, noise, known)[0]

    def measure_with_log(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
    ) -> tuple[list[Measurement], list[Step]]:
        """As `measure`, with what each release cost, in order. The amounts add up to `rho` exactly. The log is as
        public as the measurements: it holds nothing that they do not tell."""
        books, schema = Books(table, rho, noise, known), table.schema
        single_rho, round_rho = rho.split([self.single_share, 1 - self.single_share])
        singles = single_rho.split([1] * len(schema.names))
        first = [((name,), price) for name, price in zip(schema.names, singles, strict=True)]
        for columns, price in first:
            books.measure(columns, price)
        candidates = self.candidates(schema)
        rounds = self.rounds_for(schema, round_rho, total_estimate(books.measurements)[0])
        if not rounds:
            books.measure_again(first)
            return books.measurements, books.log
        weights = self._start(schema)
        for share in round_rho.split([1] * rounds):
            choice, rest = share.split([self.selection_share, 1 - self.selection_share])
            weights = self._train(schema, books.measurements, weights, self.round_steps)
            model = self._mixture(schema, books.measurements, weights)
            place = books.choose(partial(_scores, books, candidates, model, gaussian_sigma(rest)), choice)
            books.measure(candidates[place], rest, choice)
        return books.measurements, books.log

    def model(self, schema: Schema, measurements: Sequence[Measurement]) -> ProductMixture:
        """The model that measurements imply: the same bits for the same measurements and settings. No cost."""
        weights = self._train(schema, measurements, self._start(schema), self.steps)
        return self._mixture(schema, measurements, weights)

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
        """How many rounds `rho` can pay in a table of about `rows` rows: see `readable`. A function of noisy numbers.

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

    def _start(self, schema: Schema) -> Weights:
        return self.generator.start(sum(schema.sizes), self.components, self.seed)

    def _train(self, schema: Schema, measurements: Sequence[Measurement], weights: Weights, steps: int) -> Weights:
        if not steps:
            return weights
        loss = MixtureLoss.of(schema, measurements, _total(measurements))
        return self.optimizer.train(self.generator, loss, weights, steps)

    def _mixture(self, schema: Schema, measurements: Sequence[Measurement], weights: Weights) -> ProductMixture:
        return mixture(schema, _total(measurements), self.generator.logits(weights))


def _total(measurements: Sequence[Measurement]) -> float:
    return max(total_estimate(measurements)[0], 1.0)


def _scores(books: Books, candidates: Sequence[Columns], model: ProductMixture, sigma: float) -> Floats:
    return np.array([books.score(columns, model, sigma) for columns in candidates])
