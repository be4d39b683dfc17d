"""Estimates of the time and the memory of a release from its schema and settings.

A release that is too large is refused before it is charged.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import comb
from pathlib import Path

from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.run.disk import free_bytes
from equistrata.synth.size import Size

# The times are measured on one core. See docs/experiments/sizes.md for the accuracy of the estimates.
LONG_SECONDS = 120.0  # a release that takes longer gets a warning
MOST_SECONDS = 14 * 86_400.0  # a release that takes longer is refused
ERROR_FACTOR = 3  # the factor by which most estimates of the time may be wrong
TRIPLE_SECONDS = 1.5e-3  # time to score three columns over all rows and by stratum, in tables of 20,000 rows
TRIPLE_BYTES = 80
CELL_SECONDS = 1e-7  # time to draw, decode and write one cell of the synthetic rows
CELL_BYTES = 2  # lower bound for the size of a cell of the synthetic rows in a CSV file
HELD_BYTES = 3  # lower bound for the memory per cell if totals are given, because there are three copies of the rows
MEAN_SECONDS = 3e-9, 5e-3  # time for a mean, per cube of the number of strata and per stratum
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(frozen=True)
class ResourceEstimate:
    """The quantities that determine the time and the memory of a release.

    Attributes
    ----------
    config : ReleaseConfig
        The settings.
    size : Size
        The size of the fits.
    mechanism : str
        The name of the mechanism.
    columns, strata, means : int
        The numbers of columns, strata and means.
    rows : int
        Lower bound for the number of synthetic rows.
    """

    config: ReleaseConfig
    size: Size
    mechanism: str
    columns: int
    strata: int
    means: int
    rows: int

    def check(self) -> None:
        """Check that the release does not need too much time, memory or disk space.

        Raises
        ------
        InputError
            If the release needs more memory or disk space than is available, or if it takes longer than MOST_SECONDS.
        """
        scored = comb(self.columns, 3) * TRIPLE_BYTES if self.config.evaluate != "none" else 0
        held = self.rows * self.columns * HELD_BYTES if self.config.controls is not None else 0
        memory = max(self.size.memory * min(self.config.workers, self.size.fits), self.size.together, scored, held)
        # The memory of a cluster is unknown, because the fits may run on other machines.
        have = available_memory() if self.config.cluster is None else None
        if have is not None and memory > have:
            raise InputError(
                f"the release needs about {memory / 2**30:,.3g} GiB of memory and this machine has "
                f"{have / 2**30:,.3g}: {self._what}; {self._way_out}"
            )
        if self._drawing > MOST_SECONDS:
            raise InputError(
                f"drawing {self.rows:,} rows would take about {in_words(self._drawing)}; draw fewer (--rows)"
            )
        if self.seconds > MOST_SECONDS:
            raise InputError(f"the release would take about {in_words(self.seconds)}: {self._what}; {self._way_out}")
        wanted, place = self.rows * self.columns * CELL_BYTES, Path(self.config.output).absolute().parent
        if wanted > (left := free_bytes(str(place))):
            noisy = (
                "at this ε their number is noise, so raise epsilon, or "
                if self.config.rows is None and not self.config.expand
                else ""
            )
            raise InputError(
                f"about {self.rows:,} rows would need {wanted / 2**30:,.3g} GiB or more, and {left / 2**30:,.3g} are "
                f"free on the disk of {str(place)!r}; {noisy}draw fewer (--rows)"
            )

    @property
    def warning(self) -> str | None:
        """A sentence about the time of the release. If it is not a long time, this is None."""
        if self.seconds < LONG_SECONDS:
            return None
        return (
            f"this takes up to about {in_words(self.seconds)} (give or take a factor of {ERROR_FACTOR}): {self._what}; "
            f"for less, {self._way_out}"
        )

    @property
    def seconds(self) -> float:
        """The estimated time of the release in seconds, without the time to read the rows."""
        cubed, each = MEAN_SECONDS
        means = self.means * (cubed * self.strata**3 + each * self.strata)
        return self.size.seconds(self.config.workers) + self._scoring + means + self._drawing

    @property
    def _scoring(self) -> float:
        return comb(self.columns, 3) * TRIPLE_SECONDS if self.config.evaluate != "none" else 0.0

    @property
    def _drawing(self) -> float:
        return self.rows * self.columns * CELL_SECONDS

    @property
    def _what(self) -> str:
        fits = f"{self.size.fits:,} fits" if self.size.fits > 1 else "one fit"
        # A mixture does not have any cells.
        cells = f"of up to {self.size.cells:,} cells and " if self.size.cells else ""
        return (
            f"{self.mechanism} over {self.columns} columns in {self.strata:,} strat{'a' if self.strata > 1 else 'um'}, "
            f"{fits}, each {cells}with {self.size.candidates:,} sets of columns to "
            "choose from"
        )

    @property
    def _way_out(self) -> str:
        """Return the setting that has the largest effect on the time."""
        if self._drawing > self.seconds / 2:
            return "draw fewer rows (--rows)"
        if self._scoring > self.seconds / 2:
            return "leave the scores out (--evaluate none) or use fewer columns"
        if self.size.borrowing > self.seconds / 2:
            return "use fewer strata, or no shrinkage (--no-shrinkage)"
        fewer = "use fewer columns, coarser values or bins, or fewer strata"
        return fewer if self.mechanism == "MST" else f"{fewer}, or synthesizer mst"


def check_audit(columns: int, releases: int) -> None:
    """Raise an InputError if an audit needs too much time or memory, because it compares all sets of three columns."""
    sets, have = comb(columns, 3), available_memory()
    if sets * TRIPLE_SECONDS * releases > MOST_SECONDS or (have is not None and sets * TRIPLE_BYTES > have):
        raise InputError(
            f"an audit compares all sets of three columns, and {columns:,} columns have {sets:,} such sets, "
            "which is too many for this machine; release and audit fewer columns"
        )


def available_memory() -> int | None:
    """Return the number of bytes of memory that this process can use, from the machine or the limit of its container.

    If it is unknown, return None.
    """
    try:
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, ValueError, OSError):
        found = []
    for path in _LIMITS:
        try:
            found.append(int(Path(path).read_text("ascii")))
        except (OSError, ValueError):  # the file does not exist or contains "max"
            continue
    return min((each for each in found if each > 0), default=None)


def in_words(seconds: float) -> str:
    """Return a time in words."""
    for unit, length in (("year", 31_557_600), ("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:,.0f} {unit}s"
    return "a minute"
