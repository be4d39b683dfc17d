"""The separate process of a synthesizer.

The rows are passed to the child process in a private folder, and only codes are read from it. The folder has mode 0700.
It is the working folder and the temporary folder of the child, and it is always removed at the end. The output of the
child is not read. If this process ends, the child and all processes that it started are also ended.
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
# The prefixes of environment variables that are hidden from the child, because they can include a ledger's password.
_OURS = ("EQUISTRATA_", "PREFECT_")
_DESCRIBING = 300  # the maximum time of an import in seconds, because torch needs a minute on a cold disk


class ForeignFailed(EquistrataError, RuntimeError):
    """The child process failed.

    The message contains the name of the synthesizer and the type of the exception, but never a value.
    """


def draw(
    python: str, settings: Mapping[str, Any], table: CodedTable, called: str, place: Path | None = None
) -> CodedTable:
    """Fit the rows of a table in a child process, and return the rows that it drew.

    Parameters
    ----------
    python : str
        The path of the Python interpreter of the child.
    settings : mapping of str to object
        The settings (see `_foreign_worker`). The names and the sizes of the columns are added. If `trial` is True, the
        rows are made up, and the message of the child is included in errors.
    table : CodedTable
        The rows.
    called : str
        The name of the synthesizer for messages.
    place : Path or None, default=None
        The folder in which the private folder is created. If None, it is the temporary folder of the system.

    Returns
    -------
    CodedTable
        The rows that the synthesizer drew.

    Raises
    ------
    ForeignFailed
        If the child failed, or if its result is not codes of the schema.
    InputError
        If the child failed on made-up rows.
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
        raise ForeignFailed(f"{called} did not return rows that fit schema {schema.name!r}")
    return CodedTable(codes.astype(code_dtype(schema)), schema)


@lru_cache
def describe(python: str, synthesizer: str, places: tuple[str, ...], mend: str) -> Mapping[str, Any]:
    """Return the description of a synthesizer by `_foreign_worker.describe`.

    No row is read, so error messages can quote the messages of the import.

    Parameters
    ----------
    python : str
        The path of the Python interpreter of the synthesizer.
    synthesizer : str
        The name of the synthesizer.
    places : tuple of str
        The folders in which modules are searched.
    mend : str
        The last part of error messages, which tells the user how to correct the error.

    Returns
    -------
    mapping of str to object
        The description.

    Raises
    ------
    InputError
        If the synthesizer cannot be described.
    """
    command = [python, "-I", str(WORKER), "--describe", synthesizer, *places]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_DESCRIBING, check=True, cwd="/", env=_environment()
        )
        found = dict(json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError):
        raise InputError(
            f"interpreter {python!r} could not load synthesizer {synthesizer!r} (it needs NumPy there); {mend}"
        ) from None
    if "fault" in found:
        raise InputError(f"synthesizer {synthesizer!r} cannot be used ({found['fault']}); {mend}")
    return found


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}


def _run(python: str, folder: Path) -> int:
    """Run the child process and return its exit status."""
    # The child is isolated (-I), so that neither PYTHONPATH nor the folder of the worker puts our modules before those
    # of the synthesizer.
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
        child.stdin.close()  # the worker watches this pipe, so that it also ends if this process is killed
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)  # ends all processes of the child, even if the child has already ended
        child.wait()


def _error(folder: Path) -> Mapping[str, Any]:
    with suppress(OSError, ValueError):
        found = json.loads((folder / "error.json").read_text("utf-8"))
        return found if isinstance(found, dict) else {}
    return {}


def _failure(called: str, status: int, error: Mapping[str, Any], trial: bool) -> EquistrataError:
    if isinstance(contract := error.get("contract"), str):
        where = "in a trial on made-up rows, " if trial else ""
        sentence = (
            f"{where}the sample of {called} {contract}; correct its method sample, which must return codes of every "
            "column"
        )
        return InputError(sentence) if trial else ForeignFailed(sentence)
    kind = error.get("type")
    kind = kind if isinstance(kind, str) and kind.isidentifier() else f"exit status {status}"
    if trial:
        text = str(error.get("text", "")).strip()
        said = f":\n{text}" if text else ""
        return InputError(f"{called} failed on made-up rows, before any real row was read ({kind}){said}")
    return ForeignFailed(
        f"{called} failed on a stratum ({kind}); its own message is withheld because it can quote a row"
    )


def _read(path: Path, schema: Schema) -> npt.NDArray[np.uint32] | None:
    """Read the rows that the child wrote. The result is None if they are not rows of the schema."""
    try:
        codes: npt.NDArray[np.uint32] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    shaped = codes.ndim == 2 and codes.shape[1] == len(schema.sizes) and len(codes) > 0 and codes.dtype == np.uint32
    return codes if shaped and (codes.max(axis=0) < np.array(schema.sizes)).all() else None


def known_places() -> Sequence[str]:
    """Return the folders in which modules are searched after the installed packages.

    These are the working folder and the folders of PYTHONPATH.
    """
    return [os.getcwd(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
