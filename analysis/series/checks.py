"""Checks of a series of releases: the price of each month, the total price, and the chain of states.

Each month contains the digest of the state that it used, so the chain leads back to the measurements of the first
month. A state is computed from the previous state and the measurements of the month, and the check computes it again.
No model is fitted, so a series of ten years can be checked in seconds.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from equistrata.analysis.checks.statements import own_price
from equistrata.analysis.contents.card import ledger_of
from equistrata.analysis.release import Release
from equistrata.analysis.verify import has_measurements, price_faults
from equistrata.errors import InputError
from equistrata.synth.series.fitting import after
from equistrata.synth.series.state import STATE, State, alike

SAME = 1e-9  # relative tolerance


def series_faults(releases: Mapping[int, Release], horizon: int) -> list[str]:
    """Check a series. See `equistrata.analysis.series.releases.SeriesOfReleases.faults`.

    `releases` contains the releases by month in order.
    """
    found: list[str] = []
    states: dict[int, State | None] = {}
    for month, release in releases.items():
        what = f"month {month} ({str(release.folder)!r})"
        found += [f"{what}: {fault}" for fault in price_faults(release)]
        found += [
            f"{what} {fault}"
            for fault in (
                *_sums(releases, horizon, month, release),
                *_chain(releases, month, release, states),
            )
        ]
    return found


def month_rho(release: Release) -> float:
    """Return the price ρ of a month without the other months, according to its card."""
    return float(own_price(release.card)["rho"])


def _sums(releases: Mapping[int, Release], horizon: int, month: int, release: Release) -> Iterator[str]:
    """Check the total price on the card of a month."""
    series, first = release.card["series"], next(iter(releases.values())).card["series"]
    if series["at_its_end"] != first["at_its_end"]:
        yield "states another budget of the series than the first month"
    month_one, books = next(iter(releases.items()))
    if _books(release) != _books(books):
        yield f"was charged to another ledger or data set than month {month_one}, so their costs cannot be added"
    if not series["so_far"]["rho"] <= series["at_its_end"]["rho"] * (1 + SAME):
        yield "says that the series has cost more than its budget"
    if month > horizon:
        yield f"is beyond the horizon of {horizon} months"
    before = 0.0 if month == 1 else None
    if month - 1 in releases:
        before = float(releases[month - 1].card["series"]["so_far"]["rho"])
    own = series["so_far"]["rho"] - (before or 0.0)
    if before is not None and not math.isclose(own, month_rho(release), rel_tol=1e-6):
        yield f"costs ρ = {month_rho(release):.6g}, but the series grew by {own:.6g}: a release between was not counted"


def _chain(
    releases: Mapping[int, Release], month: int, release: Release, states: dict[int, State | None]
) -> Iterator[str]:
    """Check the state that a month used, and add its own state to `states`."""
    states[month] = None
    if not has_measurements(release):
        return
    state = State.load(release.folder / STATE)
    states[month] = state
    former, known = release.card["series"]["former"], None
    if former is None and month > min(releases):
        yield "has learned from no month before it"
        return
    if former is not None:
        before = releases.get(former["month"])
        if before is None:
            return
        if _digest(before) != former["state"]:
            yield f"has learned from another version of month {former['month']} than the given one"
            return
        schemas, known = (release.strata.schema, before.strata.schema), states.get(former["month"])
        same = alike(*schemas) if known is None else known.alike(*schemas)
        anew = [name for name in release.strata.schema.names if name not in same]
        if former.get("anew", anew) != anew:  # earlier cards do not have this entry
            yield f"does not list the columns for which month {former['month']} has no information"
        known = known and known.fitting(release.strata, before.strata.schema)
    if state.earlier or not _readable(release):
        return
    again = after(release.strata, known, month, release.evidence.measured)[1]
    if not same_state(state, again):
        yield "has a state that does not follow from the month before and its own measurements"


def _readable(release: Release) -> bool:
    """Return True if this version can read the measurements. Otherwise, `price_faults` reports the reason."""
    try:
        release.evidence  # noqa: B018
    except InputError:
        return False
    return True


def same_state(one: State | None, two: State | None) -> bool:
    """Return True if two states are equal up to rounding errors."""
    if one is None or two is None:
        return one is two
    if one.month != two.month or len(one.known) != len(two.known):
        return False
    same = all(
        (a.columns, a.groups, a.where) == (b.columns, b.groups, b.where)
        and np.allclose(a.values, b.values, rtol=1e-6, atol=1e-6)
        and np.allclose(a.sigmas, b.sigmas, rtol=1e-6)
        for a, b in zip(one.known, two.known, strict=True)
    )
    drifts = one.moments.keys() == two.moments.keys()
    return same and drifts and all(np.allclose(one.moments[k], two.moments[k], rtol=1e-6) for k in one.moments)


def _books(release: Release) -> tuple[Any, Any]:
    """Return the ledger and the data set to which a release was charged, according to its card."""
    ledger = ledger_of(release.card)
    return (None, None) if ledger is None else (ledger["ledger"], ledger["dataset"])


def _digest(release: Release) -> str:
    try:
        with (release.folder / STATE).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
