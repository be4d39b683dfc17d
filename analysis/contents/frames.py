"""Frames of a release's card: its price, its rows in words, their code book and weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.synth.strata.model import NOISY_SOURCE


def codebook(schema: Schema) -> pd.DataFrame:
    """See `equistrata.analysis.release.Release.codebook`."""
    lines = [(column.name, column.label, key, column.words(key)) for column in schema.published for key in column.keys]
    return pd.DataFrame(lines, columns=["column", "label", "code", "words"])


def price(card: Mapping[str, Any]) -> pd.DataFrame:
    """See `equistrata.analysis.release.Release.price`."""
    guarantee = card["guarantee"]
    own = guarantee.get("release")
    parts = {"release": guarantee} if own is None else {"release and audits": guarantee, "release": own}
    every = guarantee.get("unit", "one row"), guarantee["relation"], bool(card.get("private", False))
    lines = [(of, each["epsilon"], guarantee["delta"], each["rho"], *every) for of, each in parts.items()]
    return pd.DataFrame(lines, columns=["of", "epsilon", "delta", "rho", "unit", "relation", "private"])


def sampling_frame(card: Mapping[str, Any], strata: Strata, sizes: Floats) -> pd.DataFrame:
    """See `equistrata.analysis.release.Release.sampling_frame`; `sizes`: the released rows of each stratum."""
    lines = [
        (stratum_words(strata.codes_of(key), strata.schema), int(rows), rows / max(sizes.sum(), 1.0))
        for key, rows in zip(strata.keys, sizes, strict=True)
    ]
    found = pd.DataFrame(lines, columns=["stratum", "rows", "share"])
    weights = card["strata"].get("weights", NOISY_SOURCE)
    return found.assign(weights=weights, held_out=float(card.get("held_out", 0.0)))


def stratum_words(codes: Mapping[str, int], schema: Schema) -> str:
    """A stratum as frames name it: each column with its value; nothing for all rows."""
    return ", ".join(f"{name}={schema[name].keys[code]}" for name, code in codes.items())
