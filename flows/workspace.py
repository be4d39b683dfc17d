"""The private working folder: the only place where rows rest while a release runs.

Mode 0700, outside the orchestrator, removed when the run ends, also when it fails. Tasks pass its path and a stratum's
position; rows never travel through the orchestrator. Tables lie in it as NumPy files, which grow batch by batch and are
mapped to be read, so that neither takes memory for all rows.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from data.errors import InputError
from data.schema import Schema
from data.table import CodedTable
from synth.measurements import Measurement, save_measurements
from synth.mechanism import Model
from synth.storage import save_model


@dataclass(frozen=True)
class Workspace:
    """Paths inside a working folder, and how tables are kept there (NumPy arrays, no pickle).

    Attributes:
        root: the folder.
    """

    root: Path

    @property
    def staging(self) -> Path:
        """Where the release takes shape before it is moved to its place in one step."""
        return self.root / "release"

    def stratum(self, position: int) -> Path:
        """The coded rows of one stratum."""
        return self.root / f"stratum{position}.npy"

    def fit(self, position: int) -> Path:
        """The folder of one stratum's fit, which appears in one step as soon as its measurements exist."""
        return self.root / f"fit{position}"

    def measurements(self, position: int) -> Path:
        """The noisy measurements of one stratum, once they exist."""
        return self.fit(position) / "measurements.json"

    def model(self, position: int) -> Path:
        """The model of one stratum, once it exists."""
        return self.fit(position) / "model.npz"

    @property
    def held_out(self) -> Path:
        """The coded rows that were held out."""
        return self.root / "held_out.npy"

    @property
    def synthetic(self) -> Path:
        """The coded synthetic rows."""
        return self.root / "synthetic.npy"

    def outcome(self, name: str, position: int) -> Path:
        """One outcome column's present values in one stratum."""
        return self.root / f"outcome_{file_stem(name)}_{position}.npy"

    def append(self, path: Path, rows: npt.NDArray[Any]) -> None:
        """Add rows to a NumPy file, which is made if need be and is whole after each call."""
        exists = path.exists()
        with path.open("r+b" if exists else "w+b") as file:
            done = _read_header(file) if exists else 0
            _write_header(file, rows, done)  # of one length whatever the number of rows
            file.seek(0, os.SEEK_END)
            file.write(np.ascontiguousarray(rows).data)
            _write_header(file, rows, done + len(rows))

    def append_table(self, path: Path, table: CodedTable) -> None:
        """Add the codes of a table to a file."""
        self.append(path, table.codes)

    def load(self, path: Path) -> npt.NDArray[Any]:
        """The rows of a file that `append` made, mapped: they are read when they are looked at, and not kept."""
        rows: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        return rows

    def load_table(self, path: Path, schema: Schema) -> CodedTable:
        """The table of a file that `append_table` made, mapped."""
        return CodedTable(self.load(path), schema)

    def count_start(self, position: int) -> int:
        """Write down, durably, that a fit of this stratum starts, before it draws noise; how many have, this one too."""
        with (self.root / f"started{position}").open("ab") as file:
            file.write(b"+")
            file.flush()
            os.fsync(file.fileno())
            return file.tell()

    def keep_fit(self, position: int, measurements: Sequence[Measurement], model: Model | None = None) -> None:
        """Save a stratum's measurements, and with them a model that cannot be made from them, in one step.

        Whoever comes first wins: if the stratum has measurements already, these are dropped unseen.
        """
        folder = Path(tempfile.mkdtemp(prefix=f"fit{position}-", dir=self.root))
        save_measurements(measurements, folder / "measurements.json")
        if model is not None:
            save_model(model, folder / "model.npz")
        try:
            folder.rename(self.fit(position))
        except OSError:
            shutil.rmtree(folder)
            if not self.measurements(position).exists():
                raise

    def keep_model(self, position: int, model: Model) -> None:
        """Save the model of a stratum's measurements in one step."""
        unfinished = Path(tempfile.mkdtemp(prefix=f"fit{position}-", dir=self.root)) / "model.npz"
        save_model(model, unfinished)
        unfinished.replace(self.model(position))
        unfinished.parent.rmdir()

    def save_json(self, path: Path, document: object) -> None:
        """Write readable JSON."""
        path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")


def file_stem(name: str) -> str:
    """A column's name as a file name."""
    return "".join(c if c.isalnum() else f"-{ord(c):x}-" for c in name)


def _read_header(file: BinaryIO) -> int:
    """The number of rows of a NumPy file."""
    np.lib.format.read_magic(file)
    return int(np.lib.format.read_array_header_1_0(file)[0][0])


def _write_header(file: BinaryIO, rows: npt.NDArray[Any], count: int) -> None:
    """NumPy leaves room for the number of rows to grow, so the header's length depends on it not."""
    descr = np.lib.format.dtype_to_descr(rows.dtype)
    file.seek(0)
    np.lib.format.write_array_header_1_0(
        file, {"descr": descr, "fortran_order": False, "shape": (count, *rows.shape[1:])}
    )


@contextmanager
def private_workspace(scratch: str | None = None) -> Iterator[Workspace]:
    """Make a private working folder, in the folder `scratch` or else in the system's temporary folder, and remove it
    however the run ends."""
    try:
        root = Path(tempfile.mkdtemp(prefix="equistrata-", dir=scratch))  # mkdtemp makes it 0700
    except OSError:
        raise InputError(
            f"scratch folder {scratch!r} cannot be written; give an existing folder with permission to write"
        ) from None
    try:
        yield Workspace(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)
