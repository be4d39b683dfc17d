"""What values cost that a release finds in open columns: ρ and δ of a table and of a neighbour that holds more texts.

`Recorder` compares what both tables give its calls, and texts that one of them lacks have no place there. So the step
that finds values (`equistrata.privacy.thresholds.often`) is recorded by its texts. On the neighbour it answers as on
the first table, in the event that no text is kept that the first table lacks. The chance of any other event is the δ
that this unit really has: exact, by the tails of the noise that was there.
"""

import json
import math
from contextlib import contextmanager
from unittest import mock

import numpy as np

from equistrata.flows.release.measuring import finding
from equistrata.privacy.noise import SeededNoise


def discrete_tail(sigma, least):
    """P[N ≥ least] of discrete Gaussian noise, summed."""
    reach = np.arange(-int(40 * sigma), int(40 * sigma) + 1)
    mass = np.exp(-(reach.astype(float) ** 2) / (2 * sigma**2))
    return math.fsum(mass[reach >= least]) / math.fsum(mass)


class FoundTexts:
    """One release's steps of this kind on two tables, one after the other.

    Attributes:
        rho, delta: what all of them cost the unit in truth.
        stated: the δ that all of them may cost.
    """

    def __init__(self):
        self._first = {}
        self.rho = self.delta = self.stated = 0.0

    @contextmanager
    def recorded(self, again):
        """The first table's release, or the neighbour's, in the block."""
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
    """Of the values that are counted (`finding._counts_of`, with its arguments)."""
    _, work, name, places = counts.args
    texts = json.loads(work.vocabulary(name).read_text("utf-8"))
    return [texts[place] for place in places]
