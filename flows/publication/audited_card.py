"""The card of a release that public audits were added to: the privacy cost of all of it together.

A public audit queries the rows again, so its ρ is added (sequential composition). A report that compares releases shows
numbers of the others too, so their ρ is added, once each.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any

from equistrata.data.texts.manifest import is_own
from equistrata.errors import InputError
from equistrata.flows.release.card.groups import all_opened, group_table, unit_of
from equistrata.privacy.budget import Rho

CARDS = {"card.json", "card.md"}


@dataclass(frozen=True)
class AddedAudit:
    """A public audit in the folder of a release, as the release's card lists it, with its own price."""

    folder: str  # its name in the release's folder
    made: str  # ISO 8601, UTC
    epsilon: float
    delta: float
    rho: float
    charged_as: str  # its entry in the ledger; empty without
    private: bool  # whether its noise came from a source fit for real releases
    report: str  # SHA-256 of its `audit.json`, in hexadecimal: its identity
    # The other releases that it shows: each one's name, identity (`identity_of`), own rho, private, and card's caveats.
    compared: tuple[Mapping[str, Any], ...] = ()


def own_price(card: Mapping[str, Any]) -> Mapping[str, Any]:
    """ε, δ and ρ of the release itself, with former months of its series, without audits that were added to it."""
    guarantee: Mapping[str, Any] = card["guarantee"]
    price: Mapping[str, Any] = guarantee.get("release", guarantee)
    return price


def audits_of(card: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The audits that were added to a release, in order, each as the fields of an `AddedAudit`."""
    return list(card.get("audits", ()))


def prices(card: Mapping[str, Any], identity: str) -> dict[str, Rho]:
    """ρ of each part of a release's folder, once: its own under its identity, and those that were added."""
    parts = {identity: Rho(own_price(card)["rho"])}
    for audit in audits_of(card):
        parts[audit["report"]] = Rho(audit["rho"])
        parts |= {other["identity"]: Rho(other["rho"]) for other in audit["compared"]}
    return parts


def with_audit(card: Mapping[str, Any], audit: AddedAudit) -> dict[str, Any]:
    """The card with another audit: ρ adds up; ε, at the release's δ, is rounded up. Raises InputError if it is none."""
    guarantee = card["guarantee"]
    own = {name: own_price(card)[name] for name in ("epsilon", "delta", "rho")}
    together = {**card, "audits": [*audits_of(card), asdict(audit)]}
    total = sum(prices(together, "").values(), start=Rho(0))
    epsilon = total.epsilon(own["delta"])
    if not math.isfinite(epsilon):
        raise InputError(
            f"release and audits together have no ε at δ = {own['delta']:g} any more; give the audit another --output"
        )
    shown = {other["identity"] for each in audits_of(card) for other in each["compared"]}
    split = {f"public audit ({audit.folder}/)": audit.rho} | {
        f"release {other['name']} (compared in {audit.folder}/)": other["rho"]
        for other in audit.compared
        if other["identity"] not in shown
    }
    composition = guarantee["composition"]
    together["guarantee"] = {
        **guarantee,
        "epsilon": _up(epsilon),
        "rho": float(total),
        "split_of_rho": {**guarantee["split_of_rho"], **split},
        "composition": composition if audits_of(card) else f"{composition}; audits in sequence",
        "release": own,
    }
    rows = unit_of(card).at_most
    opened = all_opened(card.get("open", ()), card.get("series"))
    together["groups"] = group_table(float(total), own["delta"], guarantee["relation"], opened, rows)
    together["private"] = card["private"] and audit.private and all(other["private"] for other in audit.compared)
    return together


def identity_of(files: Mapping[str, Mapping[str, Any]]) -> str:
    """The identity of a release, whatever is added to it: the SHA-256 of its manifest's lines but the cards'."""
    own = [f"{name} {files[name]['sha256']}\n" for name in sorted(files) if is_own(name) and name not in CARDS]
    return hashlib.sha256("".join(own).encode("utf-8")).hexdigest()


def unaccounted(card: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Listed files that are neither the release's own nor of an audit on its card, and audits without files."""
    names = list(names)
    folders = {audit["folder"] for audit in audits_of(card)}
    strays = [name for name in names if not is_own(name) and PurePosixPath(name).parts[0] not in folders]
    return strays + sorted(folders - {PurePosixPath(name).parts[0] for name in names})


def _up(epsilon: float) -> float:
    """Rounded up to five digits, so that no printed cost is too low."""
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 4)
    return float(f"{math.ceil(epsilon / step - 1e-9) * step:.5g}")
