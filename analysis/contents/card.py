"""Reading of the card and the private means of a release, with checks because anyone may have written the folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from equistrata.data.schema import Schema
from equistrata.data.texts.json_documents import parse_json, read_json
from equistrata.data.texts.manifest import MEND
from equistrata.errors import InputError

MEANS = "means.json"

_PRICE = {"epsilon": float, "delta": float, "rho": float}
_MAYBE_TEXT, _NUMBERS, _TEXTS = (None, str), {str: float}, [str]
_SERVED = {
    "parity_distance": (None, float), "counted": float, "covered?": int, "distance?": (None, float),
    "groups": [{"label": str, "words": str, "rows": float, "covered": bool, "distance": (None, float)}],
}  # fmt: skip
_RELATIONS = {
    "measured": [_TEXTS], "not_measured": [_TEXTS], "alone?": _TEXTS,
    "expected?": (None, [{"columns": _TEXTS, "error": (None, float), "groups?": (None, {str: (None, float)})}]),
}  # fmt: skip
_LEDGER = {
    **_PRICE, "delta?": float, "dataset": str, "release_id": str, "ledger": str, "head": str,
    "charges": [{"entry?": int, "rho": float, "parts?": _TEXTS, "reason?": _MAYBE_TEXT}], "budget": _PRICE,
    "left": {"epsilon": (None, float), "delta": float, "rho": float},
}  # fmt: skip
del _LEDGER["delta"]
_OPENED = {"column?": str, "sigma": float, "least": float, "delta": float, "drawn": float}
_SERIES = {
    "name": str, "month": int, "horizon": int, "unit?": str, "own?": _PRICE, "so_far": _PRICE, "at_its_end": _PRICE,
    "opened?": [_OPENED],
    "former": (None, {"release_id": str, "month": int, "state": _MAYBE_TEXT, "anew?": _TEXTS}),
}  # fmt: skip
_AUDIT = {
    **_PRICE, "folder": str, "made": str, "charged_as": str, "private": bool, "report": str,
    "compared": [{"name": str, "identity": str, "rho": float, "private": bool, "caveats?": _TEXTS}],
}  # fmt: skip
_CONFIG_TEXTS = (
    "source", "survey", "schema", "unit", "unit_weights", "relation", "selection", "means_estimator", "means_target",
    "evaluate", "runner", "dataset", "release_id", "time_zone",
)  # fmt: skip
_CONFIG_NUMBERS = "year", "at_most", "count_share", "open_share", "bound_share", "means_share", "holdout", "workers"
CARD = {
    "format?": (None, int), "name": str, "created?": str, "software?": str, "private?": bool, "source?": str,
    "mechanism?": str, "not_covered?": str, "relation?": str, "selection?": _MAYBE_TEXT, "levels?": _MAYBE_TEXT,
    "engine?": _MAYBE_TEXT, "shrinkage": (bool, None), "rows": int, "held_out?": float,
    "columns?": _TEXTS, "called?": {str: str}, "open?": [_OPENED], "households?": object, "raked?": (None, dict),
    "rules?": (None, {"in_order": _TEXTS, "exchanged": int, "moved": int, "replaced": int}),
    "report?": (None, {"title?": _MAYBE_TEXT, "agency?": _MAYBE_TEXT, "contact?": _MAYBE_TEXT}),
    "guarantee": {
        **_PRICE, "unit?": str, "relation": str, "delta_is?": str, "split_of_rho": _NUMBERS, "composition?": str,
        "noise_source?": str, "caveats?": _TEXTS, "release?": _PRICE,
        "promise?": {"epsilon": float, "delta": float, "count": float, "bought": bool, "times": int},
    },
    "unit?": {"column": _MAYBE_TEXT, "at_most": int, "unique?": bool, "weights?": str, "relation?": str},
    "unit_sizes?": (None, dict), "groups?": [{"units": int, "rho": float, "epsilon": (None, float)}],
    "ledger?": (_LEDGER, str, None), "series?": (None, _SERIES), "audits?": [_AUDIT], "served?": (None, _SERVED),
    "strata": {"columns": _TEXTS, "count?": int, "weights?": str, "begun_again?": int},
    "relations?": (None, _RELATIONS), "schema": {"sha256": str, "name?": str, "target?": _MAYBE_TEXT},
    "config": {
        **dict.fromkeys([f"{name}?" for name in _CONFIG_TEXTS], _MAYBE_TEXT),
        **dict.fromkeys([f"{name}?" for name in _CONFIG_NUMBERS], (None, float)),
        "synthesizer": str, "strata?": _TEXTS, "epsilon?": (None, float), "delta?": (None, float), "means?": _TEXTS,
        "units?": (None, int), "rows?": (None, int), "weights?": _MAYBE_TEXT, "combine_weights?": bool,
        "survey_weight?": _MAYBE_TEXT, "controls?": _MAYBE_TEXT, "expand?": bool,
        "seed?": (None, int), "engine?": str, "levels?": _MAYBE_TEXT, "shrinkage?": bool, "means_schema?": _MAYBE_TEXT,
        "series?": {"name?": _MAYBE_TEXT},
    },
    "wide_bins?": [dict], "means_apart?": [dict],
    "survey_weight?": _MAYBE_TEXT,
    "controls?": (None, {"source": str, "columns": _TEXTS, "cells": int, "people": float, "replaced": int}),
}  # fmt: skip
_MEAN = {
    "value": float, "lower": float, "upper": float, "rho?": float, "level?": float, "target?": str, "shrunk?": bool,
    "uninformative?": bool, "rows?": (None, float),
}  # fmt: skip
_SIGMA = {"declared?": (None, float), "rows_far_out?": (None, float), "too_small?": (None, bool)}
_ESTIMATE = {
    **_MEAN,
    "rho": float,
    "level": float,
    "target": str,
    "sigma?": _SIGMA,
    "strata?": {str: {**_MEAN, "share": float}},
}
MEANS_SHAPE = {
    "rho": float, "over?": str, "weights?": str, "relation?": str, "target?": str, "codes?": dict,
    "outcomes": {str: {str: _ESTIMATE}},
}  # fmt: skip


def read_card(folder: Path) -> Any:
    """Read the card of a release folder.

    Parameters
    ----------
    folder : Path
        The release folder.

    Returns
    -------
    dict
        The card.

    Raises
    ------
    InputError
        If a value has the wrong type. The message contains its key.
    """
    return read_json(folder / "card.json", f"release {str(folder)!r}", CARD)


def parse_card(content: bytes, where: str) -> Any:
    """Parse the content of a card.

    Parameters
    ----------
    content : bytes
        The content of `card.json`.
    where : str
        The name of the release in error messages.

    Returns
    -------
    dict
        The card.

    Raises
    ------
    InputError
        If a value has the wrong type. The message contains its key.
    """
    return parse_json(content, f"card.json of {where}", CARD)


def read_means(folder: Path) -> dict[str, Any] | None:
    """Read the private means of a release folder.

    Parameters
    ----------
    folder : Path
        The release folder.

    Returns
    -------
    dict or None
        The content of `means.json`, or None if there is no such file.

    Raises
    ------
    InputError
        If a value has the wrong type. The message contains its key.
    """
    path = folder / MEANS
    if not path.exists():
        return None
    found: dict[str, Any] = read_json(path, f"release {str(folder)!r}", MEANS_SHAPE)
    return found


def ledger_of(card: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the ledger entry on a card.

    Parameters
    ----------
    card : mapping
        The card of a release.

    Returns
    -------
    mapping or None
        The entry, or None if the release was not charged to a ledger.
    """
    ledger = card.get("ledger")
    return ledger if isinstance(ledger, Mapping) else None


def check_card(card: Mapping[str, Any], schema: Schema, where: str) -> None:
    """Raise InputError unless a card belongs to a release with this schema.

    Parameters
    ----------
    card : mapping
        The card of a release.
    schema : Schema
        The schema in the release folder.
    where : str
        The name of the release in error messages.
    """
    if not card["rows"] >= 0:
        raise InputError(f"card.json of {where} has 'rows' = {card['rows']}, but must be at least 0; {MEND}")
    if not 0 <= card.get("held_out", 0.0) < 1:
        raise InputError(f"card.json of {where} says that all rows or more than all rows were held out; {MEND}")
    if not 0 < card["config"].get("holdout", 0.5) < 1:
        raise InputError(f"card.json of {where} has a setting 'holdout' that is not between 0 and 1; {MEND}")
    if card["schema"]["sha256"] != schema.digest:
        raise InputError(f"schema.json of {where} is not the schema that its card names; {MEND}")
