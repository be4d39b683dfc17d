"""Training of mixtures of products on noisy marginals.

The optimizer is Adam. Training stops before the mixture fits the noise.
"""

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

_START_SPREAD = 0.1  # the standard deviation of the initial logits, so that the components differ


def start_logits(schema: Schema, components: int, seed: int) -> Singles:
    """Draw the initial logits.

    Parameters
    ----------
    schema : Schema
        The schema of the columns.
    components : int
        The number of components.
    seed : int
        The seed of the random numbers, which is public.

    Returns
    -------
    ndarray of shape (codes of all columns, components)
        The initial logits.
    """
    shape = sum(schema.sizes), components
    return np.random.default_rng(seed).normal(0.0, _START_SPREAD, shape).astype(np.float32)


@dataclass(frozen=True)
class Adam:
    """The Adam optimizer [1]_ with a decreasing learning rate and averaged weights.

    The learning rate decreases along a cosine to a tenth of its initial value.

    Parameters
    ----------
    rate : float, default=0.2
        The initial learning rate.
    average : float, default=0.98
        The decay of the exponential moving average of the logits. This average is the result of the training.
    tolerance : float, default=0.5
        The tolerance for residuals, in units of σ. The gradient of a cell is 0 if its residual is within the tolerance,
        so that noise is not learned.
    discrepancy : float, default=0.65
        The mean squared residual of the measured cells at which training stops, in units of σ². Further training would
        fit noise (Morozov's discrepancy principle). See docs/experiments/gem.md.

    References
    ----------
    .. [1] Kingma and Ba, arXiv:1412.6980.
    """

    rate: float = 0.2
    average: float = 0.98
    tolerance: float = 0.5
    discrepancy: float = 0.65

    def train(self, loss: MixtureLoss, logits: Singles, steps: int) -> Singles:
        """Train the logits for at most `steps` steps.

        Only one thread is used because the matrices are too small for several threads.

        Parameters
        ----------
        loss : MixtureLoss
            The loss to minimise.
        logits : ndarray of shape (codes of all columns, components)
            The initial logits, which are not changed.
        steps : int
            The maximum number of steps.

        Returns
        -------
        ndarray of shape (codes of all columns, components)
            The averaged logits.
        """
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
    """An estimator that trains a mixture of products on measurements.

    The size of the model does not depend on its cliques.

    Parameters
    ----------
    components : int, default=100
        The number of products in the mixture.
    steps : int, default=2400
        The maximum number of training steps.
    seed : int, default=0
        The seed of the initial logits. It is public and does not protect anything.
    optimizer : Adam
        The optimizer of the logits of the components.

    Raises
    ------
    InputError
        If there is no component, or if the number of steps is negative.
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
        """See `Estimator.estimate`.

        The result is identical to the last bit for the same measurements and settings. The parameter `warm_start` is
        ignored.
        """
        return self.trained(schema, measurements)[1]

    def trained(
        self, schema: Schema, measurements: Sequence[Measurement], logits: Singles | None = None
    ) -> tuple[Singles, ProductMixture]:
        """Train the mixture from the given logits.

        Parameters
        ----------
        schema : Schema
            The schema of the measurements.
        measurements : sequence of Measurement
            The measurements.
        logits : ndarray or None, default=None
            The initial logits. If None, they are drawn by `start_logits`.

        Returns
        -------
        logits : ndarray
            The trained logits.
        model : ProductMixture
            The mixture with these logits.
        """
        total = max(total_estimate(measurements)[0], 1.0)
        if logits is None:
            logits = start_logits(schema, self.components, self.seed)
        if self.steps:
            logits = self.optimizer.train(MixtureLoss.of(schema, measurements, total), logits, self.steps)
        return logits, mixture(schema, total, logits)
