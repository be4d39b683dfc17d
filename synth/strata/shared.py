"""Who chooses what is measured: every stratum for itself, or one choice for all of them (`equistrata.synth.mechanisms.levels`)."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import prod

from equistrata.data.strata import Strata
from equistrata.errors import InputError
from equistrata.synth.mechanisms.aim import AIM
from equistrata.synth.mechanisms.base import Mechanism
from equistrata.synth.mechanisms.levels import Levels, ties
from equistrata.synth.mechanisms.mst import MST
from equistrata.synth.models.estimation import MirrorDescent, model_cliques
from equistrata.synth.models.junction_tree import cells_in, tree_cells

SharedMechanism = AIM | MST

MOST_CELLS = 1_000_000  # of a pair of columns within all strata: with larger ones, strata are modelled one by one
MODEL_SIZE = 4.0  # MiB of one model for all strata
# Of ρ for columns within strata: what a few trees of pairs leave unsaid, less noise would not say.
MST_COLUMNS, MST_CLEAR = 0.45, 0.6
TOLERANCE = 3e-4  # of its estimation: a smaller one changed nothing that could be measured


def share(
    mechanism: Mechanism, strata: Strata, selection: str | None = None, levels: str = "auto"
) -> SharedMechanism | None:
    """The mechanism with one choice for all strata, or None if every stratum chooses for itself, or there is but one.

    All that decides is public: settings and the schema. The mechanism keeps its settings, but its model, now of all strata,
    may have MODEL_SIZE, and its engine stops at TOLERANCE.

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
        if not hindrance and isinstance(mechanism, AIM | MST) and isinstance(mechanism.engine, MirrorDescent):
            chosen = Levels(strata.columns, coarse=levels != "strata", fine=levels != "none")
            if isinstance(mechanism, MST):
                chosen = replace(chosen, columns=MST_COLUMNS, clear=MST_CLEAR)
            engine = replace(mechanism.engine, tolerance=max(mechanism.engine.tolerance, TOLERANCE))
            return replace(mechanism, levels=chosen, max_model_size=_model_size(mechanism), engine=engine)
        if selection == "shared":
            raise InputError(f"selection cannot be shared: {hindrance}; leave it out, or say per-stratum")
    if levels == "none":
        raise InputError(f"levels 'none' need shared selection, but {hindrance}; leave the levels or the strata out")
    return None


def serving_all(mechanism: Mechanism) -> SharedMechanism | None:
    """The mechanism, if one choice of it serves all strata."""
    return mechanism if isinstance(mechanism, AIM | MST) and mechanism.levels is not None else None


def _hindrance(mechanism: Mechanism, strata: Strata) -> str:
    """Why one choice cannot serve all strata; empty if it can. What would fail once the rows are measured is told here."""
    if not isinstance(mechanism, AIM | MST):
        return f"{mechanism.name} fits every stratum by itself"
    if not isinstance(mechanism.engine, MirrorDescent):
        return "the engine cannot use what strata lend each other; engine 'numpy' can"
    schema = strata.schema
    sizes = [column.size for column in schema.columns if column.name not in strata.columns]
    if max((prod(pair) for pair in combinations(sizes, 2)), default=0) * prod(strata.sizes) > MOST_CELLS:
        return f"a pair of columns within all strata has more than {MOST_CELLS:,} cells"
    tied = [tuple(map(schema.index, columns)) for columns in ties(schema, strata.columns)]
    size = _model_size(mechanism)
    if tree_cells(schema.sizes, [*tied, *model_cliques(schema, [])]) > cells_in(size):
        return f"a model of all strata needs more than {size:g} MiB before anything is measured together"
    return ""


def _model_size(mechanism: SharedMechanism) -> float:
    return max(mechanism.max_model_size, MODEL_SIZE)
