"""A mechanism that uses a class named by the user, in any Python environment.

The name of the class is `package.module:Class` or `file.py:Class`. The class must satisfy the following contract:

- An instance is created by `Class(epsilon=…, delta=…)`. A class without the parameter `delta` promises ε-DP.
- The method `fit(frame, categorical_columns=…, domain=…)` is called once. The data frame contains integers, which are
  the codes 0 to k − 1 of each column. The argument `domain` maps each column name to k. The method can omit `domain`
  and `categorical_columns`.
- The method `sample(rows)` returns exactly this number of rows of codes.
- The methods `fit` and `sample` together are (ε, δ)-DP, where neighbouring tables differ by one added or removed row.
  This is the claim of the class, which is not checked.
- A class with the attribute `zcdp = True` additionally claims that it converts (ε, δ) to ρ and spends ρ.
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

TRIAL_ROWS = 100  # the number of made-up rows on which a class is tested before it gets private rows

_MEND = "correct it, or give the Python of its environment with --synthesizer-python (see docs/foreign.md)"


@dataclass(frozen=True)
class NamedClass(ForeignSynthesizer):
    """A class with its default settings, which is given by its name.

    Parameters
    ----------
    synthesizer : str
        The name of the class: `package.module:Class` or `file.py:Class`.
    python : str or None, default=None
        The path of the Python interpreter of its environment. If None, it is the current interpreter.
    """

    @property
    def name(self) -> str:
        """The name of the class."""
        return self.synthesizer.rpartition(":")[2]

    @property
    def software(self) -> str:
        """The name and the version of the distribution that contains the class, or the digest of its file.

        Raises
        ------
        InputError
            If the environment or the class is missing.
        """
        return str(self._described["software"])

    @property
    def converts(self) -> bool:
        """Return True if the class declares `zcdp = True`."""
        return bool(self._described["zcdp"])

    @property
    def pure(self) -> bool:
        """Return True if the class has no parameter `delta`."""
        return not self._described["delta"]

    @property
    def caveats(self) -> tuple[str, ...]:
        """The origin of the guarantee, and the properties of the class that are not known."""
        own = (
            "convert the given ε and δ to ρ, and spend this ρ"
            if self.converts
            else ("spend no more than the given ε and δ")
        )
        domain = (
            ()
            if self._described["domain"]
            else (
                f"{self.name} does not receive the declared values, so it may take the values from the rows, and no "
                "noise hides whether a value occurs.",
            )
        )
        return (
            f"The guarantee is the claim of {self.name} ({self.software}) to {own}, for one row added or removed. "
            "equistrata decided what it may spend in each stratum, but does not check its noise, its randomness, its "
            "accounting, or whether it uses the exact number of rows.",
            f"Each stratum's model is a pool of rows that {self.name} drew; fitting it again costs a new price. "
            "Rows that the schema declares impossible are left out of the pool. If it drew no other rows, they are "
            "replaced by uniform draws.",
            "Its results cannot be reproduced with a seed.",
            *domain,
        )

    def check(self) -> Self:
        """See `ForeignSynthesizer.check`."""
        _ = self._described
        return self

    def try_out(self, schema: Schema) -> None:
        """Fit the class twice to made-up rows of the schema, before private rows are read and paid for.

        Parameters
        ----------
        schema : Schema
            The schema of a stratum.

        Raises
        ------
        InputError
            If the class fails, with its message, or if it draws the same rows twice, which shows that its noise has a
            fixed seed.
        """
        promise = self.promise
        epsilon, delta = (1.0, self.delta) if promise is None else (promise.epsilon, promise.delta)
        _try_out(str(self.interpreter()), self.synthesizer, self.name, schema, epsilon, delta)

    def interpreter(self) -> Path:
        """See `ForeignSynthesizer.interpreter`."""
        # The path is not resolved, because the interpreter of an environment is a link. It finds the packages of the
        # environment only by the path of the link.
        path = Path(os.path.abspath(self.python or sys.executable))
        if not path.is_file():
            raise InputError(f"interpreter {str(path)!r} does not exist; correct --synthesizer-python")
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
            f"{called} drew the same {TRIAL_ROWS} rows twice in a trial, so its noise has a fixed seed, which gives no "
            "privacy; use fresh randomness in each fit"
        )
