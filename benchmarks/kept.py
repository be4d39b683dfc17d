"""Lines about releases in a CSV file: each release's are added at once, and what is there is not made again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import pandas as pd


class Kept:
    """A file with lines about releases, told by `place` (how they are made) and `seed`; others' lines stay in it.

    Args:
        path: the file; its folder is made if there is none.
        texts: columns of texts that may be empty.
    """

    def __init__(self, path: Path, texts: Sequence[str] = ()) -> None:
        self._path, self._lines = path, pd.DataFrame({"place": [], "seed": []})
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            self._lines = pd.read_csv(path).fillna(dict.fromkeys(texts, ""))

    def has(self, place: str, seed: int) -> bool:
        """Whether there are lines of this release."""
        return bool(((self._lines["place"] == place) & (self._lines["seed"] == seed)).any())

    def add(self, place: str, seed: int, lines: pd.DataFrame) -> None:
        """Add a release's lines, and write the file."""
        new = lines.assign(place=place, seed=seed)[["place", "seed", *lines.columns]]
        self._lines = pd.concat([self._lines, new]) if len(self._lines) else new
        self._lines.to_csv(self._path, index=False)

    def of(self, places: Collection[str]) -> pd.DataFrame:
        """The lines of these places, of this run and of former ones."""
        return self._lines[self._lines["place"].isin(places)]
