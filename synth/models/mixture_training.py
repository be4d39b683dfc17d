"""Training a generator of product mixtures on noisy marginals: Adam, and an average of the weights at the end.

A generator turns its weights into logits per code and component; what the logits then mean, the loss and its gradient
are one kernel (`equistrata.synth.models.mixture_loss`) whatever the generator. Post-processing: no privacy cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Protocol

import numpy as np
from threadpoolctl import ThreadpoolController

from equistrata.data.schema import Schema
from equistrata.synth.models.mixture import ProductMixture
from equistrata.synth.models.mixture_loss import MixtureLoss, Singles

Weights = list[Singles]


class Generator(Protocol):
    """What makes logits. Its settings are public; `seed` fixes where training starts."""

    def start(self, codes: int, components: int, seed: int) -> Weights:
        """The weights to start from, for `codes` codes in all columns together."""
        ...

    def logits(self, weights: Weights) -> Singles:
        """The logits, shape (codes, components)."""
        ...

    def pull_back(self, weights: Weights, gradient: Singles) -> Weights:
        """The gradient with respect to the weights, from the one with respect to the logits."""
        ...


@dataclass(frozen=True)
class DirectLogits:
    """The weights are the logits.

    Attributes:
        spread: standard deviation of the logits at the start, which makes components differ.
    """

    spread: float = 0.1

    def start(self, codes: int, components: int, seed: int) -> Weights:
        """See `Generator.start`."""
        return [np.random.default_rng(seed).normal(0.0, self.spread, (codes, components)).astype(np.float32)]

    def logits(self, weights: Weights) -> Singles:
        """See `Generator.logits`."""
        return weights[0]

    def pull_back(self, weights: Weights, gradient: Singles) -> Weights:
        """See `Generator.pull_back`."""
        return [gradient]


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba, arXiv:1412.6980) with a rate that falls along a cosine to a tenth, and averaged weights.

    Attributes:
        rate: the step size at the start.
        average: decay of the exponential moving average of the weights, which is what training returns.
        tolerance: a measured cell within this many σ of its noisy count pulls no more, so that noise is not learnt.
    """

    rate: float = 0.1
    average: float = 0.98
    tolerance: float = 0.5

    def train(self, generator: Generator, loss: MixtureLoss, weights: Weights, steps: int) -> Weights:
        """Descend `steps` times. One thread: the matrices are too small to share."""
        with _threads().limit(limits=1, user_api="blas"):
            return self._descend(generator, loss, weights, steps)

    def _descend(self, generator: Generator, loss: MixtureLoss, weights: Weights, steps: int) -> Weights:
        weights = [part.copy() for part in weights]
        mean = [np.zeros_like(part) for part in weights]
        square = [np.zeros_like(part) for part in weights]
        smooth = [part.copy() for part in weights]
        for step in range(1, steps + 1):
            _, _, gradient = loss.value(generator.logits(weights), self.tolerance)
            parts = generator.pull_back(weights, gradient)
            rate = self.rate * (0.55 + 0.45 * np.cos(np.pi * step / steps))
            keep = min(self.average, step / (step + 10))
            for part, slope, m, s, e in zip(weights, parts, mean, square, smooth, strict=True):
                m += 0.1 * (slope - m)
                s += 0.001 * (slope * slope - s)
                scale = np.sqrt(s / (1 - 0.999**step))
                scale += 1e-8
                part -= np.float32(rate / (1 - 0.9**step)) * m / scale
                e += np.float32(1 - keep) * (part - e)
        return smooth


@lru_cache(maxsize=1)
def _threads() -> ThreadpoolController:
    """Remembered: looking through the loaded libraries takes longer than a step."""
    return ThreadpoolController()


def mixture(schema: Schema, total: float, logits: Singles) -> ProductMixture:
    """The model that logits stand for."""
    bounds = np.cumsum([0, *schema.sizes]).tolist()
    factors = []
    for a, b in pairwise(bounds):
        raised = logits[a:b].T.astype(float)
        raised = np.exp(raised - raised.max(axis=1, keepdims=True))
        factors.append(raised / raised.sum(axis=1, keepdims=True))
    count = logits.shape[1]
    return ProductMixture(schema, total, np.full(count, 1 / count), tuple(factors))
