"""The release card: what every released folder says of itself, for machines (JSON) and for people (Markdown)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from equistrata.data.sources import FolktablesSource
from equistrata.flows.release.plan import Plan
from equistrata.privacy.budget import ADD_REMOVE, REPLACE_ONE, Rho
from equistrata.privacy.noise import NoiseSource

# Where things lie and run is nobody's business but the steward's.
PRIVATE_SETTINGS = {"output", "root_dir", "input", "ledger", "cluster", "scratch"}

UNIT = "one row"
RELATIONS = {
    ADD_REMOVE: f"{ADD_REMOVE}: neighbouring tables, of at least one row each, differ by adding or removing one row",
    REPLACE_ONE: f"{REPLACE_ONE}: neighbouring tables have the same number of rows in every stratum, which is taken to be "
    "public, and differ in one row; the price is stated for a row added or removed, and a row that is replaced is both",
}

# Measured on the person records of New York and Vermont, 2024: 81.0 % and 80.9 % (SERIALNO).
HOUSEHOLDS = (
    "Most ACS rows share a household with another row (81 % of New York's and of Vermont's in 2024): what a household pays is "
    "the price of a group, not that of one row"
)
GROUPS = (1, 2, 3, 5, 10)

NO_LEDGER = "none: nobody keeps the account of these rows, and whoever releases from them again must add up the prices"


def release_card(
    plan: Plan,
    noise: NoiseSource,
    rows: int,
    weights_source: str,
    account: Mapping[str, Any] | None = None,
    begun_again: int = 0,
) -> dict[str, Any]:
    """Everything a reader must know to trust or doubt a release. Holds only settings and paid-for numbers.

    `account` is the statement of `equistrata.flows.release.undertaking`: what the ledger was charged, more than planned if noise had to be drawn
    again after a crash. `begun_again` is how often a stratum's worker was lost, so that another measured it.
    """
    config = plan.config
    again = {charge["reason"]: charge["rho"] for charge in account["charges"][1:]} if account else {}
    foreign = None if plan.mechanism.keeps_measurements else plan.mechanism
    relation = plan.relation
    rho = account["rho"] if account else float(plan.price.total)
    return {
        "name": plan.name,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "software": f"equistrata {version('equistrata')}",
        "private": noise.private,
        "guarantee": {
            "epsilon": account["epsilon"] if account else config.epsilon,
            "delta": config.delta,
            "rho": rho,
            "unit": UNIT,
            "relation": RELATIONS[relation],
            "group": group_table(rho, config.delta, relation),
            "split_of_rho": {**plan.split(), **again},
            "composition": (
                "strata in parallel; counts, synthesis and means in sequence"
                if plan.shared is None
                else "choices, marginals, counts and means in sequence; strata within a marginal in parallel"
            ),
            "noise_source": noise.name if foreign is None else f"{foreign.software}; counts and means: {noise.name}",
            "caveats": [] if foreign is None else list(foreign.caveats),
        },
        "ledger": dict(account) if account else NO_LEDGER,
        "source": plan.source.describe(),
        "households": HOUSEHOLDS if isinstance(plan.source, FolktablesSource) else None,
        "mechanism": plan.mechanism.name,
        "shrinkage": config.shrinkage and foreign is None and len(plan.strata.keys) > 1,
        "selection": None if len(plan.strata.keys) < 2 else "per-stratum" if plan.shared is None else "shared",
        "levels": None if plan.shared is None else config.levels,
        "engine": config.engine if foreign is None else foreign.software,
        "strata": {
            "columns": list(plan.strata.columns),
            "count": len(plan.strata.keys),
            "weights": weights_source,
            "begun_again": begun_again,
        },
        "rows": rows,
        "columns": list(plan.schema.names),
        "schema": {"name": plan.schema.name, "sha256": plan.schema.digest, "target": plan.schema.target},
        "held_out": plan.held_out,
        "not_covered": "the schema, the strata, public weights, and this configuration are taken to be public",
        "config": {key: value for key, value in config.public().items() if key not in PRIVATE_SETTINGS},
    }


def group_table(rho: float, delta: float, relation: str = ADD_REMOVE) -> list[dict[str, Any]]:
    """What a price is for k rows together, those of one person or of one household: k²ρ, and its ε at the card's δ.

    Args:
        rho, delta: the price as it stands on the card.
        relation: its neighbouring relation, or the card's sentence on it. Where rows are replaced, k of them are a group of 2k.

    Returns:
        For k = 1, 2, 3, 5 and 10: `rows`, `rho`, and `epsilon`, None where it leaves floating point.
    """
    steps = 2 if relation.startswith(REPLACE_ONE) else 1
    prices = [(rows, Rho(rho).group(steps * rows)) for rows in GROUPS]
    return [
        {"rows": rows, "rho": float(price), "epsilon": epsilon if math.isfinite(epsilon) else None}
        for rows, price, epsilon in ((rows, price, price.epsilon(delta)) for rows, price in prices)
    ]


_HOW = {
    None: "one synthesizer for each of",
    "auto": "one choice of marginals, over all rows and within strata, for all of",
    "strata": "one choice of marginals within strata, for all of",
    "none": "one synthesizer for all rows, cut into",
}


def card_markdown(card: Mapping[str, Any], means: Mapping[str, Any] | None) -> str:
    """The card for people: price first, then what was released, how, and what to keep in mind."""
    guarantee, strata = card["guarantee"], card["strata"]
    warning = "" if card["private"] else (
        "> **Not private.** Made with a seeded noise source, for tests and benchmarks. Do not publish.\n\n"
    )  # fmt: skip
    caveats = [f"- {caveat}" for caveat in guarantee["caveats"]]
    measured = "number of rows" if caveats else "marginals"
    files = "all in one file" if card["selection"] == "shared" else "one file per stratum"
    refit = "The models were not made from these" if caveats else "All else was made from these; anybody may refit"
    split = "\n".join(f"| {name} | {rho:.6g} |" for name, rho in guarantee["split_of_rho"].items())
    lines = [
        f"# {card['name']}: {card['rows']:,} synthetic rows\n",
        f"{warning}Made {card['created']} by {card['software']} from {card['source']}.\n",
        "## Price\n",
        f"**ε = {guarantee['epsilon']:g}, δ = {guarantee['delta']:g}** for exactly the files that `manifest.json` lists, all together, "
        f"which is ρ = {guarantee['rho']:.6g} in zero-concentrated differential privacy.\n",
        f"Neighbours: {guarantee['relation']}.\n",
        *_group_lines(guarantee),
        f"| part | ρ |\n|---|---|\n{split}\n",
        f"Composition: {guarantee['composition']}. Noise: {guarantee['noise_source']}.\n",
        *(
            [
                f"{strata['begun_again']} time(s) a stratum's worker was lost and another began it again. Nothing is made of what "
                "the lost one drew; the price holds if its noise had no part in its loss.\n"
            ]
            if strata["begun_again"]
            else []
        ),
        *(["**The guarantee is weaker than this price says:**\n", *caveats, ""] if caveats else []),
        *_account_lines(card["ledger"]),
        *_audit_lines(card),
        "## What is here\n",
        f"- `synthetic.parquet`, `synthetic.csv`: columns {', '.join(card['columns'])} (schema "
        f"`{card['schema']['name']}`, SHA-256 `{card['schema']['sha256'][:16]}…`; codes are explained in `schema.json`).",
        f"- `measurements/`: the noisy {measured}, {files}. {refit}.",
        *(["- `means.json`: private means with intervals."] if means else []),
        *(f"- `{audit['folder']}/`: a public audit; open its page in a browser." for audit in card.get("audits", ())),
        "- `card.json`: this page for machines.",
        "- `manifest.json`: the size and SHA-256 of every file.\n",
        "## How it was made\n",
        f"{card['mechanism']} (engine {card['engine']}), "
        + (
            f"{_HOW[card['levels'] if card['selection'] == 'shared' else None]} {strata['count']} declared strata of "
            f"{' × '.join(strata['columns'])}, joined by group weights from {strata['weights']}."
            + (" Small strata lean on what was measured in the others." if card["shrinkage"] else "")
            if strata["columns"]
            else "one synthesizer for all rows."
        )
        + "\n",
        *(
            [f"Each row had a chance of {card['held_out']:g} to be held out for internal evaluation.\n"]
            if card["held_out"]
            else []
        ),
        "## Keep in mind\n",
        f"- {card['not_covered'][0].upper()}{card['not_covered'][1:]}.",
        *([f"- {card['households']}."] if card.get("households") else []),
        "- Synthetic rows are not people: small strata carry mostly noise, and only measured relations are kept.",
        "- Another release from the same rows adds to the price.\n",
    ]
    return "\n".join(lines) + (_means_table(means) if means else "")


def _group_lines(guarantee: Mapping[str, Any]) -> list[str]:
    relation = guarantee["relation"]
    replaced = relation.startswith(REPLACE_ONE)
    # Cards made before 2026-11-22 have no such table.
    table = guarantee.get("group") or group_table(guarantee["rho"], guarantee["delta"], relation)
    rows = " | ".join(str(entry["rows"]) for entry in table)
    rho = " | ".join(f"{entry['rho']:.4g}" for entry in table)
    epsilon = " | ".join("∞" if entry["epsilon"] is None else f"{entry['epsilon']:.4g}" for entry in table)
    return [
        f"The unit is {guarantee.get('unit', UNIT)}. A person or a household with k rows has the price of a group: "
        + ("(2k)²ρ, since each is replaced.\n" if replaced else "k²ρ.\n"),
        f"| rows{' replaced' if replaced else ''} | {rows} |\n|---{'|---' * len(table)}|\n| ρ | {rho} |\n"
        f"| ε at δ = {guarantee['delta']:g} | {epsilon} |\n",
        *([] if replaced else ["A row that is replaced by another is a group of two: one removed, one added.\n"]),
    ]


def _account_lines(ledger: Mapping[str, Any] | str) -> list[str]:
    if isinstance(ledger, str):
        return [f"Ledger: {ledger}.\n"]
    budget, left = ledger["budget"], ledger["left"]
    again = [f"- Charged again: ρ = {c['rho']:.6g}, {c['reason']}." for c in ledger["charges"][1:]]
    return [
        f"Charged to the budget of `{ledger['dataset']}` (ε = {budget['epsilon']:g}, δ = {budget['delta']:g} for all "
        f"releases together) as release `{ledger['release_id']}`. Left after it: ρ = {left['rho']:.6g}, which is "
        f"ε = {left['epsilon']:.4g} at δ = {left['delta']:g}.\n",
        *again,
        *([""] if again else []),
        f"Head of the ledger {ledger['ledger']} at that moment, for anybody who checks its history later "
        f"(`equistrata budget verify --anchor`): `{ledger['head']}`.\n",
    ]


def _audit_lines(card: Mapping[str, Any]) -> list[str]:
    """What the page says of the audits that were added (`equistrata.flows.publication.audited_card`), and of the releases that they show."""
    audits = card.get("audits", ())
    if not audits:
        return []
    own = card["guarantee"]["release"]
    lines = [
        f"Of this, the release by itself: ε = {own['epsilon']:g}, ρ = {own['rho']:.6g}. Public audits in this folder:\n"
    ]
    for each in audits:
        charged = f"charged as `{each['charged_as']}`" if each["charged_as"] else "charged to no ledger"
        lines.append(
            f"- `{each['folder']}/`: ε = {each['epsilon']:g}, δ = {each['delta']:g}, ρ = {each['rho']:.6g}, {charged}."
        )
        for other in each["compared"]:
            lines.append(f"  - It shows {other['name']} as well: ρ = {other['rho']:.6g}, counted once.")
            lines += [f"  - {other['name']}: {caveat}" for caveat in other["caveats"]]
    return [*lines, ""]


def _means_table(means: Mapping[str, Any]) -> str:
    rows = [
        f"| {name} | {kind.replace('_', ' ')} | {estimate['value']:.5g} | "
        f"{estimate['lower']:.5g} to {estimate['upper']:.5g} |"
        for name, estimates in means["outcomes"].items()
        for kind, estimate in estimates.items()
    ]
    table = "\n".join(rows)
    return f"\n## Means\n\n| column | estimator | mean | interval |\n|---|---|---|---|\n{table}\n"
