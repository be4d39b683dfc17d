"""The people of a release that is a month of a panel: whom it follows, from which release, and what it buys for that.

A panel links a person's row of the month before to that of this month by a column of ids, which both tables have and no
release has. What is bought are noisy joint counts of two months (`equistrata.synth.series.transitions`), and nothing
where they would be below the noise floor, or in the month in which the panel begins. See docs/proofs/panel.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from equistrata.data.schema import Schema
from equistrata.data.sources import FileSource, Source
from equistrata.data.units.unit import Unit
from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.series import FormerRelease, SeriesMonth
from equistrata.synth.foreign.smartnoise import NAME_PREFIX
from equistrata.synth.series.panel import IDS, Panel, read_ids
from equistrata.synth.series.state import alike
from equistrata.synth.series.transitions import worth_measuring


@dataclass(frozen=True, eq=False)
class PanelMonth:
    """A release as a month of a panel.

    Attributes:
        id: the column that names persons.
        named: the columns in which people are to change as the table's do.
        measured: those of which transitions are measured in this month.
        former: the release of the month before, if it has a panel; else the panel begins in this month.
        source: where that month's rows are; None where nothing is measured.
    """

    id: str
    named: tuple[str, ...]
    measured: tuple[str, ...] = ()
    former: FormerRelease | None = None
    source: Source | None = None

    @property
    def columns(self) -> list[str]:
        """The columns to read of the month before's rows."""
        return [*self.measured, self.id]

    @property
    def warning(self) -> str | None:
        """A sentence about columns of which nothing is measured, if there are any."""
        if self.former is None or len(self.measured) == len(self.named):
            return None
        left = ", ".join(name for name in self.named if name not in self.measured)
        return (
            f"how {left} changes is not measured in this month, since noise would hide it (or its values are others "
            "than before); nothing is spent on it, and people change as former months and the two months' rows say"
        )

    def bound(self) -> Any:
        """What a charge is bound to: plain values."""
        return [self.id, self.named, self.measured, None if self.former is None else self.former.panel_digest]


def panel_of(
    config: ReleaseConfig, declared: Schema, schema: Schema, unit: Unit, month: SeriesMonth | None, price: float
) -> PanelMonth | None:
    """The panel that a configuration asks for, if any. Nothing is read of the rows.

    Args:
        declared, schema: of the table, and of the released columns.
        unit: of privacy.
        month: of the series.
        price: ρ of the month.

    Raises:
        InputError: a column that cannot serve, a unit that is no person, or no table of the month before.
    """
    settings = config.panel
    if settings.id is None or month is None:
        return None
    _check_person(config, settings.id, schema, unit)
    for name in settings.columns:
        _check_named(name, schema, declared)
    former = month.former
    if former is None or former.panel is None:
        return PanelMonth(settings.id, settings.columns)
    _check_ids(former, former.panel)
    sizes = {name: schema[name].size for name in settings.columns if name in alike(schema, former.schema)}
    rho = price * settings.share / unit.histogram_cost
    people, left = former.panel.came + former.panel.stayed, month.series.horizon - month.number + 1
    measured = worth_measuring(sizes, rho, people, left)
    if not measured:
        return PanelMonth(settings.id, settings.columns, (), former)
    if settings.input is None:
        raise InputError(
            f"a panel follows people from the table that release {former.release!r} was made from; name that one with "
            "--panel-input"
        )
    source = FileSource.of(settings.input, declared)
    return PanelMonth(settings.id, settings.columns, measured, former, source)


def _check_person(config: ReleaseConfig, name: str, schema: Schema, unit: Unit) -> None:
    """Raise InputError unless the column names persons, one row each, who are the units, and is not released."""
    if name in (*schema.names, *schema.cells) or name in config.means:
        raise InputError(
            f"the panel's column {name!r} names people, and is among the released columns or the means; leave it out "
            "of these (columns, means), or name another one"
        )
    if unit.column is not None and not (unit.column == name and unit.unique):
        raise InputError(
            f"a panel follows persons with one row a month each, and the unit of privacy is {unit.words}; leave the "
            f"unit out, or let it be {name!r} without at_most"
        )
    if config.synthesizer.startswith(NAME_PREFIX):
        raise InputError(
            f"synthesizer {config.synthesizer!r} accounts for its rows in its own way, to which transitions of people "
            "do not add up; choose mst, aim or gem for a panel"
        )


def _check_ids(former: FormerRelease, panel: Panel) -> None:
    """Raise InputError unless the month before has an id for each of its rows."""
    rows = pq.read_metadata(former.folder / "synthetic.parquet").num_rows
    if not len(read_ids(former.folder / IDS)) == panel.came + panel.stayed == rows:
        raise InputError(
            f"release {str(former.folder)!r} does not have an id for each of its rows, so its people cannot be "
            "followed; bring the whole folder back from where it was published"
        )


def _check_named(name: str, schema: Schema, declared: Schema) -> None:
    if name not in schema.names:
        raise InputError(
            f"the panel's column {name!r} is not among the released columns ({', '.join(schema.names)}); name others "
            "with --panel-columns"
        )
    column = schema[name]
    opened = name in declared.names and declared[name].open
    if opened or len(column.cells) > 1:
        what = "has open values" if opened else "lies within another column"
        raise InputError(f"the panel's column {name!r} {what}, and its changes cannot be measured; name others")
