"""The paper's generator for GEM: fixed Gaussian inputs, residual blocks, a softmax per column.

Liu, Vietri and Wu (arXiv:2106.07153), section 4 and appendix: component k has an input z_k ~ N(0, I) that is drawn once
(publicly) and kept; each block maps h to [ReLU(normalise(hW + b)), h], where normalising is over the components
(batch normalisation with a learnt scale and shift), and a last linear layer gives logits. The kernel that gives them
meaning and trains them is the one for direct logits, so only this map and its transpose run in JAX: they are compiled
once per shape, and rounds and strata share the shape.

Needs JAX, which comes with the extra `reference`. Use: `GEM(generator=Network(), optimizer=Adam(rate=0.002))`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from equistrata.errors import InputError
from equistrata.synth.models.mixture_loss import Singles
from equistrata.synth.models.mixture_training import Weights


@dataclass(frozen=True)
class Network:
    """A network that makes logits from fixed noise.

    Attributes:
        hidden: width of each residual block.
        noise: length of a component's input.
        input_seed: fixes the inputs. Public.
    """

    hidden: tuple[int, ...] = (256, 256)
    noise: int = 128
    input_seed: int = 0

    def start(self, codes: int, components: int, seed: int) -> Weights:
        """See `Generator.start`: uniform within ±1/√(inputs of the layer), scales 1, shifts 0."""
        rng = np.random.default_rng(seed)
        widths = np.cumsum([self.noise, *self.hidden]).tolist()
        weights: Weights = []
        for width, out in [*zip(widths, self.hidden, strict=False), (widths[-1], codes)]:
            reach = width**-0.5
            weights += [rng.uniform(-reach, reach, shape).astype(np.float32) for shape in ((width, out), (out,))]
        for out in self.hidden:
            weights += [np.ones(out, dtype=np.float32), np.zeros(out, dtype=np.float32)]
        inputs = np.random.default_rng(self.input_seed).normal(size=(components, self.noise)).astype(np.float32)
        return [*weights, inputs]

    def logits(self, weights: Weights) -> Singles:
        """See `Generator.logits`."""
        return np.array(compiled(len(self.hidden))[0](weights))

    def pull_back(self, weights: Weights, gradient: Singles) -> Weights:
        """See `Generator.pull_back`. The inputs are not weights: their gradient is 0."""
        slopes = [np.array(slope) for slope in compiled(len(self.hidden))[1](weights, gradient)]
        return [*slopes[:-1], np.zeros_like(weights[-1])]


@lru_cache(maxsize=8)
def compiled(blocks: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The compiled map and its transpose. Raises InputError if JAX is not installed."""
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        raise InputError("GEM's network needs JAX; install equistrata[reference] or use direct logits") from None

    def forward(weights: list[Any]) -> Any:
        layers, scales, hidden = weights[: 2 * blocks + 2], weights[2 * blocks + 2 : -1], weights[-1]
        for block in range(blocks):
            out = hidden @ layers[2 * block] + layers[2 * block + 1]
            out = (out - out.mean(axis=0)) / jnp.sqrt(out.var(axis=0) + 1e-5)
            out = jnp.maximum(out * scales[2 * block] + scales[2 * block + 1], 0)
            hidden = jnp.concatenate([out, hidden], axis=1)
        return (hidden @ layers[-2] + layers[-1]).T

    def backward(weights: list[Any], gradient: Any) -> Any:
        return jax.vjp(forward, weights)[1](gradient)[0]

    return jax.jit(forward), jax.jit(backward)
