"""Training a mixture of products on noisy marginals, by Adam, until what follows would fit noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from equistrata.data.schema import Schema
from equistrata.errors import InputError
from equistrata.stats.threads import one_thread
from equistrata.synth.measurements import Measurement, total_estimate
from equistrata.synth.models.base import Tilting
from equistrata.synth.models.mixtures.loss import MixtureLoss, Singles
from equistrata.synth.models.mixtures.mixture import ProductMixture, mixture

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
        discrepancy: training ends where the mean square of the measured cells' residuals, in units of σ, is no more
            (Morozov's discrepancy principle): what follows would fit noise. Tuned: docs/experiments/gem.md.
    """

    rate: float = 0.2
    average: float = 0.98
    tolerance: float = 0.5
    discrepancy: float = 0.65

    def train(self, loss: MixtureLoss, logits: Singles, steps: int) -> Singles:
        """Descend at most `steps` times. One thread: the matrices are too small to share."""
        logits, smooth = logits.copy(), logits.copy()
        mean, square = np.zeros_like(logits), np.zeros_like(logits)
        with one_thread():
            for step in range(1, steps + 1):
                _, residual, slope = loss.value(logits, self.tolerance)
                misfit = residual[loss.measured]
                if misfit.size and float(misfit @ misfit) <= self.discrepancy * misfit.size:
                    break
                rate = self.rate * (0.55 + 0.45 * np.cos(np.pi * step / steps))
                keep = min(self.average, step / (step + 10))
                mean += 0.1 * (slope - mean)
                square += 0.001 * (slope * slope - square)
                scale = np.sqrt(square / (1 - 0.999**step))
                scale += 1e-8
                logits -= np.float32(rate / (1 - 0.9**step)) * mean / scale
                smooth += np.float32(1 - keep) * (logits - smooth)
        return smooth


@dataclass(frozen=True)
class MixtureDescent:
    """Trains a mixture of products on measurements: an `Estimator` of models that no clique makes large.

    Attributes:
        components: products in the mixture.
        steps: descents.
        seed: fixes where training starts. Public: it protects nothing.
        optimizer: how the components' logits are trained.
    """

    components: int = 100
    steps: int = 2400
    seed: int = 0
    optimizer: Adam = field(default_factory=Adam)

    weighs_cells = True
    graphical = False

    def __post_init__(self) -> None:
        if self.components < 1 or self.steps < 0:
            raise InputError("a mixture needs one component or more, and 0 steps or more")

    def estimate(
        self,
        schema: Schema,
        measurements: Sequence[Measurement],
        warm_start: Tilting | None = None,
    ) -> ProductMixture:
        """See `Estimator.estimate`: the same bits for the same measurements and settings. No warm start."""
        return self.trained(schema, measurements)[1]

    def trained(
        self, schema: Schema, measurements: Sequence[Measurement], logits: Singles | None = None
    ) -> tuple[Singles, ProductMixture]:
        """Logits after `steps` from these (None for the start), and their model."""
        total = max(total_estimate(measurements)[0], 1.0)
        if logits is None:
            logits = start_logits(schema, self.components, self.seed)
        if self.steps:
            logits = self.optimizer.train(MixtureLoss.of(schema, measurements, total), logits, self.steps)
        return logits, mixture(schema, total, logits)
