"""A release's rows in words, its code book and its price, and whether what was measured is of its schema."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from equistrata.data.files.manifest import MEND
from equistrata.data.schema import Column, Schema
from equistrata.errors import InputError
from equistrata.synth.measurements import Measurement


def read_json(path: Path, where: str) -> Any:
    """What a file of JSON holds. Raises InputError where it is none, or has a key twice, of which each reader takes
    another one."""
    try:
        return json.loads(path.read_text("utf-8"), object_pairs_hook=_once)
    except (OSError, ValueError, RecursionError):
        raise InputError(f"{path.name} of {where} cannot be read as JSON; {MEND}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key twice")
    return found


def worded(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Rows with categorical columns as pandas categories of words, in the declared order."""
    return frame.assign(
        **{column.name: _words(frame[column.name], column) for column in schema.columns if column.values}
    )


def _words(cells: pd.Series, column: Column) -> pd.Series:
    words = [column.words(value) for value in column.values]
    if len(set(words)) < len(words):  # two values of one label
        words = [f"{value}: {each}" for value, each in zip(column.values, words, strict=True)]
    coded = pd.Categorical(cells, categories=list(column.values), ordered=column.ordered)
    return pd.Series(coded.rename_categories(dict(zip(column.values, words, strict=True))), index=cells.index)


def codebook(schema: Schema) -> pd.DataFrame:
    """See `equistrata.analysis.release.Release.codebook`."""
    lines = [(column.name, column.label, key, column.words(key)) for column in schema.columns for key in column.keys]
    return pd.DataFrame(lines, columns=["column", "label", "code", "words"])


def price(card: Mapping[str, Any], where: str) -> pd.DataFrame:
    """See `equistrata.analysis.release.Release.price`; `where`: what an error names."""
    guarantee = card["guarantee"]
    own = guarantee.get("release")
    parts = {"release": guarantee} if own is None else {"release and audits": guarantee, "release": own}
    try:
        every = guarantee.get("unit", "one row"), guarantee["relation"], bool(card.get("private", False))
        lines = [(of, each["epsilon"], guarantee["delta"], each["rho"], *every) for of, each in parts.items()]
    except (KeyError, TypeError):
        raise InputError(f"card.json of {where} does not say its price; {MEND}") from None
    return pd.DataFrame(lines, columns=["of", "epsilon", "delta", "rho", "unit", "relation", "private"])


def check_measured(measured: Iterable[Measurement], schema: Schema, folder: Path) -> None:
    """Raise InputError unless there are measurements, each of columns and codes that the schema has."""
    place = 0
    for place, each in enumerate(measured, start=1):
        if not _fits(schema, each):
            raise InputError(
                f"measurement {place} ({', '.join(each.columns) or 'number of rows'}) of {str(folder)!r} does "
                "not fit the schema; it was changed, or made by a version that counted units otherwise: read it "
                "with that version, or ask for a new release"
            )
    if not place:
        raise InputError(f"release {str(folder)!r} holds no measurements, so nothing says how far off it is")


def _fits(schema: Schema, measurement: Measurement) -> bool:
    """Whether a measurement is of columns and codes that the schema has, with noise."""
    if not measurement.involved <= set(schema.names) or not measurement.sigma > 0:
        return False
    parts = list(zip((schema[name].size for name in measurement.columns), measurement.groups, strict=True))
    merged = all(groups is None or len(groups) == size for size, groups in parts)
    sizes = [size if groups is None else max(groups) + 1 for size, groups in parts]
    return merged and list(measurement.values.shape) == sizes
