"""Former months of a series as all months tell them: a Rauch–Tung–Striebel smoother over the filter's months.

A month's state knows that month and those before it. What was measured later says something of it as well, since counts
drift slowly. Going back from the last month, each count is moved by a part of what later months moved it:

    C = P/P′,      x ← x + C·(x″ − x),      P ← P + C²·(P″ − P′)

x, P are of the month's state; P′ is the variance with which it predicts the next month, with drift and jumps; x″, P″
are the next month's, smoothed. What jumped has a large P′, so it is not carried back. Post-processing of published
noisy numbers, no cost. See docs/proofs/series.md.

Source: Rauch, Tung and Striebel, AIAA Journal 1965.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from equistrata.synth.measurements import Former
from equistrata.synth.series.drift import Month
from equistrata.synth.series.state import Marginal, State, known, marginal_of


def smoothed(first: State, months: Sequence[Month]) -> list[tuple[Former, ...]]:
    """What all months together say of each of them: of each marginal that its state knows, counts and their σ.

    Args:
        first: the state after the first month.
        months: the others, in order, each filtered from the state before it.
    """
    states = [first, *(month.state for month in months)]
    found = [states[-1].known]
    for state, month in zip(reversed(states[:-1]), reversed(months), strict=True):
        later = {marginal_of(each): each for each in found[0]}
        prior = {marginal_of(each): each for each in month.prior}
        found.insert(0, tuple(_smoothed(each, prior, later) for each in state.known))
    return found


def _smoothed(each: Former, prior: Mapping[Marginal, Former], later: Mapping[Marginal, Former]) -> Former:
    """A marginal with what the next month's smoothed one says; itself if the next month does not know it."""
    name = marginal_of(each)
    if name not in prior or name not in later:
        return each
    before, after = prior[name], later[name]
    here, there = each.sigmas**2, before.sigmas**2
    part = here / there
    values = each.values + part * (after.values - before.values)
    return known(each, values, here + part**2 * (after.sigmas**2 - there))
