"""smartnoise-synth's cube synthesizers as mechanisms, in an environment of their own (`make smartnoise`).

smartnoise-synth pins mbi < 2, opendp < 0.15 and pandas < 3, so a child process of another interpreter fits and draws.
It reads coded rows from a folder of mode 0700 that is removed afterwards; nothing it prints is read. The guarantee is
weaker than that of our own mechanisms: see `SmartNoise.caveats`, which every card prints.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from pathlib import Path

import numpy as np
import numpy.typing as npt

from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable, code_dtype
from equistrata.errors import EquistrataError, InputError
from equistrata.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget, Relation, Rho
from equistrata.privacy.noise import NoiseSource
from equistrata.synth.counting import measure_marginal
from equistrata.synth.measurements import Measurement, total_estimate
from equistrata.synth.mechanisms.base import Fit, Mechanism
from equistrata.synth.models.base import Model
from equistrata.synth.models.estimation import few
from equistrata.synth.models.pool import SampledModel

SMARTNOISE_VARIABLE = "EQUISTRATA_SMARTNOISE_PYTHON"
SMARTNOISE_PYTHON = Path(".venv-smartnoise/bin/python")
NAME_PREFIX = "smartnoise-"
SYNTHESIZERS = ("aim", "mst", "mwem")
_WORKER = Path(__file__).with_name("_smartnoise_worker.py")

SMALLEST_POOL, LARGEST_POOL = 10_000, 1_000_000
LARGEST_HISTOGRAM = 100_000  # cells; MWEM keeps them all, and visits them for every query of every round

_VERSION = "import importlib.metadata as m, sys; sys.stdout.write(m.version('smartnoise-synth'))"
_CAVEATS = (
    "The privacy accounting is smartnoise-synth's own and is not checked here. The stated ε, δ and ρ are what it was "
    "given to spend.",
    "Noise is drawn by OpenDP but added to the counts in ordinary floating point, and choices are made with NumPy's "
    "generator, which is not cryptographic: attacks on low-order bits are not excluded.",
    "Its measurements are not kept, so no model can be refitted: each stratum's model is a pool of rows that it drew.",
    "Drawn rows that the schema declares impossible are left out of the pool, since smartnoise-synth does not know of "
    "them; where it drew nothing else, as it may for a nearly empty stratum, uniform draws stand in.",
    "A seed does not make it reproducible.",
)
_EXACT_ROWS = (
    "The exact number of rows of each stratum is used, not a noisy one, while noise is calibrated to one added or "
    "removed row: the guarantee holds only if those numbers are taken to be public, and not for a row that is added or "
    "removed."
)
_SPECIAL = {
    "mst": (_EXACT_ROWS, "Rare values that its MST merges lose part of their mass, which falls on small groups first."),
    "aim": ("Its AIM bounds single marginals, not the model, so memory can grow far past its limit.",),
    "mwem": (
        _EXACT_ROWS,
        "Its MWEM is pure differential privacy at ε = √(2ρ), which costs ρ; two made-up rows declare the domain.",
    ),
}


class SmartNoiseFailed(EquistrataError, RuntimeError):
    """The child process failed. Says which synthesizer and the exception's type, never with which value."""


@dataclass(frozen=True)
class SmartNoise(Mechanism):
    """One of smartnoise-synth's cube synthesizers, with its own defaults.

    Attributes:
        synthesizer: "mst", "aim" or "mwem" (small domains only: at most 100,000 cells).
        python: the interpreter that has smartnoise-synth; None for the environment variable
            EQUISTRATA_SMARTNOISE_PYTHON, or else `.venv-smartnoise/bin/python` in the working directory.
        delta: the δ at which MST and AIM get ρ as (ε, δ). They convert it back into the same ρ.
        count_share: part of ρ for a noisy number of rows, where none was paid for before.
        folder: where the private folder that rows pass through is made; None for the system's temporary folder.
    """

    synthesizer: str = "mst"
    python: str | None = None
    delta: float = 1e-9
    count_share: float = 0.02
    folder: Path | None = None

    keeps_measurements = False

    def __post_init__(self) -> None:
        if self.synthesizer not in SYNTHESIZERS:
            known = " or ".join(NAME_PREFIX + name for name in SYNTHESIZERS)
            raise InputError(f"unknown synthesizer {NAME_PREFIX + self.synthesizer!r}; choose {known}")

    @property
    def name(self) -> str:
        """SmartNoiseMST, SmartNoiseAIM or SmartNoiseMWEM."""
        return f"SmartNoise{self.synthesizer.upper()}"

    @property
    def software(self) -> str:
        """smartnoise-synth and its version. Raises InputError as `check` does."""
        return f"smartnoise-synth {_version(str(self._interpreter()))}"

    @property
    def caveats(self) -> tuple[str, ...]:
        """What makes the guarantee weaker than the price alone says, a sentence each."""
        return (*_CAVEATS, *_SPECIAL[self.synthesizer])

    @property
    def relation(self) -> Relation:
        """Add/remove for AIM, by its own account; tables of the same sizes for MST and MWEM, which use them exactly."""
        return REPLACE_ONE if _EXACT_ROWS in self.caveats else ADD_REMOVE

    def check(self) -> SmartNoise:
        """Itself, if its environment is there. Raises InputError if not."""
        _version(str(self._interpreter()))
        return self

    def check_cells(self, schema: Schema) -> None:
        """Raise InputError if a table of this schema has more combinations of codes than it can take."""
        cells = prod(schema.sizes)
        if self.synthesizer == "mwem" and cells > LARGEST_HISTOGRAM:
            amount = f"{cells:,}" if cells < 10**12 else f"more than 10^{len(str(cells)) - 1}"
            raise InputError(
                f"smartnoise-mwem keeps every combination of codes, and {few(schema.names)} have {amount} in a stratum "
                f"(limit {LARGEST_HISTOGRAM:,}); release fewer columns or choose smartnoise-mst"
            )

    def working_in(self, folder: Path) -> SmartNoise:
        """See `Mechanism.working_in`."""
        return replace(self, folder=folder)

    def measure(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
    ) -> list[Measurement]:
        """Only `known` and a noisy number of rows, at `rho` if that is not known: the rest is smartnoise's own."""
        if math.isfinite(total_estimate(known)[1]):
            return list(known)
        return [*known, measure_marginal(table, (), rho, Budget(rho), noise)]

    def model(self, schema: Schema, measurements: Sequence[Measurement]) -> Model:
        """Always raises InputError: smartnoise-synth's measurements are not kept."""
        raise InputError(f"{self.name} keeps no measurements, so its models cannot be made again; fit it instead")

    def fit_table(self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()) -> Fit:
        """Fit one table, `count_share` of `rho` buying the number of rows if `known` does not hold it.

        Cost: `rho` in zCDP by smartnoise-synth's own account; see `caveats`. MST and AIM get the (ε, δ) that the rest
        of `rho` implies, MWEM the ε for which ε-DP implies it, √(2ρ) (Bun and Steinke, arXiv:1605.02065, Proposition
        1.4). One made-up row from the declared domain joins the table, so that an empty stratum can be fitted.

        Raises:
            InputError: the environment is not there, or the domain is too large for MWEM.
            SmartNoiseFailed: the child process failed.
        """
        self.check()
        self.check_cells(table.schema)
        budget, measurements = Budget(rho), list(known)
        if not math.isfinite(total_estimate(known)[1]):
            measurements.append(measure_marginal(table, (), rho * self.count_share, budget, noise))
        rest = budget.spend(budget.remaining, self.name)
        total = max(total_estimate(measurements)[0], 0.0)
        draw = int(min(max(2 * total, SMALLEST_POOL), LARGEST_POOL))
        pool = _possible(self._run(table, rest, draw))
        if not len(pool):
            pool = _possible(_uniform(table.schema, SMALLEST_POOL))
        if not len(pool):
            raise SmartNoiseFailed(f"{self.name} drew only rows that schema {table.schema.name!r} declares impossible")
        return Fit(tuple(measurements), SampledModel(total, pool))

    def _interpreter(self) -> Path:
        # Not resolved: an environment's interpreter is a link, and only by its own path does it find its packages.
        path = Path(os.path.abspath(self.python or os.environ.get(SMARTNOISE_VARIABLE) or SMARTNOISE_PYTHON))
        if not path.is_file():
            raise InputError(
                f"smartnoise-synth's environment is not there (no interpreter {str(path)!r}); "
                f"run make smartnoise or set {SMARTNOISE_VARIABLE}"
            )
        return path

    def _run(self, table: CodedTable, rho: Rho, draw: int) -> CodedTable:
        schema = table.schema
        rows = np.concatenate([table.codes.astype(np.uint32), _uniform(schema, 1).codes.astype(np.uint32)])
        settings = {
            "synthesizer": self.synthesizer,
            # A hair less, since ε was rounded up.
            "epsilon": rho.epsilon(self.delta) * (1 - 1e-9),
            "delta": self.delta,
            "pure_epsilon": math.sqrt(2 * float(rho)),
            "sizes": [int(size) for size in schema.sizes],
            "draw": draw,
        }
        folder = Path(tempfile.mkdtemp(prefix="equistrata-smartnoise-", dir=self.folder))  # mkdtemp makes it 0700
        try:
            np.save(folder / "rows.npy", rows, allow_pickle=False)
            (folder / "settings.json").write_text(json.dumps(settings), "utf-8")
            self._call(folder)
            codes = _read(folder / "synthetic.npy", schema)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if codes is None:
            raise SmartNoiseFailed(f"{self.name} gave no rows of schema {schema.name!r}")
        return CodedTable(codes.astype(code_dtype(schema)), schema)

    def _call(self, folder: Path) -> None:
        # Isolated (-I): neither PYTHONPATH nor the worker's own folder may put our modules before smartnoise's.
        command = [str(self._interpreter()), "-I", str(_WORKER), str(folder)]
        environment = os.environ | {"TMPDIR": str(folder), "JAX_PLATFORMS": "cpu"}
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        child = subprocess.Popen(command, cwd=folder, env=environment, stdin=pipe, stdout=null, stderr=null)
        assert child.stdin is not None
        try:
            status = child.wait()
        finally:
            child.stdin.close()  # the worker watches it, so that it also ends if this process is killed
            child.kill()
            child.wait()
        if not status:
            return
        kind = f"exit status {status}"
        with suppress(OSError, ValueError, KeyError, TypeError):
            named = json.loads((folder / "error.json").read_text("utf-8"))["type"]
            kind = named if isinstance(named, str) and named.isidentifier() else kind
        raise SmartNoiseFailed(
            f"{self.name} failed on a stratum ({kind}); its own message is withheld because it may quote a row"
        )


@lru_cache
def _version(python: str) -> str:
    try:
        done = subprocess.run(
            [python, "-I", "-c", _VERSION], capture_output=True, text=True, timeout=120, check=True, cwd="/"
        )
    except (OSError, subprocess.SubprocessError):
        raise InputError(f"interpreter {python!r} has no smartnoise-synth; run make smartnoise") from None
    return done.stdout.strip()


def _uniform(schema: Schema, rows: int) -> CodedTable:
    codes = np.random.default_rng().integers(0, schema.sizes, (rows, len(schema.sizes)))
    return CodedTable(codes.astype(code_dtype(schema)), schema)


def _possible(table: CodedTable) -> CodedTable:
    """The rows that hold no combination that the schema declares impossible."""
    return table.take(~table.ruled_out())


def _read(path: Path, schema: Schema) -> npt.NDArray[np.uint32] | None:
    """The rows that the child wrote; None if they are not rows of the schema."""
    try:
        codes: npt.NDArray[np.uint32] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    shaped = codes.ndim == 2 and codes.shape[1] == len(schema.sizes) and len(codes) > 0 and codes.dtype == np.uint32
    return codes if shaped and (codes.max(axis=0) < np.array(schema.sizes)).all() else None
