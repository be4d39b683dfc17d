"""Verification of a release from its folder, including the card and the manifest.

It extends the checks of `equistrata.analysis.verify`. The page of the card is generated again from `card.json`. Earlier
versions used other words, so that a different line is shown but is not a fault.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from equistrata.analysis.release import Release
from equistrata.analysis.verify import faults, has_measurements, unchecked_properties
from equistrata.data.table import CodedTable
from equistrata.data.texts.manifest import CARD_FORMAT, MEND, listed
from equistrata.errors import InputError
from equistrata.flows.publication.audited_card import audits_of, unaccounted
from equistrata.flows.release.card.document import RELATIONS, composition_words, delta_words
from equistrata.flows.release.card.means_apart import means_apart
from equistrata.flows.release.card.page import card_markdown
from equistrata.flows.release.card.wide_bins import declares_bins, wide_bins
from equistrata.flows.release.price import FORMER_MONTHS

_MOST_SHOWN = 160  # the largest number of characters of a line that are shown


@contextmanager
def unpacked(place: Path) -> Iterator[Path]:
    """Yield the folder of a release. A zip file from `equistrata publish` is unpacked to a temporary folder.

    If the block raises an InputError about the temporary folder, its message names the zip file instead.

    Raises
    ------
    InputError
        If the zip file cannot be unpacked.
    """
    if not zipfile.is_zipfile(place):
        yield place
        return
    with tempfile.TemporaryDirectory(prefix="equistrata-verify-") as folder:
        try:
            with zipfile.ZipFile(place) as archive:
                if sum(each.file_size for each in archive.infolist()) > shutil.disk_usage(folder).free:
                    raise InputError(
                        f"release {str(place)!r} needs more space than is free in {folder!r}; free some space"
                    )
                archive.extractall(folder)
        except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, OSError):  # RuntimeError if it is encrypted
            raise InputError(f"release {str(place)!r} is a zip that cannot be unpacked; {MEND}") from None
        try:
            yield Path(folder)
        except InputError as error:
            raise InputError(str(error).replace(folder, str(place))) from None


def release_faults(release: Release) -> list[str]:
    """Return the faults of a release, one sentence each. If the release is valid, the list is empty."""
    found = faults(release)
    strays = unaccounted(release.card, listed(release.folder, f"release {str(release.folder)!r}"))
    if strays:
        found.append(
            f"the manifest lists {strays[0]!r}, which belongs neither to the release nor to an audit on its card"
        )
    found += _yield_faults_safely(_audits, release)
    if release.card.get("format") == CARD_FORMAT:
        found += _yield_faults_safely(_by_rows, release)
    return found


def _yield_faults_safely(check: Callable[[Release], Iterator[str]], release: Release) -> list[str]:
    """Return the faults that a check finds.

    If the check fails because of invalid content, return a sentence about this.
    """
    try:
        return list(check(release))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, InputError):
        return ["a file has content that no release writes, so not all of the release can be checked"]


def _audits(release: Release) -> Iterator[str]:
    """Yield the audits on the card with numbers that differ from the ones that were added."""
    files = listed(release.folder, f"release {str(release.folder)!r}")
    for audit in audits_of(release.card):
        if files.get(f"{audit['folder']}/audit.json", {}).get("sha256") != audit["report"]:
            yield f"the audit in {audit['folder']!r} is not the one that the card lists"


def _by_rows(release: Release) -> Iterator[str]:
    """Check the parts of the card that depend on the released rows, which are wide bins and means."""
    card, schema, known = release.card, release.schema, release.private_means
    table = CodedTable.encode(release.rows(labels=False), schema.coded())
    rows = CodedTable(table.codes, schema)
    counts = {c.name: np.bincount(rows.column(c.name), minlength=c.size) for c in schema.columns if declares_bins(c)}
    if card["wide_bins"] != wide_bins(schema, counts):
        yield "the wide bins on the card do not match the rows"
    if known is not None:
        fixed = release.public_weights_source is not None and not card["config"].get("combine_weights")
        parquet = release.folder / "synthetic.parquet"
        if card["means_apart"] != means_apart(schema, release.strata, rows, parquet, known, fixed):
            yield "the card's list of means that differ from the rows does not match the rows"


def unchecked_release_properties(release: Release) -> list[str]:
    """Return the properties that `release_faults` cannot check."""
    found = unchecked_properties(release)
    if (line := _other_line(release)) is not None:
        found.insert(
            0, f"whether card.md agrees with card.json, because this version would not write line {line} of it"
        )
    relation = str(release.card["guarantee"].get("relation"))
    if relation not in {
        each.format(of) for each in RELATIONS.values() for of in ("row", "unit, wherever its rows fall")
    }:
        found.insert(0, f"what its neighbouring tables are, in words that this version does not use: {relation}")
    if audits_of(release.card):
        found.insert(0, "whether the pages and tables of audits agree with their audit.json")
    for what, words, written in _words(release):
        if words != written:
            found.insert(0, f"{what}, in words that this version does not use: {words}")
    return found


def _words(release: Release) -> Iterator[tuple[str, Any, str]]:
    """Yield the descriptions of the price on the card, together with the descriptions that this version would write."""
    guarantee, units = release.card["guarantee"], release.card["config"].get("units")
    if isinstance(units, int | None) and "delta_is" in guarantee:
        yield "how large δ is", guarantee["delta_is"], delta_words(units, guarantee["delta"])
    if has_measurements(release):
        each = release.card.get("levels") is None or any(part.where for part in release.evidence.all)
        added = "; audits in sequence" if audits_of(release.card) else ""
        own = composition_words(release.unit, each, FORMER_MONTHS in guarantee["split_of_rho"])
        yield "how prices add up", guarantee.get("composition"), own + added


def _other_line(release: Release) -> str | None:
    """Return the first line of card.md that differs from the page for card.json, with its number.

    If there is none, return None.
    """
    try:
        text = (release.folder / "card.md").read_text("utf-8")
        own = card_markdown(release.card, release.private_means)
    except FileNotFoundError:
        return None
    except (OSError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, InputError):
        return "1"
    lines = zip_longest(text.splitlines(), own.splitlines())
    for number, (line, other) in enumerate(lines, start=1):
        if line != other:
            return f"{number}" if line is None else f"{number}: {line[:_MOST_SHOWN]}"
    return None
