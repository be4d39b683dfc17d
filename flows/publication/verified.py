"""A release checked from its folder alone: what `equistrata.analysis.verify` finds, and its card and manifest besides.

The card for people is written again from `card.json`. Earlier versions wrote it in other words, so a line that differs
is shown, and is no fault by itself.
"""

from __future__ import annotations

from itertools import zip_longest

from equistrata.analysis.contents.frames import read_json
from equistrata.analysis.release import Release
from equistrata.analysis.verify import faults, unseen
from equistrata.data.files.manifest import listed
from equistrata.errors import InputError
from equistrata.flows.publication.audited_card import unaccounted
from equistrata.flows.release.card.document import RELATIONS
from equistrata.flows.release.card.page import card_markdown

_MOST_SHOWN = 160  # characters of a line


def release_faults(release: Release) -> list[str]:
    """A sentence for each thing that does not hold; none for an honest release."""
    found = faults(release)
    strays = unaccounted(release.card, listed(release.folder, f"release {str(release.folder)!r}"))
    if strays:
        found.append(f"the manifest lists {strays[0]!r}, which is no part of a release, and of no audit on its card")
    return found


def release_unseen(release: Release) -> list[str]:
    """What `release_faults` cannot say anything of."""
    found = unseen(release)
    if (line := _other_line(release)) is not None:
        found.insert(0, f"whether card.md says what card.json does: this version does not write its line {line}")
    relation = str(release.card["guarantee"].get("relation"))
    if relation not in {
        each.format(of) for each in RELATIONS.values() for of in ("row", "unit, wherever its rows fall")
    }:
        found.insert(0, f"what its neighbouring tables are, in words that this version does not write: {relation}")
    return found


def _other_line(release: Release) -> str | None:
    """The first line of card.md that is not written so from card.json, with its number; None if there is none."""
    folder, means = release.folder, None
    try:
        text = (folder / "card.md").read_text("utf-8")
        if (folder / "means.json").exists():
            means = read_json(folder / "means.json", f"release {str(folder)!r}")
        own = card_markdown(release.card, means)
    except FileNotFoundError:
        return None
    except (OSError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, InputError):
        return "1"
    lines = zip_longest(text.splitlines(), own.splitlines())
    for number, (line, other) in enumerate(lines, start=1):
        if line != other:
            return f"{number}" if line is None else f"{number}: {line[:_MOST_SHOWN]}"
    return None
