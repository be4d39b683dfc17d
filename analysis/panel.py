"""The people of a panel as a reader has them: their ids, and whether what a month says of them holds.

A month's panel is checked by its own folder (price, ids, people), and against the month before (who stayed, how they
changed, what all months know of transitions). All of it is computed again, and in whole numbers where it can be.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import astuple

import numpy as np
import pandas as pd

from equistrata.analysis.axes import named
from equistrata.analysis.headings import IN_PEOPLE, heading
from equistrata.analysis.release import Release
from equistrata.data.table import CodedTable
from equistrata.synth.series.changed import Seen
from equistrata.synth.series.identities import NOBODY, realised
from equistrata.synth.series.panel import ID, IDS, PANEL, Panel, read_ids
from equistrata.synth.series.state import State, alike
from equistrata.synth.series.transitions import joined, keeping

TRANSITIONS = "transitions of people"  # as the card's split of ρ calls what was paid for them
SAME = 1e-9  # relative


def panel_of(release: Release) -> Panel | None:
    """Its panel, if it has one. Raises InputError if that cannot be read."""
    return Panel.load(release.folder / PANEL) if (release.folder / PANEL).exists() else None


def ids_of(release: Release) -> list[str]:
    """The id of each of its rows. Raises InputError if it has no panel, or the file is not that."""
    return read_ids(release.folder / IDS)


def transitions_price(release: Release) -> float:
    """What its measured transitions cost a person, by their σ. Raises InputError if the panel cannot be read."""
    panel = panel_of(release)
    measured = () if panel is None else panel.measured
    return release.unit.histogram_cost * sum(1 / (2 * each.sigma**2) for each in measured)


def price_fault(release: Release) -> Iterator[str]:
    """What is wrong with the price of transitions on the card."""
    cost, said = transitions_price(release), release.card["guarantee"]["split_of_rho"].get(TRANSITIONS, 0.0)
    if not math.isclose(cost, said, rel_tol=SAME, abs_tol=1e-15):
        yield f"{TRANSITIONS} cost ρ = {cost:.6g} at their σ, but the card says {said:.6g}"


def people_faults(release: Release) -> Iterator[str]:
    """What is wrong with a month's panel, by its own folder. Raises InputError where it cannot be read."""
    panel, said = panel_of(release), release.card.get("panel")
    if panel is None or said is None:
        if (panel is None) != (said is None):
            yield "the card and the folder do not agree on whether there is a panel"
        return
    told = {name: value for name, value in said.items() if name != "id"}
    if told not in (panel.summary(), panel.earlier_summary()):
        yield f"what the card says of its people is not what {PANEL} says"
    series = release.card.get("series") or {}
    if panel.month != series.get("month"):
        yield f"{PANEL} is of another month than the card"
    ids = ids_of(release)
    if len(ids) != release.card["rows"] or len(ids) != panel.came + panel.stayed:
        yield f"{IDS} has not as many people as there are rows, or as {PANEL} says"
    new = {f"m{panel.month}-{number}" for number in range(1, panel.came + 1)}
    if not new <= set(ids) or sum(name.startswith(f"m{panel.month}-") for name in ids) != panel.came:
        yield f"the new people of {IDS} are not those that {PANEL} says"


def chain_faults(release: Release, before: Release | None) -> Iterator[str]:
    """What is wrong with how a month's people follow from those of the month that it names, if that is there."""
    panel = panel_of(release)
    if panel is None or panel.former is None or before is None:
        return
    former, path = panel_of(before), before.folder / PANEL
    if former is None or hashlib.sha256(path.read_bytes()).hexdigest() != panel.former["panel"]:
        yield f"follows people of another month {panel.former['month']} than is there"
        return
    then, ids = ids_of(before), ids_of(release)
    place = {name: at for at, name in enumerate(then)}
    partner = np.array([place.get(name, NOBODY) for name in ids], dtype=np.intp)
    stayed = int((partner != NOBODY).sum())
    if (stayed, len(then) - stayed) != (panel.stayed, panel.left):
        yield f"{IDS} does not follow the people of the month before as {PANEL} says"
        return
    names = alike(release.schema, before.schema)
    known = None if former.state is None else keeping(former.state, names)
    state = joined(known, panel.month, panel.measured) if panel.measured or known is not None else None
    if not same_state(panel.state, state):
        yield f"what {PANEL} knows of transitions does not follow from the month before and what was measured"
    both = (before, release)
    codes = [CodedTable.encode(each.rows(labels=False), each.schema.coded()).select(names).codes for each in both]
    for name, counts in panel.realised.items():
        size = release.schema[name].size if name in names else 0
        if counts.shape != (size, size) or not np.array_equal(
            counts, realised(partner, codes[0], codes[1], names.index(name), size)
        ):
            yield f"people of {IDS} do not change in {name!r} as {PANEL} says: an id, a row or a count was edited"


def rows_of_people(releases: Mapping[int, Release], labels: bool = False) -> pd.DataFrame | None:
    """See `equistrata.analysis.series.releases.SeriesOfReleases.people`; None if no month has a panel."""
    found = []
    for month, release in releases.items():
        if panel_of(release) is not None:
            lines = release.rows(labels)
            words = {name: object for name in lines.columns if isinstance(lines[name].dtype, pd.CategoricalDtype)}
            lines = lines.astype(words).rename(
                columns=lambda name: heading(name, IN_PEOPLE)
            )  # months may declare other values
            lines.insert(0, "month", month)
            lines.insert(0, ID, ids_of(release))
            found.append(lines)
    if not found:
        return None
    every = pd.concat(found, ignore_index=True)
    came = every[ID].str.extract(r"^m(\d+)-(\d+)$").astype(int)
    return every.iloc[np.lexsort((every["month"], came[1], came[0]))].reset_index(drop=True)


def shown_transitions(releases: Mapping[int, Release]) -> pd.DataFrame:
    """See `equistrata.analysis.series.releases.SeriesOfReleases.transitions`."""
    lines = []
    for month, panel in following(releases):
        said = panel.summary()
        month_of = {"month": month, "since": said["former"], **said["people"]}
        told = {each["column"] for each in said["columns"]}
        other = [{"column": name, "realised": panel.changed_rows(name)} for name in panel.realised if name not in told]
        lines += [{**month_of, **each} for each in [*said["columns"], *other] or [{}]]
    names = ["month", "since", "stayed", "left", "came", "column", "measured", "low", "high", "expected", "realised"]
    found = pd.DataFrame(lines, columns=names)
    return found.fillna({"low": 0.0, "high": 1.0}).infer_objects()


def shown_cells(releases: Mapping[int, Release]) -> pd.DataFrame:
    """See `equistrata.analysis.series.releases.SeriesOfReleases.transition_cells`."""
    lines = []
    for month, panel in following(releases):
        assert panel.former is not None
        for seen in Seen.of(panel.measured):
            words = named(releases[month].schema[seen.column])
            for then, code in np.ndindex(seen.counts.shape):
                share = seen.cell(then, code)
                line = month, panel.former["month"], seen.column, words[then], words[code]
                lines.append((*line, seen.counts[then, code], *astuple(share)))
    names = ["month", "since", "column", "before", "now", "people", "share", "low", "high"]
    return pd.DataFrame(lines, columns=names)


def following(releases: Mapping[int, Release]) -> Iterator[tuple[int, Panel]]:
    """The panels that follow another month's, by month."""
    for month, release in releases.items():
        panel = panel_of(release)
        if panel is not None and panel.former is not None:
            yield month, panel


def same_state(one: State | None, two: State | None) -> bool:
    """Whether states are the same, up to what another machine's arithmetic rounds."""
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
