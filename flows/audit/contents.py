"""The content of a release for its audit page: a few synthetic rows, the files, and the means.

No private data are read.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from equistrata.analysis.release import Release
from equistrata.data.texts.manifest import listed
from equistrata.eval.report.bars import Contents
from equistrata.eval.report.tables import Table
from equistrata.eval.report.words import percent

ROWS = 8
MEANINGS = {
    "synthetic.parquet": "the synthetic rows",
    "synthetic.csv": "the synthetic rows, as text",
    "cells.csv": "counts with intervals",
    "controls.csv": "public totals of people, which the weights meet",
    "means.json": "private means with intervals",
    "card.md": "price, method, limits",
    "card.json": "the card, for programs",
    "schema.json": "what columns and codes mean",
}
FOLDERS = {"measurements/": "the noisy marginals", "models/": "the fitted model and its replicates"}


def contents_of(release: Release) -> Contents:
    """Return the content of a release."""
    return Contents(_rows(release), _files(release.folder), means_in(release))


def _rows(release: Release) -> Table:
    """Return a few evenly spaced rows, because the rows are sorted by stratum."""
    rows = release.rows()
    some = rows.iloc[np.unique(np.linspace(0, len(rows) - 1, min(ROWS, len(rows))).astype(int))]
    for column in release.schema.columns:
        if column.name in some and column.edges and column.release == "index":  # bins are released by their index
            words = ["" if pd.isna(place) else column.words(place) for place in some[column.name]]
            some = some.assign(**{column.name: words})
    called = {column.name: column.label or column.name for column in release.schema.columns}
    cells = (("" if pd.isna(value) else str(value) for value in row) for row in some.itertuples(index=False))
    caption = f"{len(some)} of {len(rows):,} synthetic rows"
    return Table(caption, tuple(called.get(name, name) for name in rows.columns), tuple(map(tuple, cells)))


def _files(folder: Path) -> Table:
    found = listed(folder, f"release {str(folder)!r}")
    kept = [name for name in found if "/" not in name]
    lines = [(name, MEANINGS.get(name, ""), _size(found[name]["bytes"])) for name in kept]
    for folder_name, meaning in FOLDERS.items():
        inner = [found[name]["bytes"] for name in found if name.startswith(folder_name)]
        if inner:
            lines.append((folder_name, meaning, _size(sum(inner))))
    return Table(f"Files of the folder {folder.resolve().name}", ("file", "what it is", "size"), tuple(lines))


def means_in(release: Release) -> Table | None:
    """Return a table of the private means of a release, or None if there are none."""
    means = release.private_means
    if means is None:
        return None
    called = release.card.get("called", {})  # includes the columns of means, which the rows may not have
    lines = [
        (
            called.get(name, name) + (f", {estimator.replace('_', ' ')}" if len(estimates) > 1 else ""),
            f"{each['value']:.5g}",
            f"{each['lower']:.5g} to {each['upper']:.5g} ({percent(each['level'])})",
        )
        for name, estimates in means["outcomes"].items()
        for estimator, each in estimates.items()
    ]
    return Table("Private means", ("column", "mean", "interval"), tuple(lines))


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{max(count / 1e3, 0.1):.1f} kB"
