"""How often the public audit's intervals hold the truth: `python -m benchmarks.audit_coverage`.

Private rows are drawn again for each audit from a population whose every mean, rate and ratio is known: both
sampling and noise are at play. Strata have from 12 to 10,000 rows. Seeded noise (not private).
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from rich.console import Console
from rich.table import Table

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

SIZES = (12, 40, 120, 210, 400, 1_000, 3_000, 10_000)
SMALL = 200  # rows; above it the coverage of a stratum's intervals must be nominal, below it no worse than 0.90
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
    """A classifier that is a table of scores by A, B and C, shape (2, 5, 3)."""

    table: Floats
    name: str = "table"
    target: str = "Y"
    positive: int = 1

    def predict(self, table: CodedTable) -> Predicted:
        """See `equistrata.eval.scores.classifiers.Classifier`."""
        score = self.table.ravel()[table.index_of(["A", "B", "C"])]
        return Predicted(score, score > 0.5)


@dataclass(frozen=True, eq=False)
class Population:
    """Probabilities of the cells (A, B, C, Y) within each stratum, shape (k, 60), and the audited classifier."""

    cells: Floats
    classifier: Scores

    @classmethod
    def draw(cls, seed: int, skewed: bool = False) -> Population:
        """Uneven strata: features from a Dirichlet distribution, labels from a chance that the scores half know.

        Skewed: few cells hold nearly everybody, labels are rare in many strata, and the scores are far off.
        """
        rng = np.random.default_rng([seed, 0])
        features = rng.dirichlet(np.full(prod(FEATURES), 0.15 if skewed else 0.7), len(SIZES))
        known = rng.beta(1.2, 1.2, FEATURES)
        tilt = rng.normal(*((-1.5, 1.5) if skewed else (0, 0.6)), (len(SIZES), 1))
        chance = 1 / (1 + np.exp(-(np.log(known / (1 - known)).ravel() + tilt + rng.normal(0, 0.5, features.shape))))
        cells = np.stack([features * (1 - chance), features * chance], axis=2).reshape(len(SIZES), -1)
        return cls(cells, Scores(known))

    def rows(self, rng: np.random.Generator, sizes: Sequence[int] = SIZES) -> CodedTable:
        """A sample with these numbers of rows by stratum."""
        blocks = []
        for stratum, (size, cells) in enumerate(zip(sizes, self.cells, strict=True)):
            flat = np.repeat(np.arange(len(cells)), rng.multinomial(size, cells))
            blocks.append(np.stack([np.full(size, stratum), *np.unravel_index(flat, (*FEATURES, 2))], axis=1))
        return CodedTable(np.concatenate(blocks).astype(np.uint8), SCHEMA)

    def truth(self) -> dict[str, dict[str, float]]:
        """Every mean, ratio and rate, number → stratum → value; `all` weighs the strata by `SIZES`."""
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
    """Of the intervals of one number of one stratum: how many, how many hold the truth, how many say something."""

    made: int = 0
    hit: int = 0
    telling: int = 0


def simulate(
    epsilon: float, audits: int, *, delta: float = 1e-9, seed: int = 0, skewed: bool = False
) -> dict[tuple[str, str], Count]:
    """Audit fresh samples of one population; (number, stratum) → what became of its intervals."""
    population = Population.draw(seed, skewed)
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
    """Every mean, ratio and rate of an audit, with its name and stratum."""
    tables = {f"mean of {name}": table for name, table in audit.means.items()}
    for name in ("calibration", "accuracy", "selection_rate", "false_negative_rate"):
        tables[name] = getattr(audit, name)
    for name, table in tables.items():
        for label, number in table.items():
            yield name, label, number


def size_of(label: str) -> int:
    """How many rows a stratum of the simulation has."""
    return sum(SIZES) if label == ALL_ROWS else SIZES[int(label.removeprefix("G="))]


def main() -> None:
    """Print the coverage of every interval."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--audits", type=int, default=500)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument("--delta", type=float, default=1e-9)
    parser.add_argument("--seed", type=int, default=0, help="another population, other rows and noise")
    parser.add_argument("--skewed", action="store_true", help="a population of rare values")
    given = parser.parse_args()
    for epsilon in given.epsilon:
        counts = simulate(epsilon, given.audits, delta=given.delta, seed=given.seed, skewed=given.skewed)
        names = list(dict.fromkeys(name for name, _ in counts))
        grid = Table(title=f"coverage at ε = {epsilon:g}, {given.audits} audits (share that says something)")
        grid.add_column("rows")
        for name in names:
            grid.add_column(name, justify="right")
        for label in dict.fromkeys(label for _, label in counts):
            cells = (counts[name, label] for name in names)
            grid.add_row(f"{size_of(label):,}", *(f"{c.hit / c.made:.3f} ({c.telling / c.made:.2f})" for c in cells))
        Console(width=160).print(grid)


if __name__ == "__main__":
    main()
