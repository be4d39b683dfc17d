"""Data frames about a release: its price, its code book and its sampling frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.synth.strata.model import NOISY_SOURCE


def codebook(schema: Schema) -> pd.DataFrame:
    """Return the code book. See `equistrata.analysis.release.Release.codebook`."""
    lines = [(column.name, column.label, key, column.words(key)) for column in schema.published for key in column.keys]
    return pd.DataFrame(lines, columns=["column", "label", "code", "words"])


def price(card: Mapping[str, Any]) -> pd.DataFrame:
    """Return the privacy loss. See `equistrata.analysis.release.Release.price`."""
    guarantee = card["guarantee"]
    own = guarantee.get("release")
    parts = {"release": guarantee} if own is None else {"release and audits": guarantee, "release": own}
    every = guarantee.get("unit", "one row"), guarantee["relation"], bool(card.get("private", False))
    lines = [(of, each["epsilon"], guarantee["delta"], each["rho"], *every) for of, each in parts.items()]
    return pd.DataFrame(lines, columns=["of", "epsilon", "delta", "rho", "unit", "relation", "private"])


def sampling_frame(card: Mapping[str, Any], strata: Strata, sizes: Floats) -> pd.DataFrame:
    """Return the sampling frame. See `equistrata.analysis.release.Release.sampling_frame`.

    `sizes` contains the number of released rows in each stratum.
    """
    lines = [
        (stratum_words(strata.codes_of(key), strata.schema), int(rows), rows / max(sizes.sum(), 1.0))
        for key, rows in zip(strata.keys, sizes, strict=True)
    ]
    found = pd.DataFrame(lines, columns=["stratum", "rows", "share"])
    weights = card["strata"].get("weights", NOISY_SOURCE)
    return found.assign(weights=weights, held_out=float(card.get("held_out", 0.0)))


def stratum_words(codes: Mapping[str, int], schema: Schema) -> str:
    """Return the name of a stratum in data frames: each column with its value. It is empty for all rows."""
    return ", ".join(f"{name}={schema[name].keys[code]}" for name, code in codes.items())
