"""A synthesizer's own process: rows go in through a private folder, codes come out, and nothing that it says gets out.

The folder has mode 0700, is the child's working and temporary folder, and is removed however the child ends. What the
child prints is not read. It ends with this process, and with it whatever it has started.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable, code_dtype
from equistrata.errors import EquistrataError, InputError

WORKER = Path(__file__).with_name("_foreign_worker.py")
_OURS = ("EQUISTRATA_", "PREFECT_")  # variables that a child does not see: a ledger's password may be among them
_DESCRIBING = 300  # seconds at most for an import: torch on a cold disk takes a minute


class ForeignFailed(EquistrataError, RuntimeError):
    """The child process failed. Says which synthesizer and the exception's type, never with which value."""


def draw(
    python: str, settings: Mapping[str, Any], table: CodedTable, called: str, place: Path | None = None
) -> CodedTable:
    """Have the child fit a table's rows, and return the rows that it drew.

    Args:
        python: its interpreter.
        settings: see `_foreign_worker`; names and sizes of the columns are added. With `trial` the rows are made up,
            and what the child says is given.
        called: the synthesizer's name, for messages.
        place: where the private folder is made; None for the system's temporary folder.

    Raises:
        ForeignFailed: it failed, or gave no codes of the schema.
        InputError: the same, where the rows are made up.
    """
    schema = table.schema
    job = dict(settings) | {"names": list(schema.names), "sizes": [int(size) for size in schema.sizes]}
    folder = Path(tempfile.mkdtemp(prefix="equistrata-synthesizer-", dir=place))  # mkdtemp makes it 0700
    try:
        np.save(folder / "rows.npy", table.codes.astype(np.uint32), allow_pickle=False)
        (folder / "settings.json").write_text(json.dumps(job), "utf-8")
        status = _run(python, folder)
        codes = _read(folder / "synthetic.npy", schema)
        error = _error(folder) if status else {}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if status:
        raise _failure(called, status, error, job.get("trial") is True)
    if codes is None:
        raise ForeignFailed(f"{called} gave no rows of schema {schema.name!r}")
    return CodedTable(codes.astype(code_dtype(schema)), schema)


@lru_cache
def describe(python: str, synthesizer: str, places: tuple[str, ...], mend: str) -> Mapping[str, Any]:
    """What `_foreign_worker.describe` says of a synthesizer. Raises InputError, which ends with `mend`, if it cannot.

    No row is read, so the sentence may quote what the synthesizer's own import says.
    """
    command = [python, "-I", str(WORKER), "--describe", synthesizer, *places]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_DESCRIBING, check=True, cwd="/", env=_environment()
        )
        found = dict(json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError):
        raise InputError(
            f"interpreter {python!r} cannot say what synthesizer {synthesizer!r} is (NumPy is needed there); {mend}"
        ) from None
    if "fault" in found:
        raise InputError(f"synthesizer {synthesizer!r} cannot be used ({found['fault']}); {mend}")
    return found


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}


def _run(python: str, folder: Path) -> int:
    """The child's exit status."""
    # Isolated (-I): neither PYTHONPATH nor the worker's own folder may put our modules before the synthesizer's.
    command = [python, "-I", str(WORKER), str(folder)]
    environment = _environment() | {"TMPDIR": str(folder), "JAX_PLATFORMS": "cpu"}
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    child = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=pipe, stdout=null, stderr=null, start_new_session=True
    )
    assert child.stdin is not None
    try:
        return child.wait()
    finally:
        child.stdin.close()  # the worker watches it, so that it also ends if this process is killed
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)  # with what it started, also where it has ended itself
        child.wait()


def _error(folder: Path) -> Mapping[str, Any]:
    with suppress(OSError, ValueError):
        found = json.loads((folder / "error.json").read_text("utf-8"))
        return found if isinstance(found, dict) else {}
    return {}


def _failure(called: str, status: int, error: Mapping[str, Any], trial: bool) -> EquistrataError:
    if isinstance(contract := error.get("contract"), str):
        where = "fitted to made-up rows, " if trial else ""
        sentence = f"{where}what {called} drew {contract}; correct its sample, which returns codes of every column"
        return InputError(sentence) if trial else ForeignFailed(sentence)
    kind = error.get("type")
    kind = kind if isinstance(kind, str) and kind.isidentifier() else f"exit status {status}"
    if trial:
        text = str(error.get("text", "")).strip()
        said = f":\n{text}" if text else ""
        return InputError(f"{called} failed on made-up rows, before any real one was read ({kind}){said}")
    return ForeignFailed(
        f"{called} failed on a stratum ({kind}); its own message is withheld because it may quote a row"
    )


def _read(path: Path, schema: Schema) -> npt.NDArray[np.uint32] | None:
    """The rows that the child wrote; None if they are not rows of the schema."""
    try:
        codes: npt.NDArray[np.uint32] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    shaped = codes.ndim == 2 and codes.shape[1] == len(schema.sizes) and len(codes) > 0 and codes.dtype == np.uint32
    return codes if shaped and (codes.max(axis=0) < np.array(schema.sizes)).all() else None


def known_places() -> Sequence[str]:
    """Where modules are looked for after installed ones: the working folder, and PYTHONPATH's."""
    return [os.getcwd(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
