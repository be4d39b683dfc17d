"""The private working folder: the only place where rows rest while a release runs.

Mode 0700, outside the orchestrator, removed when the run ends, also when it fails; what a killed run left is removed by the
next one. Tasks pass its path and a stratum's position; rows never travel through the orchestrator. Tables lie in it as NumPy
files, which grow batch by batch and are mapped to be read, so that neither takes memory for all rows.

What was paid for (noisy measurements, models, means) may lie in a folder of its own, which outlives the run: see
`equistrata.flows.run.journal`. It holds no row. There a stratum is filed by what it is, not by its position, which moves when the schema
lists its values in another order: what was measured of one stratum must never be taken for another's.
"""

from __future__ import annotations

import errno
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
from equistrata.flows.run.claims import LANDING, TRIES, Held, beating, remove, remove_dead, take
from equistrata.flows.run.disk import disk_full, sync
from equistrata.flows.run.holdings import remove_dead_holdings, written_down
from equistrata.synth.measurements import Measurement, save_measurements
from equistrata.synth.models.base import Model
from equistrata.synth.models.storage import save_model
from equistrata.synth.strata.model import StratifiedModel

PREFIX = "equistrata-release-"
UNSAVED = "unsaved-"  # how the name of something begins that is not whole yet; nothing opens it


@dataclass(frozen=True)
class Workspace:
    """Paths inside a working folder, and how tables are kept there (NumPy arrays, no pickle).

    Attributes:
        root: the folder.
        kept: where that lies which was paid for; None for the working folder itself.
        run: the number of this run of the release: 1, and one more each time it is resumed.
        units: the name (`unit_name`) of each stratum that is fitted, by its position; needed if anything is kept.
        landing: the folder that this run holds beside its output, in which that takes shape; None if it holds none.
    """

    root: Path
    kept: Path | None = None
    run: int = 1
    units: tuple[str, ...] = ()
    landing: Path | None = None

    def __post_init__(self) -> None:
        if self.kept is not None and not self.units:
            raise ValueError("what outlives a run is filed by the names of its units; give them")

    @property
    def paid(self) -> Path:
        """Where that lies which was paid for."""
        return self.kept or self.root

    @property
    def staging(self) -> Path:
        """Where the release takes shape before it is moved to its place in one step."""
        return self.root / "release"

    def stratum(self, position: int) -> Path:
        """The coded rows of one stratum."""
        return self.root / f"stratum{position}.npy"

    def fit(self, position: int) -> Path:
        """The folder of one stratum's fit, which appears in one step as soon as its measurements exist."""
        return self.paid / f"fit_{self._name(position)}"

    def measurements(self, position: int) -> Path:
        """The noisy measurements of one stratum, once they exist."""
        return self.fit(position) / "measurements.json"

    def borrowed(self, position: int) -> Path:
        """What the other strata say of one stratum, if they say anything."""
        return self.root / f"borrowed{position}.json"

    def model(self, position: int) -> Path:
        """The model of one stratum, once it exists."""
        return self.fit(position) / "model.npz"

    @property
    def joint(self) -> Path:
        """The folder of the models of all strata, if they are made together, once they exist."""
        return self.paid / "joint"

    def mean(self, part: str) -> Path:
        """One estimate of a mean, by the name of what it is (`Plan.parts`), once it exists."""
        return self.paid / f"mean_{self._name(part)}.json"

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

    def count_start(self, unit: int | str) -> int:
        """Write down, durably, that this unit starts (a stratum's fit by its position, a mean by its name), before it draws noise.

        Returns how many starts of it this run has seen, this one too.
        """
        with self._started(unit).open("a+", encoding="ascii") as file:
            file.write(f"{self.run}\n")
            file.flush()
            os.fsync(file.fileno())
            sync(self.paid)
            file.seek(0)
            return file.read().split().count(str(self.run))

    def runs_started(self, unit: int | str) -> int:
        """In how many runs this unit was started."""
        return len(set(self._starts(unit)))

    def started_again(self, unit: int | str) -> int:
        """How often this unit was started by a run that had started it already: its worker was lost, or lost sight of."""
        return len(self._starts(unit)) - self.runs_started(unit)

    def _starts(self, unit: int | str) -> list[str]:
        """The run of each start."""
        try:
            return self._started(unit).read_text("ascii").split()
        except FileNotFoundError:
            return []

    def _started(self, unit: int | str) -> Path:
        return self.paid / f"started_{self._name(unit)}"

    def _name(self, unit: int | str) -> str:
        """What a unit is filed by."""
        if isinstance(unit, str):
            return unit_name(unit)
        return self.units[unit] if self.units else str(unit)

    def keep_fit(self, position: int, measurements: Sequence[Measurement], model: Model | None = None) -> None:
        """Save a stratum's measurements, and with them a model that cannot be made from them, in one durable step.

        Whoever comes first wins: if the stratum has measurements already, these are dropped unseen.
        """
        folder = Path(tempfile.mkdtemp(prefix=UNSAVED, dir=self.paid))
        save_measurements(measurements, folder / "measurements.json")
        if model is not None:
            save_model(model, folder / "model.npz")
        for path in (*folder.iterdir(), folder):
            sync(path)
        try:
            folder.rename(self.fit(position))
        except OSError:
            shutil.rmtree(folder)
            if not self.measurements(position).exists():
                raise
        sync(self.paid)

    def keep_model(self, position: int, model: Model) -> None:
        """Save the model of a stratum's measurements in one step. It can be made again, so it need not be durable."""
        unfinished = Path(tempfile.mkdtemp(prefix=UNSAVED, dir=self.paid)) / "model.npz"
        save_model(model, unfinished)
        unfinished.replace(self.model(position))
        unfinished.parent.rmdir()

    def keep_joint(self, model: StratifiedModel) -> None:
        """Save the models of all strata in one step; whoever comes first wins. They can be made again, so they need not be
        durable."""
        unfinished = Path(tempfile.mkdtemp(prefix=UNSAVED, dir=self.paid))
        model.save(unfinished)
        try:
            unfinished.rename(self.joint)
        except OSError:  # a worker that was thought lost, and the one that took its place
            shutil.rmtree(unfinished)
            if not self.joint.exists():
                raise

    def keep_mean(self, part: str, entry: object) -> None:
        """Save one estimate in one durable step; whoever comes first wins."""
        handle, name = tempfile.mkstemp(prefix=UNSAVED, dir=self.paid)
        unfinished = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(entry, file)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(unfinished, self.mean(part))
        except FileExistsError:
            pass
        finally:
            unfinished.unlink()
        sync(self.paid)

    def coins(self, rng: np.random.Generator) -> np.random.Generator:
        """The coins that hold rows out, the same in every run of the release: seeded by `rng` in the first one."""
        path = self.paid / "coins"
        if not path.exists():
            unfinished = path.with_name("coins.part")
            unfinished.write_text(str(rng.integers(2**63)), "ascii")
            unfinished.replace(path)
        return np.random.default_rng(int(path.read_text("ascii")))

    def save_json(self, path: Path, document: object) -> None:
        """Write readable JSON."""
        path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")


def unit_name(*what: object) -> str:
    """What a unit of a release (a stratum's fit, a mean) is filed by: a hash of what it is, so that any value makes a file name.

    >>> unit_name(["SEX"], [1]) == unit_name(["SEX"], [2])
    False
    """
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]


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
def private_workspace(
    scratch: str | None = None,
    kept: Path | None = None,
    run: int = 1,
    units: tuple[str, ...] = (),
    landing: Path | None = None,
) -> Iterator[Workspace]:
    """Make a private working folder, and remove it however the run ends; first remove those of runs that were killed.

    Args:
        scratch: the folder to make it in; the system's temporary folder if none is given.
        kept, run, units, landing: see `Workspace`.

    Raises InputError if it cannot be made.
    """
    remove_dead_workspaces(scratch)
    with ExitStack() as stack:
        try:
            root = _claimed_folder(Path(scratch or tempfile.gettempdir()).absolute(), stack)
            if landing is not None:
                (root / LANDING).write_text(str(landing), "utf-8")
        except (OSError, ValueError, Held) as error:
            raise _refusal(scratch or tempfile.gettempdir(), error) from None
        yield Workspace(root, kept, run, units, landing)


def remove_dead_workspaces(scratch: str | None = None) -> None:
    """Remove the private working folders and half-written outputs that killed runs have left.

    Looked for in the temporary folder, in `scratch`, and wherever a run with the same state folder had one.
    """
    remove_dead_holdings()
    for place in {tempfile.gettempdir(), scratch or tempfile.gettempdir()}:
        remove_dead(Path(place), f"{PREFIX}*")


def _claimed_folder(place: Path, stack: ExitStack) -> Path:
    """A new folder, held as long as the stack lives and then removed."""
    for left in reversed(range(TRIES)):
        root = place / f"{PREFIX}{secrets.token_hex(8)}"
        with ExitStack() as attempt:
            attempt.enter_context(written_down(root))
            root.mkdir(mode=0o700)
            try:
                lock = take(root, leased=True)
            except (Held, FileNotFoundError):  # another run took it for a dead one's in the moment before it was locked
                if not left:
                    raise
                continue
            except OSError:
                remove(root)
                raise
            attempt.callback(os.close, lock)
            attempt.callback(remove, root)
            attempt.enter_context(beating(lock))
            stack.enter_context(attempt.pop_all())
            return root
    raise AssertionError


def _refusal(scratch: str, error: Exception) -> InputError:
    """Why a working folder cannot be made, and what to do."""
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENAMETOOLONG:
        return InputError(
            "the name of the folder for private working files is too long; give a shorter one as --scratch"
        )
    if number in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
        return InputError(
            f"the folder for private working files ({scratch!r}) is on a file system without file locks; give another as --scratch"
        )
    return disk_full(error, scratch) or InputError(
        f"the folder for private working files ({scratch!r}) cannot be written; give an existing one with permission to write "
        "as --scratch"
    )


def sync_tree(folder: Path) -> None:
    """Have everything in a folder written to its disk."""
    for path in (*folder.rglob("*"), folder):
        sync(path)
