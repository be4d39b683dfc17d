"""Plots of a release for notebooks. Each function draws on matplotlib axes and returns them. Plots cost no privacy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from equistrata.analysis.expected import Expected

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from equistrata.analysis.release import Release

MOST_BARS = 40  # the maximum number of groups, or values of a column, that are shown


def axes_or_new(axes: Axes | None, rows: int = 8) -> Axes:
    """Return the given axes, or new axes with enough height for the given number of lines of text."""
    if axes is not None:
        return axes
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(7.2, 1.2 + 0.3 * min(max(rows, 4), MOST_BARS)), layout="constrained")[1]


def plot_groups(release: Release, axes: Axes | None = None) -> Axes:
    """Plot the expected error of each group's released distributions, with the largest error at the top.

    Groups with an unknown error come first and have no bar. The error is unknown if the rows of a group may be noise.
    """
    expected, strata = Expected.of(release.answers.evidence, release.answers), release.strata
    names = [strata.words(key) if key else "all rows" for key in strata.keys]
    found = expected.distances
    known = expected.covered if strata.columns else np.ones(1, dtype=bool)
    order = sorted(range(len(names)), key=lambda place: (not known[place], float(found[place].mean())))[-MOST_BARS:]
    axes = axes_or_new(axes, len(order))
    places = [at for at, place in enumerate(order) if known[place]]
    shown = found[[order[at] for at in places]]
    axes.barh(places, shown.mean(1), color="#1f6f8b", label="mean of columns")
    axes.scatter(shown.max(1), places, color="black", s=12, zorder=2, label="worst column")
    for at, place in enumerate(order):
        if not known[place]:
            axes.annotate("  not known", (0, at), va="center", fontsize="small")
    axes.set_yticks(range(len(order)), [names[place] for place in order])
    axes.set(xlabel="expected distance between released and real distributions", xlim=(0, None))
    axes.set_ylim(-0.6, len(order) - 0.4)
    axes.legend(frameon=False, loc="lower right")
    return axes


def plot_marginal(
    release: Release, column: str, by: str | Sequence[str] = (), axes: Axes | None = None, level: float = 0.95
) -> Axes:
    """Plot the estimated shares of a column's values with their intervals, for all rows or by group."""
    groups = [by] if isinstance(by, str) else list(by)
    found = release.estimate("proportion", column, by=groups, level=level)
    found = found[found["estimate"].notna()]
    found["value"] = _words(release, found[column], column)
    values = list(dict.fromkeys(found["value"]))[:MOST_BARS]
    parts = dict(list(found.groupby(_labels(release, found, groups), sort=False))) if groups else {"": found}
    axes = axes_or_new(axes, len(values) * max(len(parts), 1) // 2)
    height = 0.8 / len(parts)
    for place, (name, part) in enumerate(parts.items()):
        part = part[part["value"].isin(values)]
        at = np.array([values.index(value) for value in part["value"]]) + (place - (len(parts) - 1) / 2) * height
        around = np.abs(part[["lower", "upper"]].to_numpy(float).T - part["estimate"].to_numpy(float))
        axes.barh(at, part["estimate"], height, xerr=around, label=name or None, error_kw={"linewidth": 1})
    axes.set_yticks(range(len(values)), values)
    axes.invert_yaxis()
    axes.set(xlabel=f"share of rows, and its {level:.0%} interval", ylabel=column, xlim=(0, None))
    if groups:
        axes.legend(title=" × ".join(groups), frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return axes


def plot_pair(release: Release, column: str, other: str, axes: Axes | None = None) -> Axes:
    """Plot the estimated shares of a column's values within each value of another column as a heat map."""
    found = release.estimate("proportion", column, by=other)
    found[column], found[other] = _words(release, found[column], column), _words(release, found[other], other)
    table = found.pivot_table(index=column, columns=other, values="estimate", sort=False, observed=True)
    axes = axes_or_new(axes, len(table))
    image = axes.imshow(table.to_numpy(dtype=float), aspect="auto", cmap="viridis", vmin=0)
    axes.set_yticks(range(len(table)), [str(name) for name in table.index])
    axes.set_xticks(
        range(table.shape[1]), [str(name) for name in table.columns], rotation=45, ha="right", rotation_mode="anchor"
    )
    axes.set(xlabel=other, ylabel=column)
    axes.figure.colorbar(image, ax=axes, label=f"share within {other}")
    return axes


def _labels(release: Release, found: pd.DataFrame, groups: Sequence[str]) -> pd.Series[Any]:
    """Return the name of each row's group in words."""
    if not groups:
        return pd.Series("all rows", index=found.index)
    words = [_words(release, found[name], name) for name in groups]
    return pd.Series([", ".join(each) for each in zip(*words, strict=True)], index=found.index)


def _words(release: Release, values: pd.Series[Any], column: str) -> list[str]:
    """Return the words of a column's released values."""
    declared = release.schema[column]
    return [declared.words(value) if value in declared.keys else str(value) for value in values]
