"""Smoothing of the former months of a series with the measurements of all months.

The state of a month depends only on this month and former months. Later measurements also contain information about the
month, because counts drift slowly. The months are processed in reverse order by the smoother of Rauch, Tung and
Striebel [1]_. It adjusts each count by a part of the adjustment of the next month:

    C = P/P′,      x ← x + C·(x″ − x),      P ← P + C²·(P″ − P′)

The count x and its variance P are those of the state of the month. The variance P′ is that of the prediction of the
next month, which includes drift and jumps. The count x″ and its variance P″ are the smoothed values of the next month.
A count that jumped has a large P′, so its change is not carried back. The smoothing is post-processing of published
noisy numbers and has no privacy cost. See docs/proofs/series.md.

References
----------
.. [1] Rauch, Tung and Striebel, AIAA Journal 1965.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from equistrata.synth.measurements import FormerEstimate
from equistrata.synth.series.drift import Month
from equistrata.synth.series.state import Marginal, State, known, marginal_of


def smooth_states(first: State, months: Sequence[Month]) -> list[tuple[FormerEstimate, ...]]:
    """Smooth the states of all months.

    Parameters
    ----------
    first : State
        The state after the first month.
    months : sequence of Month
        The other months in order. Each month was filtered from the state of the previous month.

    Returns
    -------
    list of tuple of Former
        For each month, the smoothed marginals of its state, with their standard deviations.
    """
    states = [first, *(month.state for month in months)]
    found = [states[-1].known]
    for state, month in zip(reversed(states[:-1]), reversed(months), strict=True):
        later = {marginal_of(each): each for each in found[0]}
        prior = {marginal_of(each): each for each in month.prior}
        found.insert(0, tuple(_smoothed(each, prior, later) for each in state.known))
    return found


def _smoothed(
    each: FormerEstimate, prior: Mapping[Marginal, FormerEstimate], later: Mapping[Marginal, FormerEstimate]
) -> FormerEstimate:
    """Smooth a marginal with the smoothed marginal of the next month.

    If the next month does not contain the marginal, it is returned unchanged.
    """
    name = marginal_of(each)
    if name not in prior or name not in later:
        return each
    before, after = prior[name], later[name]
    here, there = each.sigmas**2, before.sigmas**2
    part = here / there
    values = each.values + part * (after.values - before.values)
    return known(each, values, here + part**2 * (after.sigmas**2 - there))
