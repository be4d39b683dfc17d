"""A class that a user names as a mechanism: `package.module:Class` or `file.py:Class`, in any Python environment.

The contract: the class is made as `Class(epsilon=…, delta=…)`; then `fit(frame, categorical_columns=…, domain=…)` is
called once, and `sample(rows)`. The frame has whole numbers, the codes 0 to k − 1 of each column; `domain` says k for
each column by its name. The class may leave `delta` out (it then promises ε-DP), and `fit` either of its last two.
`sample` returns exactly so many rows of codes. With one row added or removed, fit and sample together are (ε, δ)-DP:
that is the class's claim, which nothing here checks. A class with the attribute `zcdp = True` claims more: that it
turns (ε, δ) into ρ, and spends that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from equistrata.data.schema import Schema
from equistrata.errors import InputError
from equistrata.synth.foreign.base import ForeignSynthesizer, possible, uniform
from equistrata.synth.foreign.child import describe, draw, known_places

TRIAL_ROWS = 100  # made up, which a class is tried on before it gets real ones

_MEND = "correct it, or name the Python of its environment (--synthesizer-python); docs/foreign.md has the contract"


@dataclass(frozen=True)
class NamedClass(ForeignSynthesizer):
    """A class by its name, with its own defaults.

    Attributes:
        synthesizer: `package.module:Class` or `file.py:Class`.
        python: the interpreter of its environment; None for this one.
    """

    @property
    def name(self) -> str:
        """The class's name."""
        return self.synthesizer.rpartition(":")[2]

    @property
    def software(self) -> str:
        """The distribution that has it, and its version; of a file, its digest. Raises InputError as `check` does."""
        return str(self._described["software"])

    @property
    def converts(self) -> bool:
        """As the class says it: `zcdp = True`."""
        return bool(self._described["zcdp"])

    @property
    def pure(self) -> bool:
        """Whether the class takes no δ."""
        return not self._described["delta"]

    @property
    def caveats(self) -> tuple[str, ...]:
        """Whose guarantee it is, and what is not known of it."""
        own = (
            "turn the ε and δ that it was given into ρ, and spend that"
            if self.converts
            else ("spend no more than the ε and δ that it was given")
        )
        domain = (
            ()
            if self._described["domain"]
            else (
                f"{self.name} is not told which values are declared, so that it may read them off the rows, and no "
                "noise hides that a value occurs.",
            )
        )
        return (
            f"The guarantee is the claim of {self.name} ({self.software}) to {own}, for one row added or removed. "
            "equistrata decided what it may spend in each stratum and checks nothing inside: not its noise, its "
            "randomness, its accounting, or whether it uses the exact number of rows.",
            f"Each stratum's model is a pool of rows that {self.name} drew; fitting it again costs a new price. "
            "Rows that the schema declares impossible are left out of the pool; where no others were drawn, uniform "
            "draws stand in.",
            "A seed does not make it reproducible.",
            *domain,
        )

    def check(self) -> Self:
        """See `ForeignSynthesizer.check`."""
        _ = self._described
        return self

    def try_out(self, schema: Schema) -> None:
        """Fit it to made-up rows of this schema twice, before real ones are read and paid for.

        Raises InputError, with what the class says, if it fails; or if it drew the same rows both times, which shows
        that its noise has a fixed seed.
        """
        promise = self.promise
        epsilon, delta = (1.0, self.delta) if promise is None else (promise.epsilon, promise.delta)
        _try_out(str(self.interpreter()), self.synthesizer, self.name, schema, epsilon, delta)

    def interpreter(self) -> Path:
        """See `ForeignSynthesizer.interpreter`."""
        # Not resolved: an environment's interpreter is a link, and only by its own path does it find its packages.
        path = Path(os.path.abspath(self.python or sys.executable))
        if not path.is_file():
            raise InputError(f"there is no interpreter {str(path)!r}; correct --synthesizer-python")
        return path

    def settings(self) -> Mapping[str, Any]:
        """See `ForeignSynthesizer.settings`."""
        return _settings(self.synthesizer)

    @property
    def _described(self) -> Mapping[str, Any]:
        settings = _settings(self.synthesizer)
        return describe(str(self.interpreter()), settings["class"], tuple(settings["places"]), _MEND)


def _settings(synthesizer: str) -> dict[str, Any]:
    where, _, called = synthesizer.rpartition(":")
    found = f"{os.path.abspath(where)}:{called}" if where.endswith(".py") else synthesizer
    return {"class": found, "places": list(known_places())}


@lru_cache
def _try_out(python: str, synthesizer: str, called: str, schema: Schema, epsilon: float, delta: float) -> None:
    rows = possible(uniform(schema, TRIAL_ROWS))
    job = _settings(synthesizer) | {"epsilon": epsilon, "delta": delta, "draw": TRIAL_ROWS, "trial": True}
    first, second = (draw(python, job, rows, called) for _ in range(2))
    if max(schema.sizes, default=1) > 1 and (first.codes == second.codes).all():
        raise InputError(
            f"{called} drew the same {TRIAL_ROWS} rows twice from made-up rows, so its noise has a fixed seed, which "
            "gives no privacy; let it draw from fresh randomness"
        )
