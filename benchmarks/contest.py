"""Who takes part in the comparison with peers, one repetition of it, and its table and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from rich import box
from rich.table import Table

from benchmarks.child import Cost, Job, measure
from equistrata.data.table import CodedTable
from equistrata.eval.scores.scores import Scores, score
from equistrata.synth.registry import MECHANISMS, mechanism

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCORED_STRATA = ("SEX", "RAC1P")
TRAINING_SHARE = 0.8
SHARED = ("mst", "aim")  # mechanisms that can choose once for all strata
COLOURS = ("#1f6f8b", "#b5541c", "#4c7f3a", "#7a4f9e", "#9a7b1f", "#555555")


@dataclass(frozen=True)
class Contestant:
    """One way of making a release; fields as in the configuration."""

    mechanism: str
    strata: tuple[str, ...]
    engine: str = "numpy"
    selection: str | None = None

    @property
    def name(self) -> str:
        """As in the paper, with the selection or engine of ours: `MST_SEX_RAC1P, shared`, `SmartNoiseMST_SEX_RAC1P`."""
        named = "_".join([mechanism(self.mechanism, self.engine).name, *(self.strata or ["vanilla"])])
        default = "default" if self.strata and self.engine == "numpy" else self.engine
        return named if self.mechanism.startswith("smartnoise-") else f"{named}, {self.selection or default}"


@dataclass(frozen=True)
class Run:
    """One repetition: what it cost and how it scored."""

    cost: Cost
    scores: Scores


def contestants(strata: Sequence[str], peers: Sequence[str], mbi: bool) -> list[Contestant]:
    """Ours by stratum (as by default, and both selections) and vanilla, MST also on the reference engine, peers."""
    both = (tuple(strata), ())
    shared = [Contestant(name, tuple(strata), selection=how) for how in (None, "shared") for name in SHARED]
    alone = [Contestant(name, tuple(strata), selection="per-stratum") for name in MECHANISMS]
    ours = [*shared, *alone, *(Contestant(name, ()) for name in MECHANISMS)]
    reference = [Contestant("mst", cut, "mbi") for cut in both] if mbi else []
    return [*ours, *reference, *(Contestant(name, cut) for name in peers for cut in both)]


def split(table: CodedTable, seed: int) -> tuple[CodedTable, CodedTable]:
    """A random 80 % to fit and the rest to test."""
    training = np.random.default_rng(seed).random(len(table)) < TRAINING_SHARE
    return table.take(training), table.take(~training)


def run(contestant: Contestant, table: CodedTable, seed: int, epsilon: float, workers: int, classifiers: bool) -> Run:
    """Fit on a random 80 % in a process of its own, and score. Raises JobFailed."""
    rows, held_out = split(table, seed)
    job = Job(
        contestant.mechanism, contestant.strata, table.schema.names, contestant.engine, epsilon, seed, workers,
        contestant.selection,
    )  # fmt: skip
    cost, synthetic = measure(job, rows)
    rng = np.random.default_rng(seed)
    models = ("random_forest",) if classifiers else ()
    target = table.schema.target
    real, test = rows.decode(rng), held_out.decode(rng)
    scores = score(synthetic, real, SCORED_STRATA, held_out=test, target=target, classifiers=models, baseline=False)
    return Run(cost, scores)


def spread(values: Sequence[float], digits: int) -> str:
    """The median, and half the range if there is one.

    >>> spread([1.0, 4.0, 2.0], 1), spread([0.5], 2), spread([], 2)
    ('2.0±1.5', '0.50', '—')
    """
    if not values:
        return "—"
    half = (max(values) - min(values)) / 2
    return f"{median(values):.{digits}f}" + (f"±{half:.{digits}f}" if len(values) > 1 else "")


MEASURES: Mapping[str, tuple[Callable[[Run], float | None], int]] = {
    "seconds": (lambda run: run.cost.seconds, 1),
    "MiB": (lambda run: run.cost.mebibytes, 0),
    "parity": (lambda run: run.scores.parity_error, 3),
    "workload3": (lambda run: run.scores.workload3, 3),
    "by stratum": (lambda run: run.scores.workload3_by_stratum, 3),
    "accuracy": (lambda run: run.scores.accuracy, 3),
}


def values_of(runs: Sequence[Run], measure_name: str) -> list[float]:
    """One measure over the repetitions, those without it left out."""
    read = MEASURES[measure_name][0]
    return [value for value in map(read, runs) if value is not None]


def show(results: Mapping[str, Sequence[Run]], title: str) -> Table:
    """One row per contestant: median ± half the range over repetitions. Fits 100 columns."""
    grid = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    grid.add_column("", no_wrap=True)
    for heading in MEASURES:
        grid.add_column(heading, justify="right", no_wrap=True)
    for name, runs in results.items():
        cells = {m: spread(values_of(runs, m), digits) for m, (_, digits) in MEASURES.items()}
        cells["MiB"] = f"{max(values_of(runs, 'MiB')):,.0f}"
        grid.add_row(name, *cells.values())
    return grid


def frame(results: Mapping[str, Sequence[Run]]) -> pd.DataFrame:
    """Every repetition of every contestant, for a CSV file."""
    rows = [
        {"method": name, "repetition": number}
        | {m: read(run) for m, (read, _) in MEASURES.items()}
        | {"processor seconds": run.cost.cpu_seconds}
        for name, runs in results.items()
        for number, run in enumerate(runs)
    ]
    return pd.DataFrame(rows)


def draw_peers(results: Mapping[str, Sequence[Run]], title: str, path: Path) -> None:
    """Time against error, one point per method with its range: parity error, and 3-way workload error by stratum."""
    from matplotlib import pyplot
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    figure, panels = pyplot.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
    figure.suptitle(title, fontsize=10)
    for axes, measure_name, label in (
        (panels[0], "parity", "parity error of the means"),
        (panels[1], "by stratum", "3-way workload error within strata"),
    ):
        _scatter(axes, results, measure_name)
        axes.set(
            xlabel="seconds to fit and draw (log scale)", ylabel=f"{label} (log scale)", xscale="log", yscale="log"
        )
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
            axis.set_major_formatter(FormatStrFormatter("%g"))
            axis.set_minor_formatter(NullFormatter())
        axes.grid(which="both", alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    panels[1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    save_figure(figure, path)


def _scatter(axes: Axes, results: Mapping[str, Sequence[Run]], measure_name: str) -> None:
    methods = list(dict.fromkeys(_method(name) for name in results))
    for name, runs in results.items():
        x, y = values_of(runs, "seconds"), values_of(runs, measure_name)
        colour = COLOURS[methods.index(_method(name)) % len(COLOURS)]
        axes.errorbar(
            median(x), median(y), xerr=_range(x), yerr=_range(y), label=name, color=colour, markersize=8, capsize=2,
            marker="s" if "_vanilla" in name else "o", linestyle="none", zorder=3,
        )  # fmt: skip


def _method(name: str) -> str:
    """A contestant without its strata, which share its colour."""
    return name.split("_")[0] + name.partition(",")[2]


def _range(values: Sequence[float]) -> list[list[float]]:
    return [[median(values) - min(values)], [max(values) - median(values)]]


def draw_strata(
    results: Mapping[str, Sequence[Run]], labels: Mapping[str, str], words: Mapping[str, str], title: str, path: Path
) -> None:
    """Error of the means in each stratum by some contestants (name → label), the first for the order: in the README.

    `words`: a stratum's label → its name for people.
    """
    from matplotlib import pyplot
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    figure, axes = pyplot.subplots(figsize=(8, 4.8), layout="constrained")
    first = results[next(iter(labels))]
    strata = list(first[0].scores.parity_by_stratum)
    strata.sort(key=lambda key: mean(run.scores.parity_by_stratum[key] for run in first))
    marks = zip(("#b5541c", "#7a4f9e", "#1f6f8b"), "s^o", strict=True)
    for (name, label), (colour, marker) in zip(labels.items(), marks, strict=False):
        errors = [mean(100 * run.scores.parity_by_stratum[key] for run in results[name]) for key in strata]
        axes.scatter(
            errors, [words.get(key, key) for key in strata], label=label, color=colour, s=45, marker=marker, zorder=3
        )
    axes.set_xscale("log")
    axes.set_xlabel("error of the means in the stratum (mean over columns and runs; log scale)")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
    axes.xaxis.set_major_formatter(FormatStrFormatter("%g %%"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="x", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(
        title=title, frameon=False, loc="outside upper left", ncols=len(labels), fontsize=9, columnspacing=1.5
    )
    save_figure(figure, path)


def save_figure(figure: object, path: Path) -> None:
    """Write a figure, in a folder that is made if it is not there, and close it."""
    from matplotlib import pyplot
    from matplotlib.figure import Figure

    assert isinstance(figure, Figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
