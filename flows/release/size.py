"""Size before price: what a release will take, said or refused before it is charged. From the schema and settings alone.

>>> in_words(50), in_words(600), in_words(10_000), in_words(400_000)
('a minute', '10 minutes', '3 hours', '5 days')
"""

from __future__ import annotations

import os
from math import comb, sqrt
from pathlib import Path
from typing import TYPE_CHECKING

from equistrata.errors import InputError

if TYPE_CHECKING:
    from equistrata.flows.release.plan import Plan

LONG = 120.0  # seconds that are worth a warning
MOST_DAYS = 14  # nobody waits longer, and the estimate is wrong by less than what that leaves
ERROR = 3  # times: as wrong as an estimate of seconds mostly is
_TRIPLE = (
    1.5e-3  # seconds to score a set of three columns, over all rows and within strata, in tables of some 20,000 rows
)
_TRIPLE_BYTES = 80
_DRAWN = 1e-7  # seconds to draw, decode and write a cell of the synthetic rows (docs/performance.md: a second for 10⁶ rows of ten)
_MEAN = 3e-9, 5e-3  # seconds of a mean: for the cube of the strata, and for each
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_AWAY = "use fewer columns, coarser values or bins, or fewer strata"


def check(plan: Plan) -> None:
    """Raise InputError if the release cannot be made on this machine, or not in MOST_DAYS."""
    size = plan.size
    scored = comb(len(plan.schema.names), 3) * _TRIPLE_BYTES if plan.config.evaluate != "none" else 0
    memory = max(size.memory * min(plan.config.workers, size.fits), size.together, scored)
    have = available_memory()
    if plan.config.cluster is None and have is not None and memory > have:
        raise InputError(
            f"the release needs about {memory / 2**30:,.3g} GiB of memory and this machine has {have / 2**30:,.3g}: {_what(plan)}; {_way_out(plan)}"
        )
    if _drawing(plan) > MOST_DAYS * 86_400:
        raise InputError(
            f"drawing {_rows(plan):,} rows would take about {in_words(_drawing(plan))}; draw fewer (--rows)"
        )
    if seconds(plan) > MOST_DAYS * 86_400:
        raise InputError(f"the release would take about {in_words(seconds(plan))}: {_what(plan)}; {_way_out(plan)}")


def check_audit(columns: int, releases: int) -> None:
    """Raise InputError if an audit, which compares every set of three columns, cannot be made on this machine or in MOST_DAYS."""
    sets, have = comb(columns, 3), available_memory()
    if sets * _TRIPLE * releases > MOST_DAYS * 86_400 or (have is not None and sets * _TRIPLE_BYTES > have):
        raise InputError(
            f"an audit compares every three columns, and of {columns:,} columns these are {sets:,} sets: too many for this "
            "machine; release and audit fewer columns"
        )


def warning(plan: Plan) -> str | None:
    """A sentence about a release that takes long; None for any other."""
    long = seconds(plan)
    if long < LONG:
        return None
    return f"this takes up to about {in_words(long)} (give or take a factor of {ERROR}): {_what(plan)}; for less, {_way_out(plan)}"


def seconds(plan: Plan) -> float:
    """About how long a release takes, without reading rows, and writing no more than it was told to or than noise makes."""
    config, strata = plan.config, len(plan.strata.keys)
    scoring = comb(len(plan.schema.names), 3) * _TRIPLE if config.evaluate != "none" else 0.0
    means = sum(_MEAN[0] * strata**3 + _MEAN[1] * strata for _ in plan.estimates)
    return plan.size.seconds(config.workers) + scoring + means + _drawing(plan)


def _rows(plan: Plan) -> int:
    """The synthetic rows that are asked for; else what noise alone makes of their number: a standard deviation for each stratum."""
    if plan.config.rows is not None:
        return plan.config.rows
    rho = plan.price.counts or plan.price.synthesis
    return int(len(plan.strata.keys) / sqrt(2 * float(rho)))


def _drawing(plan: Plan) -> float:
    return _rows(plan) * len(plan.schema.names) * _DRAWN


def available_memory() -> int | None:
    """Bytes of memory that this process may have: the machine's or its container's. None if nobody says."""
    try:
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, ValueError, OSError):
        found = []
    for path in _LIMITS:
        try:
            found.append(int(Path(path).read_text("ascii")))
        except (OSError, ValueError):  # not there, or "max"
            continue
    return min((each for each in found if each > 0), default=None)


def in_words(seconds: float) -> str:
    """A time for people.

    >>> in_words(3e9)
    '95 years'
    """
    for unit, length in (("year", 31_557_600), ("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:,.0f} {unit}s"
    return "a minute"


def _what(plan: Plan) -> str:
    size, strata = plan.size, len(plan.strata.keys)
    fits = f"{size.fits:,} fits" if size.fits > 1 else "one fit"
    return (
        f"{plan.mechanism.name} over {len(plan.schema.names)} columns in {strata:,} strat{'a' if strata > 1 else 'um'}, {fits}, each of up to "
        f"{size.cells:,} cells and with {size.candidates:,} sets of columns to choose from"
    )


def _way_out(plan: Plan) -> str:
    """What makes most of the difference."""
    if _drawing(plan) > seconds(plan) / 2:
        return "draw fewer rows (--rows)"
    scoring = comb(len(plan.schema.names), 3) * _TRIPLE if plan.config.evaluate != "none" else 0.0
    if scoring > seconds(plan) / 2:
        return "leave the scores out (--evaluate none) or use fewer columns"
    if plan.size.borrowing > seconds(plan) / 2:
        return "use fewer strata, or let none lean on the others (--no-shrinkage)"
    return _AWAY if plan.mechanism.name == "MST" else f"{_AWAY}, or synthesizer mst"
