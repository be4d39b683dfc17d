"""The synthesizers of smartnoise-synth as mechanisms.

They run in a separate environment, which `equistrata setup smartnoise` creates, because smartnoise-synth requires mbi <
2, opendp < 0.15 and pandas < 3. Its privacy guarantee is weaker than that of our own mechanisms. See
`SmartNoise.caveats`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Self

from equistrata.data.schema import Schema
from equistrata.environments import SMARTNOISE
from equistrata.errors import InputError
from equistrata.privacy.budget import ADD_REMOVE, REPLACE_ONE, Relation
from equistrata.synth.foreign.base import ForeignSynthesizer
from equistrata.synth.foreign.child import describe
from equistrata.synth.models.estimation import few
from equistrata.synth.names import SMARTNOISE_PREFIX, SNSYNTH

SYNTHESIZERS = ("aim", "mst", "mwem")  # the synthesizers that have names of ours
LARGEST_HISTOGRAM = 100_000  # the maximum number of cells of MWEM, which visits all cells for each query of each round

_CAVEATS = (
    "The privacy accounting is smartnoise-synth's own and is not checked here. The stated ε, δ and ρ are the budget "
    "that it was given.",
    "Its measurements are not stored, so no model can be refitted. Each stratum's model is a pool of drawn rows.",
    "Rows that the schema declares impossible are left out of the pool, since smartnoise-synth does not know these "
    "rules. If it drew no other rows, as can happen for a nearly empty stratum, they are replaced by uniform draws.",
    "Its results cannot be reproduced with a seed.",
)
_CUBES = (
    "Noise is drawn by OpenDP but added to the counts in ordinary floating point, and choices are made with NumPy's "
    "generator, which is not cryptographic, so attacks on low-order bits are possible."
)
_OTHERS = "Its noise is drawn in floating point by generators that are not cryptographic."
_EXACT_ROWS = (
    "It uses the exact number of rows of each stratum, although the noise is calibrated to one added or removed row. "
    "The guarantee only holds if these numbers are public, and does not cover a row that is added or removed."
)
_SPECIAL = {
    "mst": (
        _CUBES,
        _EXACT_ROWS,
        "Its MST merges rare values, which lose part of their mass. This affects small groups most.",
    ),
    "aim": (
        _CUBES,
        "Its AIM limits the size of single marginals, not of the model, so its memory can grow far beyond the limit.",
    ),
    "mwem": (
        _CUBES,
        _EXACT_ROWS,
        "Its MWEM has pure differential privacy, which costs ρ = ε²/2. Two made-up rows declare the domain.",
    ),
}


@dataclass(frozen=True)
class SmartNoise(ForeignSynthesizer):
    """A synthesizer of smartnoise-synth with its default settings.

    Parameters
    ----------
    synthesizer : str, default="mst"
        The name of the synthesizer: "mst", "aim", "mwem", or another name of the factory of smartnoise-synth. The
        synthesizer "mwem" supports only small domains of at most 100,000 cells.
    python : str or None, default=None
        The path of the Python interpreter that has smartnoise-synth. If None, it is the interpreter that `equistrata
        setup smartnoise` created (`equistrata.environments`).
    """

    synthesizer: str = "mst"

    @property
    def name(self) -> str:
        """The name of the mechanism, for example SmartNoiseMST, SmartNoiseAIM or SmartNoiseMWEM."""
        return f"SmartNoise{self.synthesizer.upper()}"

    @property
    def software(self) -> str:
        """The name and the version of smartnoise-synth.

        Raises
        ------
        InputError
            If the environment or the synthesizer is missing.
        """
        return str(self._described["software"])

    @property
    def converts(self) -> bool:
        """Return True for MST and AIM."""
        return self.synthesizer in ("aim", "mst")

    @property
    def pure(self) -> bool:
        """Return True for MWEM and for other synthesizers without δ."""
        return self.synthesizer == "mwem" or not self._described["delta"]

    @property
    def caveats(self) -> tuple[str, ...]:
        """The reasons why the guarantee is weaker than the privacy cost suggests, as one sentence per reason."""
        return (*_CAVEATS, *_SPECIAL.get(self.synthesizer, (_OTHERS, _EXACT_ROWS)))

    @property
    def relation(self) -> Relation:
        """The neighbouring relation of the privacy guarantee.

        For AIM, neighbouring tables differ by one added or removed row, according to its own accounting. For other
        synthesizers, neighbouring tables have the same number of rows, because the exact number of rows is used.
        """
        return REPLACE_ONE if _EXACT_ROWS in self.caveats else ADD_REMOVE

    def check(self) -> Self:
        """See `ForeignSynthesizer.check`."""
        _ = self._described
        return self

    def check_cells(self, schema: Schema) -> None:
        """See `ForeignSynthesizer.check_cells`."""
        cells = prod(schema.sizes)
        if self.synthesizer == "mwem" and cells > LARGEST_HISTOGRAM:
            amount = f"{cells:,}" if cells < 10**12 else f"more than 10^{len(str(cells)) - 1}"
            raise InputError(
                f"smartnoise-mwem stores every combination of codes, but {few(schema.names)} have {amount} in a "
                f"stratum (limit {LARGEST_HISTOGRAM:,}); release fewer columns or choose smartnoise-mst"
            )

    def interpreter(self) -> Path:
        """See `ForeignSynthesizer.interpreter`."""
        return SMARTNOISE.interpreter(self.python)

    def settings(self) -> Mapping[str, Any]:
        """See `ForeignSynthesizer.settings`."""
        return {"synthesizer": self.synthesizer}

    @property
    def _described(self) -> Mapping[str, Any]:
        called = self.synthesizer.upper() if self.synthesizer in SYNTHESIZERS else self.synthesizer
        neural = "" if self.synthesizer in SYNTHESIZERS else " --neural"
        return describe(str(self.interpreter()), f"{SNSYNTH}:{called}", (), f"run equistrata setup smartnoise{neural}")


def smartnoise(name: str, python: str | None = None) -> SmartNoise:
    """Return a synthesizer of smartnoise-synth.

    Parameters
    ----------
    name : str
        The name of the synthesizer: `smartnoise-mst`, `smartnoise-aim`, `smartnoise-mwem`, or `snsynth:NAME` for a
        synthesizer of the factory.
    python : str or None, default=None
        The path of the Python interpreter that has smartnoise-synth.

    Returns
    -------
    SmartNoise
        The synthesizer.

    Raises
    ------
    InputError
        If the synthesizer is unknown or cannot be used, or if its environment is missing.
    """
    if name.lower().startswith(SMARTNOISE_PREFIX):
        own = name.lower().removeprefix(SMARTNOISE_PREFIX)
        if own not in SYNTHESIZERS:
            known = " or ".join(SMARTNOISE_PREFIX + each for each in SYNTHESIZERS)
            raise InputError(f"unknown synthesizer {SMARTNOISE_PREFIX + own!r}; choose {known}")
    else:
        own = name.rpartition(":")[2].lower()
    if own == "pacsynth":
        raise InputError(f"synthesizer {name!r} draws rows with empty cells, which is not supported; choose another")
    return SmartNoise(own, python).check()
