"""Reading of the measurements in a release folder, with checks against the schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from equistrata.analysis.contents.frames import stratum_words
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.texts.manifest import MEND
from equistrata.errors import InputError
from equistrata.synth.measurements import Measurement
from equistrata.synth.names import is_foreign
from equistrata.synth.registry import mechanism
from equistrata.synth.storage import load_all_measurements


def read_evidence(folder: Path, card: Mapping[str, Any], strata: Strata) -> Evidence:
    """Read the measurements in a folder and the settings of the model.

    Raises InputError if there are no measurements, or if they do not agree with the schema.
    """
    check_publishes_measurements(card)
    made = mechanism(card["config"]["synthesizer"], "mbi" if card.get("engine") == "mbi" else "numpy")
    found = load_all_measurements(strata, folder / "measurements")
    check_measured((each for part in found.values() for each in part), strata.schema, folder)
    return Evidence.of(strata, found, made, shrinkage=card["shrinkage"], held_out=card.get("held_out", 0.0))


def check_publishes_measurements(card: Mapping[str, Any]) -> None:
    """Raise InputError for a foreign synthesizer, which does not publish measurements. Its code is not run."""
    if is_foreign(name := card["config"]["synthesizer"]):
        raise InputError(
            f"a release by {card.get('mechanism', name)} publishes no measurements, so the error of its rows "
            "is not known; make it with mst, aim or gem"
        )


def measured(measurements: Iterable[Measurement], schema: Schema) -> pd.DataFrame:
    """Return the measurements as a data frame. See `equistrata.analysis.release.Release.measured`."""
    lines = [
        (" × ".join(each.columns) or "number of rows", stratum_words(dict(each.where), schema), each.sigma,
         each.values.size)
        for each in measurements
    ]  # fmt: skip
    return pd.DataFrame(lines, columns=["columns", "stratum", "sigma", "cells"])


def check_measured(measured: Iterable[Measurement], schema: Schema, folder: Path) -> None:
    """Raise InputError unless there are measurements and all of them agree with the columns and codes of the schema."""
    place = 0
    for place, each in enumerate(measured, start=1):
        if not _fits(schema, each):
            raise InputError(
                f"measurement {place} ({', '.join(each.columns) or 'number of rows'}) of {str(folder)!r} does "
                "not fit the schema; it was changed, or made by a version that counted units or divided bins in "
                "another way; read it with that version, or ask for a new release"
            )
    if not place:
        raise InputError(f"release {str(folder)!r} has no measurements, so its error is not known; {MEND}")


def _fits(schema: Schema, measurement: Measurement) -> bool:
    """Return True if a measurement has columns and codes of the schema, and noise."""
    if not measurement.involved <= set(schema.names) or not measurement.sigma > 0:
        return False
    parts = list(zip((schema[name].size for name in measurement.columns), measurement.groups, strict=True))
    merged = all(groups is None or len(groups) == size for size, groups in parts)
    sizes = [size if groups is None else max(groups) + 1 for size, groups in parts]
    return merged and list(measurement.values.shape) == sizes
