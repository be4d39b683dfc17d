"""SDNist's excerpts as tables to release: CSV files, the dictionary beside them, published sets of features.

The schema is what equistrata drafts from data_dictionary.json, so nothing of it is read off the rows, with one
exception: the dictionary lists no codes of INDP (the Census Bureau does), so those in the rows stand in for the list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from benchmarks.kmarginal import ABSENT, Dictionary
from equistrata.data.drafting.books import read_codebook
from equistrata.data.drafting.draft import draft
from equistrata.data.schema import Schema
from equistrata.errors import InputError

DICTIONARY = "data_dictionary.json"
UNLISTED = "INDP"
_DEMOGRAPHIC = "AGEP SEX MSP RAC1P HOUSING_TYPE OWN_RENT EDU PINCP_DECILE DVET DEYE"
_MOST = (
    "PUMA AGEP SEX MSP HISP RAC1P NOC NPF HOUSING_TYPE OWN_RENT INDP INDP_CAT EDU PINCP PINCP_DECILE POVPIP DVET DREM "
    "DPHY DEYE DEAR"
)
# As SDNist's sample reports and NIST's Collaborative Research Cycle call them; set-1 to set-3 are the reduced sets of
# the excerpts' README (its SECTOR is called INDP_CAT now).
FEATURES = {
    name: tuple(text.split())
    for name, text in {
        "demographic": _DEMOGRAPHIC,
        "demographic-except-DEYE": _DEMOGRAPHIC.removesuffix(" DEYE"),
        "21": _MOST,
        "23": f"{_MOST} WGTP PWGTP",
        "all": f"{_MOST} WGTP PWGTP DENSITY",
        "set-1": "AGEP RAC1P MSP SEX HOUSING_TYPE OWN_RENT DVET DEYE",
        "set-2": "AGEP INDP_CAT RAC1P SEX HOUSING_TYPE OWN_RENT DVET DEYE",
        "set-3": "AGEP SEX MSP PINCP_DECILE HISP DVET DREM DEYE",
    }.items()
}
_YOUNGER = re.compile(r"less than (\d+) years", re.I)


def dictionary_in(folder: Path) -> Dictionary:
    """The data dictionary of a folder. Raises InputError if there is none that can be read."""
    path = folder / DICTIONARY
    try:
        found = json.loads(path.read_text("utf-8"))
        return {str(name): dict(entry) for name, entry in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        raise InputError(f"{str(path)!r} is no data dictionary; give a folder with SDNist's CSV files and it") from None


def features_named(text: str) -> tuple[str, ...]:
    """A published set of features, or names with commas between."""
    names = FEATURES.get(text) or tuple(name.strip() for name in text.split(",") if name.strip())
    if len(names) < 2:
        raise InputError(f"unknown features {text!r}; give {', '.join(FEATURES)}, or two columns or more: AGEP,SEX,…")
    return names


def rows_in(folder: Path, tables: Sequence[str], features: Sequence[str]) -> pd.DataFrame:
    """The rows of these CSV files (all of the folder if none is named) one after the other, as texts.

    Raises InputError if a file or a feature is missing.
    """
    paths = [folder / f"{name.removesuffix('.csv')}.csv" for name in tables] or sorted(folder.glob("*.csv"))
    if not paths:
        raise InputError(f"{str(folder)!r} holds no CSV file; give the folder of SDNist's excerpts")
    frames = []
    for path in paths:
        try:
            frame = pd.read_csv(path, dtype=str, keep_default_na=False)
        except (OSError, ValueError):
            raise InputError(f"{str(path)!r} is no CSV file that can be read; name tables of the folder") from None
        lacking = [name for name in features if name not in frame]
        if lacking:
            raise InputError(f"{str(path)!r} lacks the feature {lacking[0]}; choose others with --features")
        frames.append(frame[list(features)])
    return pd.concat(frames, ignore_index=True)


def schema_for(folder: Path, rows: pd.DataFrame, rules: bool = True) -> Schema:
    """The drafted schema of these columns; with the impossible combinations that the dictionary's words declare."""
    names = list(rows.columns)
    document: dict[str, Any] = yaml.safe_load(draft(names, read_codebook(folder / DICTIONARY), "excerpt").text)
    document["default"] = names
    if UNLISTED in names:
        document["columns"][UNLISTED] = {"values": sorted(rows[UNLISTED].unique())}
    if rules:
        document["impossible"] = declared_rules(dictionary_in(folder), names)
    return Schema.from_dict(document, "the drafted schema").select(names)


def declared_rules(dictionary: Dictionary, names: Sequence[str]) -> list[dict[str, list[Any]]]:
    """Impossible combinations that the dictionary's words say: "N/A (less than 15 years old)", "Group quarters".

    >>> words = {"AGEP": {}, "MSP": {"values": {"N": "N/A (age less than 15 years)", "1": "Married"}}}
    >>> declared_rules(words, ["AGEP", "MSP"])
    [{'AGEP': ['<15'], 'MSP': ['1']}, {'AGEP': ['>=15'], 'MSP': ['N']}]
    """
    found: list[dict[str, list[Any]]] = []
    homes = dictionary.get("HOUSING_TYPE", {}).get("values", {}) if "HOUSING_TYPE" in names else {}
    institutions = [code for code, words in homes.items() if "group quarters" in words.lower()]
    for name in names:
        values = dictionary.get(name, {}).get("values", {})
        kept = [code for code in values if code != ABSENT]
        words = str(values.get(ABSENT, ""))
        younger = _YOUNGER.search(words)
        if younger and "AGEP" in names and "min" not in values:
            found.append({"AGEP": [f"<{younger[1]}"], name: kept})
            if " or " not in words:  # nobody else has none
                found.append({"AGEP": [f">={younger[1]}"], name: [ABSENT]})
        if name == "OWN_RENT" and institutions:
            found.append({"HOUSING_TYPE": [int(code) for code in homes if code not in institutions], name: [0]})
            found.append({"HOUSING_TYPE": [*map(int, institutions)], name: [int(code) for code in kept if code != "0"]})
    return found
