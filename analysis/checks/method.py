"""Checks that the method on the card agrees with the settings and the measurements.

Only cards with the current format are checked, because the cards of earlier versions described the method in a
different way. In this case, `unchecked_properties` reports it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from equistrata.analysis.release import Release
from equistrata.data.texts.manifest import CARD_FORMAT
from equistrata.synth.measurements import measured_pairs
from equistrata.synth.names import is_foreign
from equistrata.synth.registry import mechanism

SAME = 1e-6  # relative tolerance


def settings_faults(release: Release) -> Iterator[str]:
    """Yield a sentence for each difference between the card and its settings. An honest release has none."""
    card, config, guarantee = release.card, release.card["config"], release.card["guarantee"]
    if config.get("seed") is not None or "not private" in str(guarantee.get("noise_source")).lower():
        yield "the noise was seeded, so the release is not private"
    if card.get("format") != CARD_FORMAT:
        return
    # A name such as ST/PUMA refers to two columns.
    by = [name for name in config["strata"] if name in release.schema.names]
    if not set(by) <= set(card["strata"]["columns"]) or bool(config["strata"]) != bool(card["strata"]["columns"]):
        yield "the card has other strata than its settings"
    called: dict[str, Any] = {
        "name": release.schema.name,
        "sha256": release.schema.digest,
        "target": release.schema.target,
    }
    if card["schema"] != called:
        yield "the card and schema.json state different names or targets of the schema"
    if f"synthesis ({card['name']})" not in guarantee["split_of_rho"]:
        yield "the name on the card differs from the name of the synthesis in its price"
    own, ledger = guarantee.get("release", guarantee), card["ledger"]
    once = not isinstance(ledger, dict) or len(ledger["charges"]) == 1
    if not config["series"]["name"] and once and not _same(own["epsilon"], config["epsilon"]):
        yield f"the card says ε = {own['epsilon']:g}, but its settings {config['epsilon']:g}"
    if not config["series"]["name"] and not _same(own["delta"], config["delta"]):
        yield f"the card says δ = {own['delta']:g}, but its settings {config['delta']:g}"
    if _ours(release):
        told = {"engine": config["engine"], "shrinkage": config["shrinkage"] and len(release.strata.keys) > 1}
        for name, said in told.items():
            if card[name] != said:
                yield f"the card and its settings state different values of {name!r}"


def method_faults(release: Release) -> Iterator[str]:
    """Yield a sentence for each difference between the card and the measurements. An honest release has none."""
    card, config = release.card, release.card["config"]
    if card.get("format") != CARD_FORMAT:
        return
    evidence = release.evidence
    apart = any(each.where for each in evidence.all)
    selection = None if len(release.strata.keys) < 2 else "per-stratum" if apart else "shared"
    if card["selection"] != selection or card["levels"] not in (None, config["levels"]):
        yield "the card and the measurements disagree on how the measurements were selected"
    relations = card["relations"]
    names = [column.name for column in release.schema.columns if column.size > 1]
    together, other = measured_pairs(names, [(*dict(each.where), *each.columns) for each in release.measurements])
    alone = set(names).difference(*together) if len(names) > 1 else set()
    if sorted(map(tuple, relations["not_measured"])) != sorted(other) or set(relations["alone"]) != alone:
        yield "the pairs of columns that the card lists as not measured do not match the measurements"
    if not _has_choice_share(release):
        yield f"the measurements were not selected by {card['mechanism']}, which has other costs of selection"


def _ours(release: Release) -> bool:
    return not is_foreign(str(release.card["config"]["synthesizer"]))


def _has_choice_share(release: Release) -> bool:
    """Return True if the cost of choices is the share of the measurement's cost that the mechanism uses.

    MST does not have a fixed share. The check fails if all of its choices have the share of another mechanism, unless
    all of them have the same noise. In this case, its share is equal to the share of AIM.
    """
    paid = [each.choices * 2 * each.sigma**2 for each in release.measurements if each.choices > 0]
    own = mechanism(release.card["config"]["synthesizer"]).choice_part
    if own is not None:
        return all(_same(each, own) for each in paid)
    noise = [each.sigma for each in release.measurements if each.choices > 0]
    if all(_same(sigma, noise[0]) for sigma in noise):
        return True
    others = (mechanism(name).choice_part for name in ("aim", "gem"))
    return not any(other is not None and all(_same(each, other) for each in paid) for other in others)


def _alike(said: Any, own: Any) -> bool:
    """Return True if two nested structures of mappings and numbers are equal up to rounding errors."""
    if isinstance(own, dict):
        return isinstance(said, dict) and said.keys() == own.keys() and all(_alike(said[k], own[k]) for k in own)
    if isinstance(own, list | tuple):
        same = isinstance(said, list | tuple) and len(said) == len(own)
        return same and all(_alike(one, other) for one, other in zip(said, own, strict=True))
    return _same(said, own, 1e-9) if isinstance(own, float) else bool(said == own)


def _same(said: Any, own: float, least: float = 0.0) -> bool:
    return isinstance(said, int | float) and math.isclose(said, own, rel_tol=SAME, abs_tol=least)
