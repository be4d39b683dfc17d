"""A function that returns a minimal release card."""

from typing import Any


def least_card(**parts: Any) -> dict[str, Any]:
    """Return a card in which the given parts are added or replaced. If a part is a mapping, it is merged."""
    card: dict[str, Any] = {
        "name": "MST", "rows": 8003, "shrinkage": True, "strata": {"columns": ["SEX"], "count": 2},
        "guarantee": {"epsilon": 1, "delta": 1e-9, "rho": 0.1, "relation": "add_remove", "split_of_rho": {}},
        "schema": {"sha256": "0" * 64}, "config": {"synthesizer": "mst"},
    }  # fmt: skip
    for name, part in parts.items():
        card[name] = card[name] | part if isinstance(part, dict) and name in card else part
    return card
