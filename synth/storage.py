"""Files of noisy measurements.

The files are JSON, so that people and programs in any language can read them. They are saved with a release because all
later steps, such as estimation and sampling, are free and repeatable.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.strata import Key, Strata
from equistrata.data.texts.json_documents import MOST_BYTES_OF_NUMBERS, read_json
from equistrata.errors import InputError
from equistrata.synth.measurements import Columns, FilteredMeasurement, FormerEstimate, Measurement, Merging, Where

MEASUREMENTS_FORMAT = "equistrata measurements 1"
MARGINAL = {"columns": [str], "groups": [(None, [int])], "shape": [int], "values": [float], "where?": {str: int}}
_ONE = {**MARGINAL, "sigma": float, "sigmas?": [float], "former?": bool, "choices?": float}
_SHAPE = {"format": str, "measurements": [_ONE]}
ALL_ROWS_FILE = "all.json"  # the file name of the single stratum of all rows, as Strata.file_name gives it


def save_measurements(measurements: Sequence[Measurement], path: Path) -> None:
    """Write measurements to a JSON file.

    Parameters
    ----------
    measurements : sequence of Measurement
        The measurements to write.
    path : Path
        The file to write.
    """
    document = {
        "format": MEASUREMENTS_FORMAT,
        "measurements": [
            {
                "columns": list(m.columns),
                "sigma": m.sigma,
                "groups": [None if g is None else list(g) for g in m.groups],
                "shape": list(m.values.shape),
                "values": [int(v) if float(v).is_integer() else v for v in m.values.ravel().tolist()],
                **({"where": dict(m.where)} if m.where else {}),
                **(
                    {"sigmas": m.sigmas.ravel().tolist()} if isinstance(m, FormerEstimate | FilteredMeasurement) else {}
                ),
                **({"former": True} if isinstance(m, FormerEstimate) else {}),
                **({} if math.isnan(m.choices) else {"choices": m.choices}),
            }
            for m in measurements
        ],
    }
    path.write_text(json.dumps(document, separators=(",", ":")), "utf-8")


def load_measurements(path: Path) -> list[Measurement]:
    """Read the measurements that `save_measurements` wrote.

    Parameters
    ----------
    path : Path
        The file to read.

    Returns
    -------
    list of Measurement
        The measurements.

    Raises
    ------
    InputError
        If the file is not a measurements file of this version.
    """
    document = read_json(path, f"folder {str(path.parent)!r}", _SHAPE, MOST_BYTES_OF_NUMBERS)
    try:
        if document["format"] != MEASUREMENTS_FORMAT:
            raise ValueError
        return [_read(entry) for entry in document["measurements"]]
    except (ValueError, ArithmeticError):
        raise InputError(
            f"{str(path)!r} is not a measurements file of this version; give a file from a release"
        ) from None


def save_all_measurements(measured: Mapping[Key, Sequence[Measurement]], strata: Strata, folder: Path) -> None:
    """Write one readable file of measurements per stratum.

    A file is named after its stratum. The measurements of a shared selection are written to `all.json`.

    Parameters
    ----------
    measured : mapping of tuple to sequence of Measurement
        The measurements of each stratum. The key `()` stands for all rows.
    strata : Strata
        The strata, which name the files.
    folder : Path
        The folder to write to. It is created if it does not exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for key, noisy in measured.items():
        save_measurements(noisy, folder / (f"{strata.file_name(key)}.json" if key else ALL_ROWS_FILE))


def load_all_measurements(strata: Strata, folder: Path) -> dict[Key, list[Measurement]]:
    """Read the measurements that `save_all_measurements` or a release wrote.

    Parameters
    ----------
    strata : Strata
        The strata, which name the files.
    folder : Path
        The folder to read from.

    Returns
    -------
    dict of tuple to list of Measurement
        The measurements of each stratum. The key `()` stands for all rows.

    Raises
    ------
    InputError
        If the file of a stratum is missing or damaged.
    """
    if (folder / ALL_ROWS_FILE).exists():
        return {(): load_measurements(folder / ALL_ROWS_FILE)}
    return {key: load_measurements(folder / f"{strata.file_name(key)}.json") for key in strata.keys}


def _read(entry: Mapping[str, Any]) -> Measurement:
    columns, values, groups, where = marginal_in(entry)
    about = columns, values, float(entry["sigma"]), groups, where, float(entry.get("choices", math.nan))
    if "sigmas" not in entry:
        return Measurement(*about)
    return (FormerEstimate if entry.get("former") else FilteredMeasurement)(*about, sigmas=shaped(entry, "sigmas"))


def marginal_in(entry: Mapping[str, Any]) -> tuple[Columns, Floats, tuple[Merging, ...], Where]:
    """Parse the columns, the values, the groups of codes and the stratum of an entry with the shape MARGINAL.

    Raises
    ------
    ValueError
        If a column is repeated, if a group has no code, or if the values do not have the declared shape.
    """
    groups = tuple(None if g is None else tuple(g) for g in entry["groups"])
    whole = (g is None or set(g) == set(range(len(set(g)))) for g in groups)
    if len(set(entry["columns"])) < len(entry["columns"]) or not all(whole):
        raise ValueError("a column twice, or a group without a code")
    return tuple(entry["columns"]), shaped(entry, "values"), groups, tuple(entry.get("where", {}).items())


def shaped(entry: Mapping[str, Any], name: str) -> Floats:
    """Return the numbers of an entry as an array with the shape that the entry declares.

    Raises
    ------
    ValueError
        If an axis has no cell, or if the numbers do not have the declared shape.
    """
    if min(entry["shape"], default=1) < 1:  # because NumPy would infer the length of an axis of -1
        raise ValueError("an axis without a cell")
    return np.array(entry[name], dtype=float).reshape(entry["shape"])
