"""Checks that the files of a release agree with each other.

The checks compare `means.json` with its own price and with the counts, and `card.md` with `card.json` and `means.json`.
The noise of a mean cannot be seen from its value. Therefore, the checks only find values that are impossible, or values
that contradict the counts of the same rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from html import unescape
from itertools import pairwise, zip_longest
from typing import Any

import numpy as np

from equistrata.analysis.means import PRIVATE as MEANS
from equistrata.analysis.means import WEIGHED, two_means
from equistrata.analysis.release import Release
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.data.columns.column import OWN_CATEGORY
from equistrata.data.texts.manifest import CARD_FORMAT
from equistrata.errors import InputError
from equistrata.synth.measurements import summed

FAR = 6.0  # two means of the same rows differ by less than this many standard deviations
_LEAST = 1e-9  # relative tolerance
_PRICE = re.compile(r"\*\*ε = (\S+), δ = (\S+)\*\* for exactly the files")
_ESCAPED = re.compile(r"\\([\\`*{}\[\]#|_])")  # characters that are escaped in Markdown text
_RHO = re.compile(r"which is ρ = (\S+) in zero-concentrated")
_ROWS = re.compile(r"^([\d,]+) synthetic rows", re.MULTILINE)


def agreement_faults(release: Release) -> Iterator[str]:
    """Yield a sentence for each contradiction. An honest release has none."""
    means: Mapping[str, Any] = {}
    document = release.private_means
    if document is not None:
        try:
            means = document["outcomes"]
            yield from _means(release, means, document["rho"])
            if release.card.get("format") == CARD_FORMAT:
                yield from _parts(release, document)
            yield from _counted(release, document)
        except (AttributeError, KeyError, TypeError, ValueError, InputError):
            yield f"{MEANS} does not have the form that a release writes"
            return
    yield from _card(release, means)


def _means(release: Release, outcomes: Mapping[str, Any], rho: float) -> Iterator[str]:
    spent = math.fsum(each["rho"] for estimates in outcomes.values() for each in estimates.values())
    if not math.isclose(spent, rho, rel_tol=_LEAST):
        yield f"the means in {MEANS} cost ρ = {spent:.6g} together, but the file states {rho:.6g}"
    labels = {release.strata.label(key) for key in release.strata.keys}
    for name, estimates in outcomes.items():
        low, high = release.schema[name].bounds if name in release.schema.names else (-math.inf, math.inf)
        for kind, whole in estimates.items():
            parts = whole.get("strata", {})
            if parts and (set(parts) != labels or not math.isclose(sum(p["share"] for p in parts.values()), 1.0)):
                yield f"{kind} of {name!r} in {MEANS} has other strata than the release, or shares that do not sum to 1"
            for label, each in [("all rows", whole), *parts.items()]:
                ends = (low, each["lower"], each["value"], each["upper"], high)
                near = _LEAST * max(map(abs, ends[1:4]))
                if not all(one <= two + near for one, two in pairwise(ends)):  # this is also False for NaN
                    yield f"{kind} of {name!r} for {label} in {MEANS} is outside its interval or its bounds"


def _parts(release: Release, document: Mapping[str, Any]) -> Iterator[str]:
    """Check each mean and its strata.

    All of them must have the same price and level, and a correct flag if they are not informative.
    """
    if sorted(document["outcomes"]) != sorted(release.card["config"]["means"]):
        yield f"{MEANS} has means of other columns than the settings on the card"
    declared = release.card["config"]["means_schema"] is None
    for name, estimates in document["outcomes"].items():
        column = release.schema[name] if declared and name in release.schema.names else None
        # The column has no means if it has no sigma. The settings of ACS data do not name the schema of the means.
        if column is not None and column.sigma is None:
            column = None
        for kind, whole in estimates.items():
            for each in (whole, *whole.get("strata", {}).values()):
                one = [(part["rho"], part["level"], part["target"]) for part in (whole, each)]
                if one[0] != one[1] or each["target"] != document["target"]:
                    yield f"{kind} of {name!r} in {MEANS} has another price, level or target than its groups"
                low, high = (-math.inf, math.inf) if column is None else column.mean_bounds
                arms = each["value"] - each["lower"], each["upper"] - each["value"]
                if column is not None and each["uninformative"] != (low < high and 2 * max(arms) >= high - low):
                    yield f"{kind} of {name!r} in {MEANS} contradicts its interval about whether it is informative"
            if column is not None and whole["sigma"]["declared"] != column.sigma:
                yield f"{kind} of {name!r} in {MEANS} has another σ than schema.json"


def _counted(release: Release, document: Mapping[str, Any]) -> Iterator[str]:
    """Check that the means over all rows are close to the means from counts and within the bins of these rows."""
    try:
        release.evidence  # noqa: B018
    except InputError:  # another check reports missing or invalid measurements
        return
    for name, estimates in document["outcomes"].items():
        ends = _ends_of_bins(release.evidence, name)
        if ends is None:
            continue
        for kind, each in estimates.items():
            if kind != WEIGHED and not (ends[0] <= each["upper"] and each["lower"] <= ends[1]):
                yield f"the mean of {name!r} in {MEANS} is outside the bins that have rows in the measurements"
    for each in two_means(release.answers, document):
        apart, errors = abs(each.private - each.counted), math.hypot(each.private_error, each.counted_error)
        if math.isfinite(errors) and apart > FAR * errors:
            yield f"the mean of {each.column!r} in {MEANS} is far from its value according to the measurements"


def _ends_of_bins(evidence: Evidence, name: str) -> tuple[float, float] | None:
    """Return limits for the mean of people with a number, computed from the noisy numbers of rows in the bins.

    The bin of the number that represents absent cells may contain people without a number, so the limits hold with and
    without its rows.
    """
    schema = evidence.strata.schema
    if name not in schema.names or not schema[name].numeric or schema[name].layout:
        return None
    column = schema[name]
    ends = np.array([column.cuts[:-1], column.cuts[1:]])
    rows = np.maximum(evidence.model.marginal((name,))[: ends.shape[1]], 0.0)
    sigmas = [summed(each, (name,)).cell_sigma.max() for each in evidence.all if name in each.columns]
    if not sigmas:  # no count of rows by this column if units count as one
        return None
    sigma = min(sigmas)
    absent = np.zeros(len(rows), dtype=bool)
    if column.missing not in (None, OWN_CATEGORY):
        given = float(column.missing)
        absent = (ends[0] <= given) & (given <= ends[1])
    found = []
    for some in (rows, np.where(absent, 0.0, rows)):
        if not some.sum() > FAR * sigma * math.sqrt(len(rows)):
            return None
        noise = FAR * sigma * np.linalg.norm(ends - ends.mean(1, keepdims=True), axis=1) / some.sum()
        found.append(ends @ some / some.sum() + np.array([-1.0, 1.0]) * noise)
    least, most = np.array(found).T
    reach = evidence.held_out * (ends[1, -1] - ends[0, 0])  # means include the rows that were held out
    return float(least.min()) - reach, float(most.max()) + reach


def _card(release: Release, means: Mapping[str, Any]) -> Iterator[str]:
    """Check the most visible parts of card.md: the price, the number of rows and the means."""
    try:
        text = _ESCAPED.sub(r"\1", unescape((release.folder / "card.md").read_text("utf-8")))
    except FileNotFoundError:
        return
    guarantee, price, rows = release.card["guarantee"], _PRICE.search(text), _ROWS.search(text)
    said = f"{guarantee['epsilon']:g}", f"{guarantee['delta']:g}"
    if price is None or price.groups() != said:
        yield f"card.md does not state ε = {said[0]}, δ = {said[1]}, unlike card.json"
    if (all_of_it := _RHO.search(text)) is not None and not _near(all_of_it[1], guarantee["rho"]):
        yield f"card.md does not state ρ = {guarantee['rho']:.6g}, unlike card.json"
    if rows is None or rows[1] != f"{release.card['rows']:,}":
        yield f"card.md does not state {release.card['rows']:,} rows, unlike card.json"
    cells = [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines() if line[:1] == "|"]
    told = {line[0]: line[1:] for line in reversed(cells)}  # the price comes first in the file
    priced: dict[str, list[float | None]] = {name: [part] for name, part in guarantee["split_of_rho"].items()}
    if groups := release.card.get("groups"):
        priced |= {"ρ": [each["rho"] for each in groups], f"ε at δ = {said[1]}": [each["epsilon"] for each in groups]}
    for name, numbers in priced.items():
        if name in told and not all(_near(*pair) for pair in zip_longest(told[name], numbers)):
            yield f"card.md and card.json state different prices for {name!r}"
    for name, estimates in means.items():
        for kind, each in estimates.items():
            value, lower, upper = (f"{each[end]:.5g}" for end in ("value", "lower", "upper"))
            if f"| {kind.replace('_', ' ')} | {value} | {lower} to {upper}" not in text:
                yield f"card.md and {MEANS} state different means of {name!r}"


def _near(text: str | None, number: float | None) -> bool:
    """Return True if the text of a cell in card.md equals a number of card.json after rounding."""
    try:
        return number is None or math.isclose(float(str(text)), number, rel_tol=2e-3)
    except ValueError:
        return False
