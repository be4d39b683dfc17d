"""Whether every stratum chooses for itself what is measured, or one choice serves all of them (shared selection).

Decided from settings and the schema alone. Where a shared choice is made, charged and measured: see
`equistrata.synth.mechanisms.levels`.
"""

from __future__ import annotations

from itertools import combinations
from math import prod

from equistrata.data.strata import Strata
from equistrata.errors import InputError
from equistrata.stats.checks import one_of
from equistrata.synth.mechanisms.base import Mechanism, SharingMechanism
from equistrata.synth.models.coarsening import FINE_GROUPS, merged_sizes
from equistrata.synth.models.estimation import model_cliques
from equistrata.synth.models.junction_tree import cells_in, tree_cells

SELECTIONS, LEVELS = ("shared", "per-stratum"), ("auto", "strata", "none")
MOST_PAIR_CELLS = 1_000_000  # of a pair of columns within all strata: with larger ones, strata are modelled one by one


def check_selection(selection: str | None, levels: str) -> None:
    """Raise InputError for a selection or levels that `shared_selection` does not know."""
    if selection is not None:
        one_of("selection", selection, SELECTIONS)
    one_of("levels", levels, LEVELS)


def shared_selection(
    mechanism: Mechanism, strata: Strata, selection: str | None = None, levels: str = "auto"
) -> SharingMechanism | None:
    """The mechanism with one choice for all strata, or None if every stratum chooses for itself, or there is but one.

    Args:
        selection: "shared", "per-stratum", or None for shared where the mechanism and the schema allow it, unless the
            noisy number of rows shows that all strata are large (`Levels.large`).
        levels: "auto": over all rows and within strata; "strata": within strata only; "none": over all rows only. With
            per-stratum selection everything is measured within strata.

    Raises:
        InputError: an unknown choice, or one that this mechanism or schema cannot serve.
    """
    check_selection(selection, levels)
    if len(strata.keys) < 2:
        return None
    if selection == "per-stratum":
        hindrance = "every stratum was asked to choose for itself"
    elif not isinstance(mechanism, SharingMechanism):
        hindrance = f"{mechanism.name} fits every stratum by itself"
    else:
        coarse, fine = levels != "strata", levels != "none"
        shared = mechanism.with_levels(strata.columns, coarse, fine, selection is None)
        hindrance = _hindrance(shared, strata)
        if hindrance and coarse and fine and strata.nested:  # coarser levels serve where models within are too large
            shared = mechanism.with_levels(strata.columns, coarse, False, selection is None)
            hindrance = _hindrance(shared, strata)
        if not hindrance:
            return shared
    if selection == "shared":
        raise InputError(f"selection cannot be shared: {hindrance}; leave it out, or say per-stratum")
    if levels == "none":
        raise InputError(f"levels 'none' need shared selection, but {hindrance}; leave the levels or the strata out")
    return None


def _hindrance(shared: SharingMechanism, strata: Strata) -> str:
    """Why one choice cannot serve all strata; empty if it can. It finds what would fail once rows were measured."""
    if not shared.engine.weighs_cells:
        return "the engine cannot use what strata lend each other; engine 'numpy' can"
    schema = strata.schema
    inner = [column for column in schema.columns if column.name not in strata.columns]
    if not shared.levels.coarser and any(column.fine for column in inner):
        return "columns without edges are merged by what is measured of them over all rows"
    if (shared.levels.fine or not strata.nested) and _pair_cells(strata) > MOST_PAIR_CELLS:
        return f"a pair of columns within all strata has more than {MOST_PAIR_CELLS:,} cells"
    cliques = model_cliques(schema, [], shared.levels.tied(schema))
    bare = shared.engine.graphical and tree_cells(merged_sizes(schema, strata.columns), cliques)
    room = shared.model_size / 2  # the other half is for what is chosen
    if bare > cells_in(room):
        return f"a model of all strata needs more than {room:g} MiB before anything is measured together"
    return ""


def _pair_cells(strata: Strata) -> int:
    """The cells of the largest pair of other columns within all strata."""
    inner = [column for column in strata.schema.columns if column.name not in strata.columns]
    sizes = [min(column.size, FINE_GROUPS) if column.fine else column.size for column in inner]
    return max((prod(pair) for pair in combinations(sizes, 2)), default=0) * prod(strata.sizes)
