"""The true cost of the values that a release finds in open columns, for a table and a neighbour that has more texts.

The `Recorder` compares the values of a call on both tables, so it cannot compare texts that only one table has. The
step that finds the values (`equistrata.privacy.thresholds.often`) is therefore recorded by text. On the neighbour, the
step returns the same texts as on the first table. This is the event in which no additional text is kept. The
probability of all other events is the true δ of this unit, which is computed exactly from the tails of the noise.
"""

import json
import math
from contextlib import contextmanager
from unittest import mock

import numpy as np

from equistrata.flows.release.measuring import finding
from equistrata.privacy.noise import SeededNoise


def discrete_tail(sigma, least):
    """Compute P[N ≥ least] for discrete Gaussian noise as a sum."""
    reach = np.arange(-int(40 * sigma), int(40 * sigma) + 1)
    mass = np.exp(-(reach.astype(float) ** 2) / (2 * sigma**2))
    return math.fsum(mass[reach >= least]) / math.fsum(mass)


class FoundTexts:
    """The steps of a release that find texts, which are run on the first table and then on the neighbour.

    Attributes
    ----------
    rho : float
        The true ρ of all steps for the unit.
    delta : float
        The true δ of all steps for the unit.
    stated : float
        The δ that all steps are allowed to cost.
    """

    def __init__(self):
        self._first = {}
        self.rho = self.delta = self.stated = 0.0

    @contextmanager
    def recorded(self, again):
        """Record the release of the first table in the block, or of the neighbour if `again` is True."""
        with mock.patch.object(finding, "often", self._again if again else self._once):
            yield

    def _once(self, counts, rho, delta, budget, noise, part, rows=1):
        texts, held = _texts(counts), counts()
        kept, threshold = _HONEST(held, rho, delta, budget, SeededNoise(0), part, rows)
        self._first[part] = dict(zip(texts, held, strict=True)), [texts[each] for each in kept], threshold
        return kept, threshold

    def _again(self, counts, rho, delta, budget, noise, part, rows=1):
        held = dict(zip(_texts(counts), counts(), strict=True))
        before, kept, threshold = self._first[part]
        assert set(before) <= set(held), "a text is there only without the unit"
        _, now = _HONEST(np.zeros(0, np.int64), rho, delta, budget, SeededNoise(0), part, rows)
        assert now == threshold, "the threshold is another on the neighbour"
        self.rho += sum(int(held[text] - count) ** 2 for text, count in before.items()) / (2 * threshold.sigma**2)
        tails = {count: discrete_tail(threshold.sigma, threshold.least - count) for count in set(held.values())}
        self.delta += math.fsum(tails[count] for text, count in held.items() if text not in before)
        self.stated += delta
        places = {text: place for place, text in enumerate(held)}
        return np.array([places[text] for text in kept], dtype=np.intp), threshold


_HONEST = finding.often


def _texts(counts):
    """Return the texts of the values that are counted, from the arguments of `finding._counts_of`."""
    _, work, name, places = counts.args
    texts = json.loads(work.vocabulary(name).read_text("utf-8"))
    return [texts[place] for place in places]
