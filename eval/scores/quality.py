"""A report for notebooks that compares a synthetic table with real rows by scores and three plots.

The report is computed from real rows exactly, so it is internal.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.strata import Strata
from equistrata.errors import InputError
from equistrata.eval.scores.scores import COLOUR, MOST_DRAWN, Scores, score
from equistrata.eval.scores.tables import TableLike, code_with_same_schema
from equistrata.eval.scores.weighted import without_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WARNING = "exact: computed from real rows at no cost; internal, not to be published"


@dataclass(frozen=True, eq=False)
class QualityReport:
    """A comparison of a synthetic table with real rows. It is exact, so it is internal and not private.

    Attributes
    ----------
    scores : Scores
        The scores of the synthetic table.
    columns : tuple of str
        The columns of the tables.
    pairs : ndarray of shape (n_columns, n_columns)
        The total variation distance of each pair of columns, in [0, 1]. The diagonal contains the distances of the
        single columns.
    """

    scores: Scores
    columns: tuple[str, ...]
    pairs: Floats

    def plot(self) -> Figure:
        """Plot the distance of each column, of each stratum and of each pair of columns in three panels."""
        from matplotlib.figure import Figure

        by_column, strata = self.scores.distance_by_column, len(self.scores.distance_by_stratum)
        high = 1.4 + 0.22 * max(min(strata, MOST_DRAWN), len(self.columns))
        figure = Figure(figsize=(14, max(high, 3.5)), layout="constrained")
        first, second, third = figure.subplots(1, 3)
        worst = sorted(by_column, key=lambda name: by_column[name])
        first.barh(worst, [by_column[name] for name in worst], color=COLOUR)
        first.set_title("columns: distance, summed over strata", fontsize=10)
        self.scores.plot(second)
        second.set_title("strata", fontsize=10)
        image = third.imshow(self.pairs, vmin=0, cmap="viridis")
        third.set_xticks(range(len(self.columns)), self.columns, rotation=90)
        third.set_yticks(range(len(self.columns)), self.columns)
        third.set_title("pairs of columns: total variation", fontsize=10)
        figure.colorbar(image, ax=third, shrink=0.8)
        figure.suptitle(WARNING, fontsize=9, color="#a00000")
        return figure

    def _repr_html_(self) -> str:
        """Return the scores and the plots as HTML for notebooks."""
        drawn = io.BytesIO()
        self.plot().savefig(drawn, format="png", dpi=90)
        picture = base64.b64encode(drawn.getvalue()).decode()
        return f'{self.scores._repr_html_()}<img alt="three plots" src="data:image/png;base64,{picture}">'

    def save(self, path: str | Path) -> None:
        """Write the report as an HTML page.

        Parameters
        ----------
        path : str or Path
            The file to write, which must not exist.

        Raises
        ------
        InputError
            If the file exists or cannot be written.
        """
        page = f"<!doctype html><meta charset=utf-8><title>Quality</title><p>{WARNING}</p>{self._repr_html_()}"
        try:
            with Path(path).open("x", encoding="utf-8") as file:
                file.write(page)
        except FileExistsError:
            raise InputError(f"{str(path)!r} exists already; choose another file") from None
        except OSError as error:
            raise InputError(f"{str(path)!r} cannot be written ({(error.strerror or '').lower()})") from None


def quality_report(
    real: TableLike, synthetic: TableLike, strata: Strata | Sequence[str] = (), **settings: Any
) -> QualityReport:
    """Compare a synthetic table with real rows by scores and plots.

    Parameters
    ----------
    real, synthetic : CodedTable or DataFrame
        The rows to compare.
    strata : Strata or sequence of str, default=()
        The strata, or the columns that define them.
    **settings
        The other parameters of `equistrata.score`, such as `held_out` and `target` for classifiers.

    Returns
    -------
    QualityReport
        The scores and the distances of all pairs of columns.

    Raises
    ------
    InputError
        If `equistrata.score` raises it.

    Privacy
    -------
    Not private. The report is exact, so it is internal.
    """
    columns = strata.columns if isinstance(strata, Strata) else tuple(strata)
    scores = score(real, synthetic, strata, **settings)
    tables = {"real": real, "synthetic": synthetic}
    if settings.get("survey_weight") is not None:
        without_weights(tables, settings["survey_weight"])
    coded = code_with_same_schema(tables, columns)
    names = coded["real"].schema.names
    distances = np.zeros((len(names), len(names)))
    for i, j in [(i, i) for i in range(len(names))] + list(combinations(range(len(names)), 2)):
        shares = [table.marginal(sorted({names[i], names[j]})) / max(len(table), 1) for table in coded.values()]
        distances[i, j] = distances[j, i] = np.abs(shares[0] - shares[1]).sum() / 2
    return QualityReport(scores, names, distances)
