"""Who chooses what is measured: every stratum for itself, or one choice for all of them (`synth.levels`)."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import prod
from typing import Literal

from data.errors import InputError
from data.schema import Schema
from data.strata import Strata
from synth.aim import AIM
from synth.estimation import MirrorDescent
from synth.levels import Levels
from synth.mechanism import Mechanism
from synth.mst import MST

Selection = Literal["shared", "per-stratum"]
LevelsChoice = Literal["auto", "strata", "none"]
SharedMechanism = AIM | MST

MOST_CELLS = 1_000_000  # of a pair of columns within all strata: with larger ones, strata are modelled one by one
MODEL_SIZE = 2.0  # MiB of one model for all strata


def share(
    mechanism: Mechanism, strata: Strata, selection: str | None = None, levels: str = "auto"
) -> SharedMechanism | None:
    """The mechanism with one choice for all strata, or None if every stratum chooses for itself.

    Args:
        selection: "shared", "per-stratum", or None for shared where the mechanism and the schema allow it.
        levels: "auto": over all rows and within strata; "strata": within strata only; "none": over all rows only. With
            per-stratum selection everything is measured within strata.

    Raises:
        InputError: an unknown choice, or one that this mechanism or schema cannot serve.
    """
    if selection not in (None, "shared", "per-stratum"):
        raise InputError(f"unknown selection {selection!r}; choose shared or per-stratum")
    if levels not in ("auto", "strata", "none"):
        raise InputError(f"unknown levels {levels!r}; choose auto, strata or none")
    if len(strata.keys) < 2:
        return None
    hindrance = "every stratum was asked to choose for itself"
    if selection != "per-stratum":
        hindrance = _hindrance(mechanism, strata)
        if not hindrance:
            assert isinstance(mechanism, AIM | MST)
            chosen = Levels(strata.columns, coarse=levels != "strata", fine=levels != "none")
            size = max(mechanism.max_model_size, MODEL_SIZE)
            return replace(mechanism, levels=chosen, max_model_size=size, engine=MirrorDescent(iterations=500))
        if selection == "shared":
            raise InputError(f"selection cannot be shared: {hindrance}; leave it out, or say per-stratum")
    if levels == "none":
        raise InputError(f"levels 'none' need shared selection, but {hindrance}; leave the levels or the strata out")
    return None


def _hindrance(mechanism: Mechanism, strata: Strata) -> str:
    """Why one choice cannot serve all strata; empty if it can."""
    if not isinstance(mechanism, AIM | MST):
        return f"{mechanism.name} fits every stratum by itself"
    if not isinstance(mechanism.engine, MirrorDescent):
        return "the engine cannot use what strata lend each other; engine 'numpy' can"
    sizes = [column.size for column in strata.schema.columns if column.name not in strata.columns]
    if not sizes:
        return "all columns define strata"
    largest = max((prod(pair) for pair in combinations(sizes, 2)), default=sizes[0])
    if largest * _strata_cells(strata.schema, strata.columns) > MOST_CELLS:
        return f"a pair of columns within all strata has more than {MOST_CELLS:,} cells"
    return ""


def _strata_cells(schema: Schema, columns: tuple[str, ...]) -> int:
    return prod(schema[name].size for name in columns)
