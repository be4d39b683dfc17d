"""Our side of the protocol in `child.py`, which writes the rows, waits, and reads the result."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.field.environments import CHILD
from equistrata.data.table import CodedTable, code_dtype


class PeerFailed(RuntimeError):
    """An error of a peer, or a result that does not agree with the schema. The message is the reason."""


class PeerTimeout(PeerFailed):
    """A peer exceeded its time limit."""


@dataclass(frozen=True)
class Made:
    """The result of a peer.

    Attributes
    ----------
    rows : CodedTable
        The synthetic rows.
    seconds, cpu_seconds : float
        The elapsed time and the processor time for fitting and drawing.
    software : str
        The packages of the peer and their versions.
    """

    rows: CodedTable
    seconds: float
    cpu_seconds: float
    software: str


def call(python: Path, peer: Path, rows: CodedTable, settings: Mapping[str, Any], limit: float) -> Made:
    """Run a peer file on rows with the interpreter of the peer.

    Parameters
    ----------
    python : Path
        The interpreter.
    peer : Path
        The peer file.
    rows : CodedTable
        The training rows.
    settings : mapping
        The values of `synthesizer`, `epsilon`, `delta`, `rho`, `seed` and `draw`. The columns are added.
    limit : float
        The time limit in seconds. After this, the peer and all of its processes are stopped.

    Returns
    -------
    Made
        The result.

    Raises
    ------
    PeerFailed
        If the peer fails. The subclass TooSlow is raised if it exceeds the limit.
    """
    schema = rows.schema
    columns = {"names": list(schema.names), "sizes": [int(size) for size in schema.sizes]}
    with tempfile.TemporaryDirectory(prefix="equistrata-field-") as name:
        folder = Path(name)
        np.save(folder / "rows.npy", rows.codes, allow_pickle=False)
        (folder / "settings.json").write_text(json.dumps({**settings, **columns}), "utf-8")
        _wait([str(python), "-I", str(CHILD), str(peer.resolve()), str(folder)], folder, limit)
        try:
            report = json.loads((folder / "report.json").read_text("utf-8"))
            codes = np.load(folder / "synthetic.npy", allow_pickle=False)
        except (OSError, ValueError, EOFError):
            raise PeerFailed("it left no rows") from None
    shaped = codes.ndim == 2 and codes.shape[1] == len(schema.sizes) and len(codes) > 0
    if not shaped or (codes < 0).any() or (codes >= np.array(schema.sizes)).any():
        raise PeerFailed("what it drew are not rows of the schema")
    return Made(CodedTable(codes.astype(code_dtype(schema)), schema), **report)


def _wait(command: list[str], folder: Path, limit: float) -> None:
    environment = os.environ | {"TMPDIR": str(folder), "JAX_PLATFORMS": "cpu"}
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    child = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=pipe, stdout=null, stderr=null, start_new_session=True
    )
    assert child.stdin is not None
    try:
        status = child.wait(limit)
    except subprocess.TimeoutExpired:
        raise PeerTimeout(f"it took longer than {limit:.0f} s") from None
    finally:
        with suppress(ProcessLookupError):  # the peer and its workers are a separate process group
            os.killpg(child.pid, signal.SIGKILL)
        child.stdin.close()
        child.wait()
    if status:
        try:
            said = json.loads((folder / "error.json").read_text("utf-8"))
        except (OSError, ValueError):
            said = f"exit status {status}"
        raise PeerFailed(str(said))
