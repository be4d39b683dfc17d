"""Tests of the coverage of the intervals of a public audit.

The test uses 500 audits for each value of ε. The number of rows in a stratum is between 12 and 10,000. For each audit,
the private rows are sampled from a population with known means, rates and ratios. The intervals must therefore account
for the sampling error and for the noise. The noise has a seed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import pytest

from equistrata.arrays import Floats
from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.eval.audit.noisy_number import NoisyNumber
from equistrata.eval.audit.public import PublicAudit, public_audit
from equistrata.eval.scores.classifiers import Predicted
from equistrata.eval.scores.tables import ALL_ROWS
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SeededNoise

AUDITS = 500
KINDS = {"mean of": "means", "calibration": "ratios"}  # all other kinds are rates
SIZES = (12, 40, 120, 210, 400, 1_000, 3_000, 10_000)
SMALL = 200  # in rows. The coverage must be nominal above this size, and at least 0.90 below this size
SCHEMA = Schema(
    "population",
    (
        Column("G", values=tuple(range(len(SIZES)))),
        Column("A", values=(0, 1)),
        Column("B", values=(0, 1, 2, 3, 4)),
        Column("C", values=(0, 1, 2)),
        Column("Y", values=(0, 1)),
    ),
    target="Y",
)
STRATA = Strata.over(SCHEMA, ["G"])
FEATURES = (2, 5, 3)


@dataclass(frozen=True, eq=False)
class Scores:
    """A classifier with a table of scores by A, B and C, with shape (2, 5, 3)."""

    table: Floats
    name: str = "table"
    target: str = "Y"
    positive: int = 1

    def predict(self, table: CodedTable) -> Predicted:
        score = self.table.ravel()[table.index_of(["A", "B", "C"])]
        return Predicted(score, score > 0.5)


@dataclass(frozen=True, eq=False)
class Population:
    """A population with cell probabilities for each stratum, with shape (k, 60), and the classifier."""

    cells: Floats
    classifier: Scores

    @classmethod
    def draw(cls, seed: int) -> Population:
        """Return a random population of unequal strata, in which the labels depend on the scores."""
        rng = np.random.default_rng([seed, 0])
        features = rng.dirichlet(np.full(prod(FEATURES), 0.7), len(SIZES))
        known = rng.beta(1.2, 1.2, FEATURES)
        tilt = rng.normal(0, 0.6, (len(SIZES), 1))
        chance = 1 / (1 + np.exp(-(np.log(known / (1 - known)).ravel() + tilt + rng.normal(0, 0.5, features.shape))))
        cells = np.stack([features * (1 - chance), features * chance], axis=2).reshape(len(SIZES), -1)
        return cls(cells, Scores(known))

    def rows(self, rng: np.random.Generator, sizes: Sequence[int] = SIZES) -> CodedTable:
        """Return a sample with the given number of rows in each stratum."""
        blocks = []
        for stratum, (size, cells) in enumerate(zip(sizes, self.cells, strict=True)):
            flat = np.repeat(np.arange(len(cells)), rng.multinomial(size, cells))
            blocks.append(np.stack([np.full(size, stratum), *np.unravel_index(flat, (*FEATURES, 2))], axis=1))
        return CodedTable(np.concatenate(blocks).astype(np.uint8), SCHEMA)

    def truth(self) -> dict[str, dict[str, float]]:
        """Return the true means, ratios and rates as a dictionary by number and stratum.

        The strata have weights that are proportional to `SIZES` in the value for all rows.
        """
        weights = [*np.eye(len(SIZES)).tolist(), [size / sum(SIZES) for size in SIZES]]
        found: dict[str, dict[str, float]] = defaultdict(dict)
        for label, weight in zip([*(STRATA.label(key) for key in STRATA.keys), ALL_ROWS], weights, strict=True):
            cells = (np.array(weight) @ self.cells).reshape(*FEATURES, 2)
            for axis, name in enumerate(("A", "B", "C", "Y")):
                margin = cells.sum(axis=tuple(other for other in range(4) if other != axis))
                found[f"mean of {name}"][label] = float(margin @ np.arange(len(margin)))
            no, yes = cells[..., 0], cells[..., 1]
            selected = self.classifier.table > 0.5
            found["calibration"][label] = float((cells.sum(axis=3) * self.classifier.table).sum() / yes.sum())
            found["accuracy"][label] = float(yes[selected].sum() + no[~selected].sum())
            found["selection_rate"][label] = float(cells[selected].sum())
            found["false_negative_rate"][label] = float(yes[~selected].sum() / yes.sum())
        return found


@dataclass
class Count:
    """The number of intervals, of intervals that cover the true value, and of intervals without a note."""

    made: int = 0
    hit: int = 0
    telling: int = 0


def simulate(epsilon: float, audits: int, *, delta: float = 1e-9, seed: int = 0) -> dict[tuple[str, str], Count]:
    """Count the intervals of audits of samples from a population, by number and stratum."""
    population = Population.draw(seed)
    truth, rho = population.truth(), Rho.from_epsilon_delta(epsilon, delta)
    synthetic = population.rows(np.random.default_rng([seed, 1]))
    counts: dict[tuple[str, str], Count] = defaultdict(Count)
    for audit in range(audits):
        rows = population.rows(np.random.default_rng([seed, 2, audit]))
        noise = SeededNoise(np.random.SeedSequence([seed, 3, audit]))
        made = public_audit(rows, synthetic, STRATA, budget=rho, noise=noise, classifier=population.classifier)
        for name, label, number in numbers(made):
            count = counts[name, label]
            count.made += 1
            count.hit += number.lower <= truth[name][label] <= number.upper
            count.telling += not number.note
    return counts


def numbers(audit: PublicAudit) -> Iterator[tuple[str, str, NoisyNumber]]:
    """Return the name, the stratum and the value of each mean, ratio and rate of an audit."""
    tables = {f"mean of {name}": table for name, table in audit.means.items()}
    for name in ("calibration", "accuracy", "selection_rate", "false_negative_rate"):
        tables[name] = getattr(audit, name)
    for name, table in tables.items():
        for label, number in table.items():
            yield name, label, number


def size_of(label: str) -> int:
    """Return the number of rows of a stratum."""
    return sum(SIZES) if label == ALL_ROWS else SIZES[int(label.removeprefix("G="))]


def kind_of(name):
    return next((kind for start, kind in KINDS.items() if name.startswith(start)), "rates")


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_coverage(epsilon):
    """Check that the coverage is nominal for strata with more than 200 rows, and at least 0.90 for the others.

    With 500 audits, the standard error of the coverage is 0.0097. The tolerance for a single interval is 3.5 standard
    errors. The probability of a false alarm is 1 in 4,000. No tolerance is used for the coverage over all strata.
    """
    counts, pooled = simulate(epsilon, AUDITS), defaultdict(Count)
    for (name, label), count in counts.items():
        coverage = count.hit / count.made
        assert count.made == AUDITS
        large = label == ALL_ROWS or size_of(label) > SMALL
        if large:
            assert coverage > 0.93 - 0.034, (name, label)
        else:
            assert coverage > 0.90 - 0.034, (name, label)
        into = pooled[kind_of(name), large]
        into.made, into.hit = into.made + count.made, into.hit + count.hit
    for (kind, large), count in pooled.items():
        coverage = count.hit / count.made
        assert coverage >= 0.90, kind
        if large:
            assert 0.93 <= coverage <= 0.97, kind
    assert len(pooled) == 6


@pytest.mark.slow
def test_large_strata_say_something_and_tiny_ones_do_not():
    counts = simulate(1.0, 100)
    for (_, label), count in counts.items():
        if size_of(label) >= 3000:
            assert count.telling == count.made
    tiny = [count for (_, label), count in counts.items() if size_of(label) < 20]
    assert sum(count.telling for count in tiny) < 0.2 * sum(count.made for count in tiny)
