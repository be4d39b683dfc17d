"""How far a model may be off pairs that AIM passed over: it chose others, and had these been far off it would not have.

What a pair is off by decides its score in each of the last rounds. The exponential mechanism took another set, and the
release shows its score: it was measured. With a score S of the pair, C of what was chosen and a scale g, the chance of
that is C's part, 1/(1 + exp((S − C)/g)/(1 + O)), where O is the weight of all other candidates over that of the
chosen one, by the final model. So the misfit's law that was learned of measured pairs, which were chosen because they
were far off, is weighed with the chance that this pair was chosen in none of the rounds. Nothing is said of a pair that
was not offered since the model would have become too large, nor where noise hides what is chosen: then the law stays.

s differs from pair to pair: log s is normal about a level that all pairs have, and so is the level, so that what is
said of one pair says something of the others; s² has the mean that was learned. Draws of what the table is off by, for
a grid of s, have the chance as their weight; s² of the result is their mean, with the distance of each in it.

Source: the exponential mechanism, McSherry and Talwar (2007). See docs/proofs/estimates.md. Post-processing, no cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.misfit import misfit_variance, with_known_sums
from equistrata.arrays import Floats
from equistrata.errors import enough_memory
from equistrata.stats.threads import one_thread
from equistrata.synth.measurements import Columns
from equistrata.synth.mechanisms.aim import AIM
from equistrata.synth.mechanisms.rounds import Round, last_rounds
from equistrata.synth.strata.selection import shared_selection

ROUNDS = 8  # the last ones: the model was near what it is now, and less noise was in what was chosen
LEVEL, SPREAD = 0.5, 1.0  # standard deviations of log s: of its level, and about it (docs/experiments/estimates.md)
MOST_CELLS = 1_000  # of a pair
_SIZES = np.geomspace(1e-4, 1.0, 31)  # s, as a part of the rows
_DRAWS = 60
_SEED = 7


@dataclass(frozen=True, eq=False)
class _Choice:
    """A round, with the score of what was chosen, and the log of 1 and all other candidates' weight over its."""

    round: Round
    score: float
    others: float


def passed_over(evidence: Evidence, pairs: Sequence[Columns], usual: float) -> dict[Columns, float]:
    """s of pairs that were not measured, as `learned_misfit`, by what was chosen in their place; of the others nothing.

    Args:
        usual: s of a pair of which nothing more is known.
    """
    strata, mechanism = evidence.strata, evidence.mechanism
    aim = shared_selection(mechanism, strata) if strata.columns else mechanism
    if not isinstance(aim, AIM) or set(evidence.measured) != {()} or not pairs:
        return {}
    with one_thread(), enough_memory("the models of the last rounds", "read it on a machine with more"):
        rounds = last_rounds(aim, strata.schema, evidence.published, ROUNDS)
        choices = [_choice(evidence, each) for each in rounds]
        told = {pair: found for pair in pairs if (found := _told(evidence, pair, choices)) is not None}
    return dict(zip(told, _sizes([*told.values()], usual), strict=True)) if told else {}


def _choice(evidence: Evidence, each: Round) -> _Choice:
    """The score of what was chosen, as measured or as the final model has it, whichever is higher: the first has noise
    in it, and a higher one says less of a pair. Candidates of three columns or more count as those of fewer do on
    average: most of these are less likely, and the more weight others have, the less is said of a pair."""
    few = [columns for columns in each.weights if len(columns) < 3]
    own = each.chosen.columns
    tables = {columns: each.merged(columns, evidence.model.marginal(columns)) for columns in dict.fromkeys([*few, own])}
    scores = {columns: float(each.scores(columns, table)) for columns, table in tables.items()}
    best = max(float(each.scores(own, each.chosen.values)), scores.pop(own))
    others = np.exp([score - best for score in scores.values()]).sum() * len(each.weights) / len(few)
    return _Choice(each, best, float(np.log1p(others)))


def _told(evidence: Evidence, pair: Columns, choices: Sequence[_Choice]) -> tuple[Floats, Floats] | None:
    """How likely it is that a pair was passed over, and that times the square of s by which its draws are off, by
    _SIZES; None if it is too large or was offered in no round."""
    offers = [choice for choice in choices if choice.round.offered(pair)]
    if not offers:
        return None
    counts = np.maximum(offers[0].round.merged(pair, evidence.model.marginal(pair)), 0.0)
    if counts.size > MOST_CELLS:
        return None
    normal = np.random.default_rng(_SEED).standard_normal((_DRAWS, *counts.shape))
    gaps = np.array([with_known_sums(normal, misfit_variance(counts, s * counts.sum())) for s in _SIZES])
    gaps = np.maximum(gaps, -counts)
    chance = np.zeros(gaps.shape[:2])  # its logarithm
    for choice in offers:
        scores = choice.round.scores(pair, counts + gaps)
        chance -= np.logaddexp(0.0, scores - choice.score - choice.others)
    far = np.abs(gaps).sum((2, 3))
    squares = np.square(_SIZES[:, None] * far / np.maximum(far.mean(1, keepdims=True), 1e-9))
    likely = np.exp(chance)
    return likely.mean(1), (likely * squares).mean(1)


def _sizes(told: Sequence[tuple[Floats, Floats]], usual: float) -> list[float]:
    """s of each pair, by what its own choices and those of the others say: see the module."""
    logs = np.log(_SIZES)
    about = _normal(logs[None, :], logs[:, None], SPREAD)  # of each level
    level = _normal(logs, np.log(usual) - LEVEL**2 - SPREAD**2, LEVEL)
    untold = float(level @ about @ _SIZES**2)  # usual², except at the ends of the grid
    seen = np.log([about @ likely for likely, _ in told])
    found = []
    for place, (likely, squares) in enumerate(told):
        by_others = np.log(np.maximum(level, 1e-300)) + np.delete(seen, place, axis=0).sum(0)
        law = np.exp(by_others - by_others.max()) @ about
        square = float(law @ squares) / float(law @ likely)
        found.append(usual * min(square / untold, 1.0) ** 0.5)
    return found


def _normal(values: Floats, mean: Floats | float, deviation: float) -> Floats:
    """Chances of values along the last axis by a normal law, to 1 in all."""
    likely = np.exp(-0.5 * ((values - mean) / deviation) ** 2)
    return np.asarray(likely / likely.sum(-1, keepdims=True))
