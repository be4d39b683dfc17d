"""The private working folder: the only place of rows on disk while a release runs.

Mode 0700, outside the orchestrator, removed when the run ends, also when it fails; a killed run's is removed by the
next run. Tasks pass its path and a stratum's position; rows never travel through the orchestrator. Tables are NumPy
files, which grow batch by batch and are memory-mapped.

What was paid for (noisy measurements, models, means) may be in a folder of its own without any row, which outlives the
run (`equistrata.flows.run.journal`). There a stratum is named by its key, not by its position, which may change
with the schema.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.flows.run.claims import LANDING, Held, remove_dead, tried
from equistrata.flows.run.disk import sync, sync_tree, unusable, write_durably
from equistrata.flows.run.holdings import held_folder, remove_dead_holdings
from equistrata.synth.measurements import Measurement
from equistrata.synth.models.base import Model
from equistrata.synth.models.storage import save_model
from equistrata.synth.storage import save_measurements
from equistrata.synth.strata.model import StratifiedModel

HELD_OUT, SYNTHETIC = "held_out.npy", "synthetic.npy"  # coded rows
SNAPSHOT = "snapshot.json"  # digests of the rows, as private as the rows beside them
UNIT_SIZES = "unit_sizes.json"  # how many units have how many rows, exact
WORK_PREFIX = "equistrata-release-"
UNSAVED = "unsaved-"  # prefix of what is not whole yet; nothing opens it


@dataclass(frozen=True)
class Workspace:
    """Paths in a working folder, and its tables (NumPy arrays, no pickle)."""

    root: Path
    kept: Path | None = None  # the folder of what was paid for; None for `root`
    run: int = 1  # the number of this run of the release, from 1
    units: tuple[str, ...] = ()  # the `unit_name` of each fitted stratum, by its position; needed with `kept`
    landing: Path | None = None  # the folder that this run holds beside its output, if any

    def __post_init__(self) -> None:
        if self.kept is not None and not self.units:
            raise InputError("what outlives a run is filed by the names of its units; give them")

    @property
    def paid(self) -> Path:
        """The folder of what was paid for."""
        return self.kept or self.root

    @property
    def staging(self) -> Path:
        """The folder in which the release takes shape."""
        return self.root / "release"

    def stratum(self, position: int) -> Path:
        """The coded rows of one stratum."""
        return self.root / f"stratum{position}.npy"

    def weights(self, position: int) -> Path:
        """The survey weights of one stratum's coded rows, in their order."""
        return self.root / f"weights{position}.npy"

    def fit(self, position: int) -> Path:
        """The folder of one stratum's fit, which appears in one step with its measurements."""
        return self.paid / f"fit_{self._name(position)}"

    def measurements(self, position: int) -> Path:
        """The noisy measurements of one stratum."""
        return self.fit(position) / "measurements.json"

    @property
    def state(self) -> Path:
        """The state of a series after this release."""
        return self.root / "series.json"

    def learned(self, position: int) -> Path:
        """What one stratum's model is made of in a series: its measurements, joined with what was known before."""
        return self.root / f"learned{position}.json"

    def evidence(self, position: int) -> Path:
        """What one stratum's model is made of: `learned`, or its measurements alone."""
        learned = self.learned(position)
        return learned if learned.exists() else self.measurements(position)

    def borrowed(self, position: int) -> Path:
        """What one stratum borrows from the others, if anything."""
        return self.root / f"borrowed{position}.json"

    def model(self, position: int) -> Path:
        """The model of one stratum."""
        return self.fit(position) / "model.npz"

    @property
    def joint(self) -> Path:
        """The file of the joint model of all strata."""
        return self.paid / "joint.npz"

    def mean(self, part: str) -> Path:
        """One estimate of a mean, by its name in `Plan.parts`."""
        return self.paid / f"mean_{self._name(part)}.json"

    def found(self, part: str) -> Path:
        """What was found of an open column, by its name in `Plan.parts`."""
        return self.paid / f"found_{self._name(part)}.json"

    def vocabulary(self, name: str) -> Path:
        """Every text of an open column."""
        return self.root / f"vocabulary_{unit_name(name)}.json"

    def outcome(self, name: str, position: int) -> Path:
        """One outcome column's present values in one stratum."""
        return self.root / f"outcome_{unit_name(name)}_{position}.npy"

    def append(self, path: Path, rows: npt.NDArray[Any]) -> None:
        """Add rows to a NumPy file, which is made if missing, and is whole after each call."""
        exists = path.exists()
        with path.open("r+b" if exists else "w+b") as file:
            done = _read_header(file) if exists else 0
            _write_header(file, rows, done)
            file.seek(0, os.SEEK_END)
            file.write(np.ascontiguousarray(rows).data)
            _write_header(file, rows, done + len(rows))

    def load(self, path: Path) -> npt.NDArray[Any]:
        """The rows of a file that `append` made, memory-mapped."""
        rows: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        return rows

    def load_table(self, path: Path, schema: Schema) -> CodedTable:
        """The coded table in a file that `append` made, memory-mapped."""
        return CodedTable(self.load(path), schema)

    def count_start(self, unit: int | str) -> int:
        """Write down durably, before noise is drawn, that a unit starts; its number of starts in this run."""
        with self._started(unit).open("a+", encoding="ascii") as file:
            file.write(f"{self.run}\n")
            file.flush()
            os.fsync(file.fileno())
            sync(self.paid)
            file.seek(0)
            return file.read().split().count(str(self.run))

    def starts(self, unit: int | str) -> list[str]:
        """The run of each start of this unit; a run is named again where its worker was lost."""
        try:
            return self._started(unit).read_text("ascii").split()
        except FileNotFoundError:
            return []

    def _started(self, unit: int | str) -> Path:
        return self.paid / f"started_{self._name(unit)}"

    def _name(self, unit: int | str) -> str:
        if isinstance(unit, str):
            return unit_name(unit)
        return self.units[unit] if self.units else str(unit)

    def keep_fit(self, position: int, measurements: Sequence[Measurement], model: Model | None = None) -> None:
        """Save measurements, and a model that cannot be made from them, in one durable step; the first to save wins."""
        folder = Path(tempfile.mkdtemp(prefix=UNSAVED, dir=self.paid))
        save_measurements(measurements, folder / "measurements.json")
        if model is not None:
            save_model(model, folder / "model.npz")
        sync_tree(folder)
        _rename_or_drop(folder, self.fit(position))
        sync(self.paid)

    def keep_model(self, position: int, model: Model) -> None:
        """Save the model of a stratum's measurements in one step."""
        unfinished = Path(tempfile.mkdtemp(prefix=UNSAVED, dir=self.paid)) / "model.npz"
        save_model(model, unfinished)
        unfinished.replace(self.model(position))
        unfinished.parent.rmdir()

    def keep_joint(self, model: StratifiedModel) -> None:
        """Save the joint model in one step."""
        unfinished = Path(tempfile.mkdtemp(prefix=UNSAVED, dir=self.paid)) / "joint.npz"
        model.save(unfinished)
        unfinished.replace(self.joint)
        unfinished.parent.rmdir()

    def keep_mean(self, part: str, entry: object) -> None:
        """Save one estimate in one durable step; the first to save wins."""
        write_durably(self.mean(part), json.dumps(entry), UNSAVED, new=True)

    def keep_found(self, part: str, entry: object) -> None:
        """Save what was found of an open column in one durable step; the first to save wins."""
        write_durably(self.found(part), json.dumps(entry), UNSAVED, new=True)

    def coins(self, rng: np.random.Generator) -> np.random.Generator:
        """The coins that hold rows out, the same in every run of the release; the first run seeds them by `rng`."""
        path = self.paid / "coins"
        if not path.exists():
            write_durably(path, str(rng.integers(2**63)), UNSAVED)
        return np.random.default_rng(int(path.read_text("ascii")))

    def unit_key(self, rng: np.random.Generator) -> bytes:
        """The secret key by which rows of a unit are chosen, the same in every run of the release.

        Raises InputError if it is gone and noise was drawn: by another key, other rows of a unit would be used as well.
        """
        path = self.paid / "unit_key"
        if not path.exists():
            if any(self.paid.glob("started_*")):
                raise InputError(
                    "the key by which rows of units were chosen is gone from the release's private folder, so what was "
                    "drawn cannot be gone on with; give the release up, and make it under another id"
                )
            write_durably(path, rng.bytes(32).hex(), UNSAVED)
        return bytes.fromhex(path.read_text("ascii"))

    def save_json(self, path: Path, document: object) -> None:
        """Write readable JSON."""
        path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _rename_or_drop(made: Path, target: Path) -> None:
    """Rename a folder, or remove it if another worker was first."""
    try:
        made.rename(target)
    except OSError:
        there = all((target / path.name).exists() for path in made.iterdir())
        shutil.rmtree(made)
        if not there:
            raise


def unit_name(*what: object) -> str:
    """The name of what is kept of a unit of a release (a stratum's fit, a mean, a column): a hash, so a file name."""
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]


def _read_header(file: BinaryIO) -> int:
    """The number of rows of a NumPy file."""
    np.lib.format.read_magic(file)
    return int(np.lib.format.read_array_header_1_0(file)[0][0])


def _write_header(file: BinaryIO, rows: npt.NDArray[Any], count: int) -> None:
    """NumPy pads the header, so its length does not depend on the number of rows."""
    descr = np.lib.format.dtype_to_descr(rows.dtype)
    file.seek(0)
    np.lib.format.write_array_header_1_0(
        file, {"descr": descr, "fortran_order": False, "shape": (count, *rows.shape[1:])}
    )


@contextmanager
def private_workspace(
    scratch: str | None = None,
    kept: Path | None = None,
    run: int = 1,
    units: tuple[str, ...] = (),
    landing: Path | None = None,
) -> Iterator[Workspace]:
    """A private working folder, removed at the end; the other settings are `Workspace`'s. Raises InputError."""
    remove_dead_workspaces(scratch)
    with ExitStack() as stack:
        place = scratch or tempfile.gettempdir()

        def attempt() -> Path:
            return stack.enter_context(held_folder(Path(place).absolute() / f"{WORK_PREFIX}{secrets.token_hex(8)}"))

        try:
            # Another run may take it for a dead one's before it is locked.
            root = tried(attempt, Held, FileNotFoundError)
            if landing is not None:
                (root / LANDING).write_text(str(landing), "utf-8")
        except (OSError, ValueError, Held) as error:
            raise unusable("the private working folder", "--scratch", error, place) from None
        yield Workspace(root, kept, run, units, landing)


def remove_dead_workspaces(scratch: str | None = None) -> None:
    """Remove killed runs' working folders and outputs: those recorded, in the temporary folder, and in `scratch`."""
    remove_dead_holdings()
    for place in {tempfile.gettempdir(), scratch or tempfile.gettempdir()}:
        remove_dead(Path(place), f"{WORK_PREFIX}*")
