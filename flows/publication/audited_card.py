"""The card of a release with public audits, which states the total privacy cost.

A public audit queries the rows again, so its ρ is added to the cost by sequential composition. A report that compares
releases contains numbers of the other releases, so the ρ of each of them is added once.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any

from equistrata.data.texts.manifest import is_release_file
from equistrata.errors import InputError
from equistrata.flows.release.card.groups import all_thresholds, group_table, unit_of
from equistrata.privacy.budget import Rho
from equistrata.privacy.conversion import round_up

CARDS = {"card.json", "card.md"}


@dataclass(frozen=True)
class AddedAudit:
    """A public audit in the folder of a release, as listed on the card of the release with its price."""

    folder: str  # the name of the audit's folder
    made: str  # the time in UTC, in ISO 8601 format
    epsilon: float
    delta: float
    rho: float
    charged_as: str  # the id of its charge in the ledger; empty if it was not charged
    private: bool  # True if the noise was private and not seeded
    report: str  # the SHA-256 hash of `audit.json`, which identifies the audit
    # The other releases in the audit: name, identity (see `identity_of`), rho, private and the caveats of the card.
    compared: tuple[Mapping[str, Any], ...] = ()


def own_price(card: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ε, δ and ρ of the release itself. Former months of its series are included, but audits are not."""
    guarantee: Mapping[str, Any] = card["guarantee"]
    price: Mapping[str, Any] = guarantee.get("release", guarantee)
    return price


def audits_of(card: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the audits of a release in order, each with the fields of an `AddedAudit`."""
    return list(card.get("audits", ()))


def prices(card: Mapping[str, Any], identity: str) -> dict[str, Rho]:
    """Return the ρ of each part of a release folder. The keys are identities, so that no part is counted twice."""
    parts = {identity: Rho(own_price(card)["rho"])}
    for audit in audits_of(card):
        parts[audit["report"]] = Rho(audit["rho"])
        parts |= {other["identity"]: Rho(other["rho"]) for other in audit["compared"]}
    return parts


def with_audit(card: Mapping[str, Any], audit: AddedAudit) -> dict[str, Any]:
    """Return the card with an additional audit.

    The new ρ is the sum of all parts. The new ε is the value for this ρ and the δ of the release, rounded up.

    Parameters
    ----------
    card : mapping
        The card.
    audit : AddedAudit
        The audit.

    Returns
    -------
    dict
        The new card.

    Raises
    ------
    InputError
        If there is no finite ε for the sum.
    """
    guarantee = card["guarantee"]
    own = {name: own_price(card)[name] for name in ("epsilon", "delta", "rho")}
    together = {**card, "audits": [*audits_of(card), asdict(audit)]}
    total = sum(prices(together, "").values(), start=Rho(0))
    epsilon = total.epsilon(own["delta"])
    if not math.isfinite(epsilon):
        raise InputError(
            f"the release and its audits together no longer have an ε at δ = {own['delta']:g}; give the audit "
            "another --output"
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
        "epsilon": round_up(epsilon, 5),
        "rho": float(total),
        "split_of_rho": {**guarantee["split_of_rho"], **split},
        "composition": composition if audits_of(card) else f"{composition}; audits in sequence",
        "release": own,
    }
    rows = unit_of(card).at_most
    opened = all_thresholds(card.get("open", ()), card.get("series"))
    together["groups"] = group_table(float(total), own["delta"], guarantee["relation"], opened, rows)
    together["private"] = card["private"] and audit.private and all(other["private"] for other in audit.compared)
    return together


def identity_of(files: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the identity of a release, which does not change when audits are added.

    It is the SHA-256 hash of the lines in the manifest, except for the cards.
    """
    own = [f"{name} {files[name]['sha256']}\n" for name in sorted(files) if is_release_file(name) and name not in CARDS]
    return hashlib.sha256("".join(own).encode("utf-8")).hexdigest()


def unaccounted(card: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Return the listed files that do not belong to the release or to an audit on its card.

    Audits on the card that do not have any files are returned as well.
    """
    names = list(names)
    folders = {audit["folder"] for audit in audits_of(card)}
    strays = [name for name in names if not is_release_file(name) and PurePosixPath(name).parts[0] not in folders]
    return strays + sorted(folders - {PurePosixPath(name).parts[0] for name in names})
