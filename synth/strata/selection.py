"""The choice between shared selection and one selection per stratum.

In shared selection, one selection of marginals serves all strata. The choice depends only on the settings and the
schema. The selection itself is made, charged and measured in `equistrata.synth.mechanisms.levels`.
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
MOST_PAIR_CELLS = 1_000_000  # the maximum number of cells of a pair of columns within all strata in a shared selection


def check_selection(selection: str | None, levels: str) -> None:
    """Raise InputError if `shared_selection` does not support the selection or the levels."""
    if selection is not None:
        one_of("selection", selection, SELECTIONS)
    one_of("levels", levels, LEVELS)


def shared_selection(
    mechanism: Mechanism, strata: Strata, selection: str | None = None, levels: str = "auto"
) -> SharingMechanism | None:
    """Return the mechanism with one selection for all strata, if the strata share a selection.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism.
    strata : Strata
        The strata and the schema.
    selection : {"shared", "per-stratum"} or None, default=None
        The kind of selection:

        - If "shared", one selection is used for all strata.
        - If "per-stratum", a separate selection is used for each stratum.
        - If None, the selection is shared if the mechanism and the schema allow it. The mechanism can still use a
          separate selection for each stratum if the noisy number of rows shows that all strata are large
          (`Levels.large`).
    levels : {"auto", "strata", "none"}, default="auto"
        The levels at which marginals are measured. They are used only if the selection is shared, because separate
        selections measure all marginals within strata:

        - If "auto", the marginals are measured over all rows and within strata.
        - If "strata", the marginals are only measured within strata.
        - If "none", the marginals are only measured over all rows.

    Returns
    -------
    SharingMechanism or None
        The mechanism with its levels. It is None if the selections are separate, or if there is only one stratum.

    Raises
    ------
    InputError
        If a setting is unknown, or if the mechanism or the schema does not support it.
    """
    check_selection(selection, levels)
    if len(strata.keys) < 2:
        return None
    if selection == "per-stratum":
        hindrance = "each stratum was set to select separately"
    elif not isinstance(mechanism, SharingMechanism):
        hindrance = f"{mechanism.name} fits each stratum separately"
    else:
        coarse, fine = levels != "strata", levels != "none"
        shared = mechanism.with_levels(strata.columns, coarse, fine, selection is None)
        hindrance = _reason_against_sharing(shared, strata)
        # If models within nested strata are too large, only the coarser levels are used.
        if hindrance and coarse and fine and strata.nested:
            shared = mechanism.with_levels(strata.columns, coarse, False, selection is None)
            hindrance = _reason_against_sharing(shared, strata)
        if not hindrance:
            return shared
    if selection == "shared":
        raise InputError(f"selection cannot be shared: {hindrance}; leave out selection, or use per-stratum")
    if levels == "none":
        raise InputError(f"levels 'none' need shared selection, but {hindrance}; leave out the levels or the strata")
    return None


def _reason_against_sharing(shared: SharingMechanism, strata: Strata) -> str:
    """Return the reason why a shared selection is not possible, or an empty string if it is possible.

    The check finds problems that would otherwise occur after the rows are measured.
    """
    if not shared.engine.weighs_cells:
        return "the engine cannot use information from other strata; use engine 'numpy'"
    schema = strata.schema
    inner = [column for column in schema.columns if column.name not in strata.columns]
    if not shared.levels.coarser and any(column.fine for column in inner):
        return "columns without edges are merged by measurements over all rows"
    if (shared.levels.fine or not strata.nested) and _pair_cells(strata) > MOST_PAIR_CELLS:
        return f"a pair of columns has more than {MOST_PAIR_CELLS:,} cells over all strata"
    cliques = model_cliques(schema, [], shared.levels.tied(schema))
    bare = shared.engine.graphical and tree_cells(merged_sizes(schema, strata.columns), cliques)
    room = shared.model_size / 2  # the other half is for the selected marginals
    if bare > cells_in(room):
        return f"a model of all strata needs more than {room:g} MiB even without any measured pair"
    return ""


def _pair_cells(strata: Strata) -> int:
    """Count the cells of the largest pair of other columns within all strata."""
    inner = [column for column in strata.schema.columns if column.name not in strata.columns]
    sizes = [min(column.size, FINE_GROUPS) if column.fine else column.size for column in inner]
    return max((prod(pair) for pair in combinations(sizes, 2)), default=0) * prod(strata.sizes)
