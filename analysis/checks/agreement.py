"""Whether the files of a release's folder agree with each other: means.json with its own price, card.md with card.json
and means.json, and the rows with what was measured.

Noise of a mean cannot be seen from its value, so only what is impossible is found. Rows are drawn from a model of the
measurements: how they are spread over a column, given how many each stratum has, is the model's up to sampling, and up
to what raking to private means moves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from html import unescape
from itertools import pairwise
from typing import Any

import numpy as np

from equistrata.analysis.checks.companions import served_earlier
from equistrata.analysis.contents.frames import read_json
from equistrata.analysis.contents.known_means import known_means
from equistrata.analysis.means import PRIVATE as MEANS
from equistrata.analysis.release import Release
from equistrata.analysis.uncertainty.heterogeneity import group_shares, measured_groups
from equistrata.data.table import CodedTable
from equistrata.data.weights import PublicWeights
from equistrata.errors import InputError
from equistrata.synth.strata.raking import raked

# Times what sampling is expected to move, and a share of the rows besides: more is not chance.
SAMPLED, APART = 4.0, 0.03
_LEAST = 1e-9  # relative
_PRICE = re.compile(r"\*\*ε = (\S+), δ = (\S+)\*\* for exactly the files")
_ROWS = re.compile(r"^([\d,]+) synthetic rows", re.MULTILINE)


def agreement_faults(release: Release) -> Iterator[str]:
    """A sentence for each contradiction; none for an honest release."""
    means: Mapping[str, Any] = {}
    if (release.folder / MEANS).exists():
        try:
            document = read_json(release.folder / MEANS, f"release {str(release.folder)!r}")
            means = document["outcomes"]
            yield from _means(release, means, document["rho"])
        except (AttributeError, KeyError, TypeError, ValueError, InputError):
            yield f"{MEANS} is not what a release writes"
            return
    yield from _card(release, means)


def _means(release: Release, outcomes: Mapping[str, Any], rho: float) -> Iterator[str]:
    spent = math.fsum(each["rho"] for estimates in outcomes.values() for each in estimates.values())
    if not math.isclose(spent, rho, rel_tol=_LEAST):
        yield f"the means in {MEANS} cost ρ = {spent:.6g} together, but it says {rho:.6g}"
    labels = {release.strata.label(key) for key in release.strata.keys}
    for name, estimates in outcomes.items():
        low, high = release.schema[name].bounds if name in release.schema.names else (-math.inf, math.inf)
        for kind, whole in estimates.items():
            parts = whole.get("strata", {})
            if parts and (set(parts) != labels or not math.isclose(sum(p["share"] for p in parts.values()), 1.0)):
                yield f"{kind} of {name!r} in {MEANS} is not of the release's strata, with shares that add up to 1"
            for label, each in [("all rows", whole), *parts.items()]:
                ends = (low, each["lower"], each["value"], each["upper"], high)
                near = _LEAST * max(map(abs, ends[1:4]))
                if not all(one <= two + near for one, two in pairwise(ends)):  # NaN is not, either
                    yield f"{kind} of {name!r} for {label} in {MEANS} is no mean within its interval and the bounds"


def _card(release: Release, means: Mapping[str, Any]) -> Iterator[str]:
    """Of card.md, what most look at: its price, its rows and its means."""
    try:
        text = unescape((release.folder / "card.md").read_text("utf-8"))
    except FileNotFoundError:
        return
    guarantee, price, rows = release.card["guarantee"], _PRICE.search(text), _ROWS.search(text)
    said = f"{guarantee['epsilon']:g}", f"{guarantee['delta']:g}"
    if price is None or price.groups() != said:
        yield f"card.md does not say ε = {said[0]}, δ = {said[1]}, as card.json does"
    if rows is None or rows[1] != f"{release.card['rows']:,}":
        yield f"card.md does not say that there are {release.card['rows']:,} rows, as card.json does"
    for name, estimates in means.items():
        for kind, each in estimates.items():
            value, lower, upper = (f"{each[end]:.5g}" for end in ("value", "lower", "upper"))
            if f"| {kind.replace('_', ' ')} | {value} | {lower} to {upper}" not in text:
                yield f"card.md does not say of {name!r} what {MEANS} does"


def rows_faults(release: Release, table: CodedTable) -> Iterator[str]:
    """A sentence for each column of which the rows, `table`, are spread otherwise than the measurements lead to.

    Not of earlier versions' models, nor of a month of a series, which follows former months too (`rows_unseen`).
    """
    if rows_unseen(release) or not len(table):
        return
    evidence, strata = release.evidence, release.evidence.strata
    place = strata.index(table.select(strata.columns)) if strata.columns else np.zeros(len(table), dtype=np.intp)
    sizes = np.bincount(place, minlength=len(strata.keys)).astype(float)
    model = evidence.model
    if release.card["raked"]:
        public = "weights_apart" in release.card
        weighed = model
        if strata.columns:  # as the rows have them: public ones, or those of the model to the last row
            weights = PublicWeights.from_counts(dict(zip(strata.keys, sizes, strict=True)), strata, "rows")
            weighed = replace(model, weights=weights)
        try:
            means = read_json(release.folder / MEANS, "the release")
            model, _ = raked(weighed, known_means(release.schema, strata, means, public))
        except (AttributeError, KeyError, TypeError, ValueError, InputError):  # which is said elsewhere
            return
    for name in evidence.names:
        if name in strata.columns:
            continue
        shares = group_shares(evidence, model, name, counted=False).shares
        groups = measured_groups(evidence, name)
        codes = table.column(name) if groups is None else np.asarray(groups)[table.column(name)]
        found = np.bincount(codes, minlength=shares.shape[1]) / len(table)
        expected = sizes @ shares / len(table)
        sampled = 0.5 * np.sqrt(expected * (1 - expected) / len(table)).sum()
        if 0.5 * np.abs(found - expected).sum() > SAMPLED * sampled + APART:
            yield f"the rows have other shares of {name!r} than the measurements lead to"


def rows_unseen(release: Release) -> bool:
    """Whether the rows cannot be compared with a model of the measurements that is made again here."""
    return not release.card.get("served") or served_earlier(release) or bool(release.card.get("series"))
