"""The private working folder, which is the only place on disk that contains rows while a release runs.

The folder has mode 0700 and is not part of the orchestrator's storage. It is removed when the run ends, even if it
fails. If a run is killed, the next run removes its folder. Tasks receive the path of the folder and the position of a
stratum, so that rows are never sent through the orchestrator. Tables are NumPy files, which are extended by each batch
and are memory-mapped.

The results that were paid for are noisy measurements, models and means. They can be stored in a separate folder that
does not contain rows and is kept after the run (see `equistrata.flows.run.journal`). In this folder, a stratum is
identified by its key and not by its position, because the position may change with the schema.
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
from equistrata.flows.run.claims import LANDING, FolderInUse, remove_dead, tried
from equistrata.flows.run.disk import sync, sync_tree, unusable, write_durably
from equistrata.flows.run.holdings import hold_folder, remove_dead_holdings
from equistrata.synth.measurements import Measurement
from equistrata.synth.models.base import Model
from equistrata.synth.models.storage import save_model
from equistrata.synth.storage import save_measurements
from equistrata.synth.strata.model import StratifiedModel

HELD_OUT, SYNTHETIC = "held_out.npy", "synthetic.npy"  # files with coded rows
SNAPSHOT = "snapshot.json"  # digests of the rows, which are as private as the rows
UNIT_SIZES = "unit_sizes.json"  # the exact number of units with each number of rows
WORK_PREFIX = "equistrata-release-"
UNSAVED = "unsaved-"  # the prefix of incomplete files, which are never opened


@dataclass(frozen=True)
class Workspace:
    """The paths of a working folder, and its tables as NumPy arrays without pickle."""

    root: Path
    kept: Path | None = None  # the folder of the results that were paid for; if None, it is `root`
    run: int = 1  # the number of this run of the release, from 1
    units: tuple[str, ...] = ()  # the `unit_name` of each fitted stratum, in order; required if `kept` is given
    landing: Path | None = None  # the folder next to the output that this run holds, if any

    def __post_init__(self) -> None:
        if self.kept is not None and not self.units:
            raise InputError("files that are kept after a run are named after its units; give the units")

    @property
    def paid(self) -> Path:
        """The folder of the results that were paid for."""
        return self.kept or self.root

    @property
    def staging(self) -> Path:
        """The folder in which the release is prepared."""
        return self.root / "release"

    def stratum(self, position: int) -> Path:
        """Return the path of the coded rows of a stratum."""
        return self.root / f"stratum{position}.npy"

    def weights(self, position: int) -> Path:
        """Return the path of the survey weights of a stratum, in the order of its coded rows."""
        return self.root / f"weights{position}.npy"

    def fit(self, position: int) -> Path:
        """Return the folder of the fit of a stratum. It is created in one step together with the measurements."""
        return self.paid / f"fit_{self._name(position)}"

    def measurements(self, position: int) -> Path:
        """Return the path of the noisy measurements of a stratum."""
        return self.fit(position) / "measurements.json"

    @property
    def state(self) -> Path:
        """The path of the state of a series after this release."""
        return self.root / "series.json"

    def learned(self, position: int) -> Path:
        """Return the path of the measurements of a stratum, combined with the earlier releases of a series."""
        return self.root / f"learned{position}.json"

    def evidence(self, position: int) -> Path:
        """Return the path of the data from which the model of a stratum is estimated.

        This is `learned` if it exists, or the measurements.
        """
        learned = self.learned(position)
        return learned if learned.exists() else self.measurements(position)

    def borrowed(self, position: int) -> Path:
        """Return the path of the information that a stratum borrows from the other strata. The file may not exist."""
        return self.root / f"borrowed{position}.json"

    def model(self, position: int) -> Path:
        """Return the path of the model of a stratum."""
        return self.fit(position) / "model.npz"

    @property
    def joint(self) -> Path:
        """The file of the joint model of all strata."""
        return self.paid / "joint" / "model.npz"

    def mean(self, part: str) -> Path:
        """Return the path of the estimate of a mean, by its name in `Plan.parts`."""
        return self.paid / f"mean_{self._name(part)}.json"

    def found(self, part: str) -> Path:
        """Return the path of the values that were found for an open column, by its name in `Plan.parts`."""
        return self.paid / f"found_{self._name(part)}.json"

    def vocabulary(self, name: str) -> Path:
        """Return the path of all texts in an open column."""
        return self.root / f"vocabulary_{unit_name(name)}.json"

    def outcome(self, name: str, position: int) -> Path:
        """Return the path of the values of an outcome column in a stratum, without missing values."""
        return self.root / f"outcome_{unit_name(name)}_{position}.npy"

    def append(self, path: Path, rows: npt.NDArray[Any]) -> None:
        """Append rows to a NumPy file. If it does not exist, it is created. The file is valid after each call."""
        exists = path.exists()
        with path.open("r+b" if exists else "w+b") as file:
            done = _read_header(file) if exists else 0
            _write_header(file, rows, done)
            file.seek(0, os.SEEK_END)
            file.write(np.ascontiguousarray(rows).data)
            _write_header(file, rows, done + len(rows))

    def load(self, path: Path) -> npt.NDArray[Any]:
        """Return the rows of a file that was created by `append`, as a memory-mapped array."""
        rows: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        return rows

    def load_table(self, path: Path, schema: Schema) -> CodedTable:
        """Return the coded table in a file that was created by `append`, as a memory-mapped table."""
        return CodedTable(self.load(path), schema)

    def count_start(self, unit: int | str) -> int:
        """Record durably that a unit starts to draw noise, and return the number of its starts in this run."""
        with self._started(unit).open("a+", encoding="ascii") as file:
            file.write(f"{self.run}\n")
            file.flush()
            os.fsync(file.fileno())
            sync(self.paid)
            file.seek(0)
            return file.read().split().count(str(self.run))

    def starts(self, unit: int | str) -> list[str]:
        """Return the run of each start of a unit. If a worker was lost, its run is listed more than once."""
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
        """Save measurements in one durable step.

        A model is given if it cannot be estimated from them. If another worker has already saved them, nothing is
        changed.
        """
        folder = Path(tempfile.mkdtemp(prefix=UNSAVED, dir=self.paid))
        save_measurements(measurements, folder / "measurements.json")
        if model is not None:
            save_model(model, folder / "model.npz")
        sync_tree(folder)
        _rename_or_drop(folder, self.fit(position))
        sync(self.paid)

    def keep_model(self, position: int, model: Model) -> None:
        """Save the model that was estimated from the measurements of a stratum, in one step."""
        unfinished = Path(tempfile.mkdtemp(prefix=UNSAVED, dir=self.paid)) / "model.npz"
        save_model(model, unfinished)
        unfinished.replace(self.model(position))
        unfinished.parent.rmdir()

    def keep_joint(self, model: StratifiedModel) -> None:
        """Save the joint model in one step. If another worker has already saved it, nothing is changed."""
        unfinished = Path(tempfile.mkdtemp(prefix=UNSAVED, dir=self.paid))
        model.save(unfinished / self.joint.name)
        _rename_or_drop(unfinished, self.joint.parent)

    def keep_mean(self, part: str, entry: object) -> None:
        """Save an estimate in one durable step. If another worker has already saved it, nothing is changed."""
        write_durably(self.mean(part), json.dumps(entry), UNSAVED, new=True)

    def keep_found(self, part: str, entry: object) -> None:
        """Save the values of an open column in one durable step.

        If another worker has already saved them, nothing is changed.
        """
        write_durably(self.found(part), json.dumps(entry), UNSAVED, new=True)

    def coins(self, rng: np.random.Generator) -> np.random.Generator:
        """Return the random generator that selects the held-out rows.

        It is the same in every run of the release. The first run uses `rng` to choose its seed.
        """
        path = self.paid / "coins"
        if not path.exists():
            write_durably(path, str(rng.integers(2**63)), UNSAVED)
        return np.random.default_rng(int(path.read_text("ascii")))

    def unit_key(self, rng: np.random.Generator) -> bytes:
        """Return the secret key that is used to choose the rows of a unit. It is the same in every run of the release.

        Raises
        ------
        InputError
            If the key is missing although noise was drawn. With another key, other rows of a unit would be used in
            addition.
        """
        path = self.paid / "unit_key"
        if not path.exists():
            if any(self.paid.glob("started_*")):
                raise InputError(
                    "the key that was used to choose the rows of units is missing in the release's private folder, "
                    "so the release cannot be continued; give it up, and make it under another id"
                )
            write_durably(path, rng.bytes(32).hex(), UNSAVED)
        return bytes.fromhex(path.read_text("ascii"))

    def save_json(self, path: Path, document: object) -> None:
        """Write a document as readable JSON."""
        path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _rename_or_drop(made: Path, target: Path) -> None:
    """Rename a folder. If the new name exists because another worker was faster, remove the folder."""
    try:
        made.rename(target)
    except OSError:
        there = all((target / path.name).exists() for path in made.iterdir())
        shutil.rmtree(made)
        if not there:
            raise


def unit_name(*what: object) -> str:
    """Return a file name for a part of a release, such as a stratum, a mean or a column. The name is a hash."""
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]


def _read_header(file: BinaryIO) -> int:
    """Return the number of rows in a NumPy file."""
    np.lib.format.read_magic(file)
    return int(np.lib.format.read_array_header_1_0(file)[0][0])


def _write_header(file: BinaryIO, rows: npt.NDArray[Any], count: int) -> None:
    """Write the header of a NumPy file. Its length does not depend on the number of rows, because NumPy pads it."""
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
    """Create a private working folder that is removed at the end of the block.

    Parameters
    ----------
    scratch : str or None, default=None
        The folder in which it is created. If None, the temporary folder of the system is used.
    kept, run, units, landing
        Attributes of `Workspace`.

    Yields
    ------
    Workspace
        The working folder.

    Raises
    ------
    InputError
        If the folder cannot be created.
    """
    remove_dead_workspaces(scratch)
    with ExitStack() as stack:
        place = scratch or tempfile.gettempdir()

        def attempt() -> Path:
            return stack.enter_context(hold_folder(Path(place).absolute() / f"{WORK_PREFIX}{secrets.token_hex(8)}"))

        try:
            # Before the folder is locked, another run may remove it, because it looks like the folder of a dead run.
            root = tried(attempt, FolderInUse, FileNotFoundError)
            if landing is not None:
                (root / LANDING).write_text(str(landing), "utf-8")
        except (OSError, ValueError, FolderInUse) as error:
            raise unusable("the private working folder", "--scratch", error, place) from None
        yield Workspace(root, kept, run, units, landing)


def remove_dead_workspaces(scratch: str | None = None) -> None:
    """Remove the working folders and incomplete outputs of killed runs.

    They are searched for in the records, in the temporary folder of the system, and in `scratch`.
    """
    remove_dead_holdings()
    for place in {tempfile.gettempdir(), scratch or tempfile.gettempdir()}:
        remove_dead(Path(place), f"{WORK_PREFIX}*")
