"""What a month of a panel publishes beside its rows: `panel.json`, and the ids of its people in `panel.csv`.

>>> first = Panel.beginning(2, 3, 3.2)
>>> first.ids(np.full(3, -1), []), first.came
(['m2-1', 'm2-2', 'm2-3'], 3)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.errors import InputError
from equistrata.synth.measurements import Measurement
from equistrata.synth.series.changed import Seen
from equistrata.synth.series.identities import NOBODY
from equistrata.synth.series.state import UNREADABLE, State
from equistrata.synth.series.transitions import THEN, Transition

PANEL_FORMAT = "equistrata panel 1"
PANEL, IDS, ID = "panel.json", "panel.csv", "synthetic_id"


@dataclass(frozen=True, eq=False)
class Panel:
    """A month of a panel.

    Attributes:
        month: of the series.
        came: people who are new, as all are in the month in which the panel begins.
        table: how many rows the month's table has, as the release estimates it.
        stayed, left: people of the month before who are in this one, and who are not.
        lost: of those who left, how many would have stayed, as it is known: their stratum has too few rows now.
        former: that month's number, its release, and the SHA-256 of its panel; None where the panel begins.
        measured: noisy joint counts of two months, by column.
        state: what all months so far know of transitions; None where nothing was ever measured.
        transitions: what was expected of each column.
        realised: of each column that both months have, numbers of synthetic people by code before and now.
    """

    month: int
    came: int
    table: float
    stayed: int = 0
    left: int = 0
    lost: int = 0
    former: Mapping[str, Any] | None = None
    measured: tuple[Measurement, ...] = ()
    state: State | None = None
    transitions: tuple[Transition, ...] = ()
    realised: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict)

    @classmethod
    def beginning(cls, month: int, rows: int, table: float) -> Panel:
        """The month in which a panel begins, with so many released rows: everybody is new."""
        return cls(month, rows, table)

    def ids(self, partner: npt.NDArray[np.intp], before: Sequence[str]) -> list[str]:
        """The id of each row: that of its partner among the rows before; of new people the month, and a number."""
        new = iter(range(1, self.came + 1))
        return [f"m{self.month}-{next(new)}" if place == NOBODY else before[place] for place in partner]

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        document = {
            "format": PANEL_FORMAT,
            "month": self.month,
            "table": self.table,
            "people": self._counts,
            "former": None if self.former is None else dict(self.former),
            "measured": [
                {"column": each.columns[1], "sigma": each.sigma, "counts": each.values.tolist()}
                for each in self.measured
            ],
            "columns": [
                {"column": each.column, "changed": each.changed, "error": each.error, "expected": each.counts.tolist()}
                for each in self.transitions
            ],
            "realised": {name: counts.tolist() for name, counts in self.realised.items()},
            "state": None if self.state is None else self.state.plain,
        }
        path.write_text(json.dumps(document, separators=(",", ":"), ensure_ascii=False), "utf-8")

    @classmethod
    def load(cls, path: Path) -> Panel:
        """Read what `save` wrote. Raises InputError if the file is not that."""
        try:
            document = json.loads(path.read_text("utf-8"))
            if document["format"] != PANEL_FORMAT:
                raise ValueError
            people = {name: int(document["people"][name]) for name in ("came", "stayed", "left")}
            lost = int(document["people"].get("lost", 0))
            measured = tuple(
                Measurement((THEN.format(each["column"]), each["column"]), _table(each["counts"]), float(each["sigma"]))
                for each in document["measured"]
            )
            expected = tuple(
                Transition(str(each["column"]), _table(each["expected"]), float(each["changed"]), float(each["error"]))
                for each in document["columns"]
            )
            realised = {str(name): _table(counts).astype(np.int64) for name, counts in document["realised"].items()}
            state = None if document["state"] is None else State.of_plain(document["state"])
            former = document["former"]
            _ = former is None or (int(former["month"]), str(former["release_id"]), str(former["panel"]))
            return cls(
                int(document["month"]),
                came=people["came"],
                table=float(document["table"]),
                stayed=people["stayed"],
                left=people["left"],
                lost=lost,
                former=former,
                measured=measured,
                state=state,
                transitions=expected,
                realised=realised,
            )
        except UNREADABLE:
            raise InputError(
                f"{str(path)!r} is no panel of this version; give the folder of a release with a panel"
            ) from None

    def summary(self) -> dict[str, Any]:
        """For a card: people, and of each named column what was measured, what was expected and what came of it.

        `measured` with `low` and `high` (95 %) rest on the month's own joint counts; without any they are None.
        `expected` is what rows were matched to: all months together, drawn towards persistence.
        """
        own = {each.column: each.changed() for each in Seen.of(self.measured)}
        columns = []
        for each in self.transitions:
            seen = own.get(each.column)
            columns.append(
                {
                    "column": each.column,
                    "measured": None if seen is None or np.isnan(seen.estimate) else seen.estimate,
                    "low": None if seen is None else seen.low,
                    "high": None if seen is None else seen.high,
                    "expected": each.changed,
                    "realised": self.changed_rows(each.column),
                }
            )
        return self._of_people() | {"columns": columns}

    def earlier_summary(self) -> dict[str, Any]:
        """As cards before 2026-11-26 have it: `changed` was drawn towards persistence, and its error was not."""
        columns = [
            {
                "column": each.column,
                "changed": each.changed,
                "error": each.error,
                "clear": bool(each.changed > 2 * each.error),
                "realised": self.changed_rows(each.column),
            }
            for each in self.transitions
        ]
        return self._of_people() | {"columns": columns}

    def changed_rows(self, column: str) -> float:
        """The share of synthetic people in both months who have another code of a column now."""
        counts = self.realised[column]
        return float(1 - np.trace(counts) / max(counts.sum(), 1))

    def _of_people(self) -> dict[str, Any]:
        return {"former": None if self.former is None else self.former["month"], "people": self._counts}

    @property
    def _counts(self) -> dict[str, int]:
        people = {"came": self.came, "stayed": self.stayed, "left": self.left}
        return people | ({"lost": self.lost} if self.lost else {})


def write_ids(ids: Sequence[str], path: Path) -> None:
    """Write the id of each row, in the order of `synthetic.csv` and `synthetic.parquet`, rows counted from 1."""
    pd.DataFrame({"row": np.arange(1, len(ids) + 1), ID: list(ids)}).to_csv(path, index=False)


def read_ids(path: Path) -> list[str]:
    """What `write_ids` wrote. Raises InputError if the file is not that, or an id is there twice."""
    try:
        frame = pd.read_csv(path, dtype={ID: str}, keep_default_na=False)
        ids: list[str] = frame[ID].tolist()
        if frame["row"].tolist() != list(range(1, len(frame) + 1)) or len(set(ids)) < len(ids):
            raise ValueError
    except (OSError, ValueError, KeyError):
        raise InputError(
            f"{str(path)!r} does not give each row an id of its own; it was changed, so fetch the release again"
        ) from None
    return ids


def _table(counts: Any) -> npt.NDArray[np.float64]:
    table = np.array(counts, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or not np.isfinite(table).all():
        raise ValueError
    return table
