"""Our side of the protocol of `child.py`: hand rows over, wait, read what came back."""

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
    """A peer failed or gave no rows of the schema. The message is the reason."""


class TooSlow(PeerFailed):
    """It took longer than its limit."""


@dataclass(frozen=True)
class Made:
    """What a peer made: rows, seconds of fitting and drawing (of clock, of processors), and by which versions."""

    rows: CodedTable
    seconds: float
    cpu_seconds: float
    software: str


def call(python: Path, peer: Path, rows: CodedTable, settings: Mapping[str, Any], limit: float) -> Made:
    """Run a peer file on these rows by its own interpreter.

    Args:
        settings: `synthesizer`, `epsilon`, `delta`, `rho`, `seed` and `draw`; the columns are added.
        limit: seconds, after which it is ended with all that it started.

    Raises PeerFailed, of which TooSlow.
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
        raise TooSlow(f"it took longer than {limit:.0f} s") from None
    finally:
        with suppress(ProcessLookupError):  # it and its workers, a group of their own
            os.killpg(child.pid, signal.SIGKILL)
        child.stdin.close()
        child.wait()
    if status:
        try:
            said = json.loads((folder / "error.json").read_text("utf-8"))
        except (OSError, ValueError):
            said = f"exit status {status}"
        raise PeerFailed(str(said))
