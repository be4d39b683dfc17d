"""Training a mixture of products on noisy marginals: Adam on the logits, averaged. Post-processing: no privacy cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from threadpoolctl import ThreadpoolController

from equistrata.data.schema import Schema
from equistrata.synth.models.mixture import ProductMixture
from equistrata.synth.models.mixture_loss import MixtureLoss, Singles

_START_SPREAD = 0.1  # standard deviation of the logits at the start, which makes components differ


def start_logits(schema: Schema, components: int, seed: int) -> Singles:
    """Logits to start from, shape (codes of all columns, components). `seed` is public."""
    shape = sum(schema.sizes), components
    return np.random.default_rng(seed).normal(0.0, _START_SPREAD, shape).astype(np.float32)


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba, arXiv:1412.6980) with a rate that falls along a cosine to a tenth, and averaged weights.

    Attributes:
        rate: the step size at the start.
        average: decay of the exponential moving average of the logits, which is what training returns.
        tolerance: a measured cell within this many σ of its noisy count has no gradient, so that noise is not learnt.
    """

    rate: float = 0.1
    average: float = 0.98
    tolerance: float = 0.5

    def train(self, loss: MixtureLoss, logits: Singles, steps: int) -> Singles:
        """Descend `steps` times. One thread: the matrices are too small to share."""
        logits, smooth = logits.copy(), logits.copy()
        mean, square = np.zeros_like(logits), np.zeros_like(logits)
        with _threads().limit(limits=1, user_api="blas"):
            for step in range(1, steps + 1):
                _, _, slope = loss.value(logits, self.tolerance)
                rate = self.rate * (0.55 + 0.45 * np.cos(np.pi * step / steps))
                keep = min(self.average, step / (step + 10))
                mean += 0.1 * (slope - mean)
                square += 0.001 * (slope * slope - square)
                scale = np.sqrt(square / (1 - 0.999**step))
                scale += 1e-8
                logits -= np.float32(rate / (1 - 0.9**step)) * mean / scale
                smooth += np.float32(1 - keep) * (logits - smooth)
        return smooth


@lru_cache(maxsize=1)
def _threads() -> ThreadpoolController:
    """Remembered: looking through the loaded libraries takes longer than a step."""
    return ThreadpoolController()


def mixture(schema: Schema, total: float, logits: Singles) -> ProductMixture:
    """The model of these logits: components of equal weight, a softmax over each column's codes."""
    bounds = np.cumsum([0, *schema.sizes]).tolist()
    factors = []
    for a, b in pairwise(bounds):
        raised = logits[a:b].T.astype(float)
        raised = np.exp(raised - raised.max(axis=1, keepdims=True))
        factors.append(raised / raised.sum(axis=1, keepdims=True))
    count = logits.shape[1]
    return ProductMixture(schema, total, np.full(count, 1 / count), tuple(factors))
