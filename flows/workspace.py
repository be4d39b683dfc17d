"""The private working folder: the only place where rows rest while a release runs.

Mode 0700, outside the orchestrator, removed when the run ends, also when it fails. Tasks pass its path and a stratum's
position; rows never travel through the orchestrator.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from data.schema import Schema
from data.table import CodedTable


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

    def measurements(self, position: int) -> Path:
        """The noisy measurements of one stratum, once they exist."""
        return self.root / f"measurements{position}.json"

    def borrowed(self, position: int) -> Path:
        """What the other strata say of one stratum, if they say anything."""
        return self.root / f"borrowed{position}.json"

    def model(self, position: int) -> Path:
        """The model of one stratum, once it exists."""
        return self.root / f"model{position}.npz"

    @property
    def held_out(self) -> Path:
        """The coded rows that were held out."""
        return self.root / "held_out.npy"

    @property
    def synthetic(self) -> Path:
        """The coded synthetic rows."""
        return self.root / "synthetic.npy"

    def outcome(self, name: str) -> Path:
        """One outcome column's present values, one array per stratum."""
        return self.root / f"outcome_{file_stem(name)}.npz"

    def save_table(self, path: Path, table: CodedTable) -> None:
        """Keep the codes of a table."""
        np.save(path, table.codes, allow_pickle=False)

    def load_table(self, path: Path, schema: Schema) -> CodedTable:
        """Read the codes of a table back."""
        return CodedTable(np.load(path, allow_pickle=False), schema)

    def save_json(self, path: Path, document: object) -> None:
        """Write readable JSON."""
        path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")

    def save_frame(self, folder: Path, frame: pd.DataFrame) -> None:
        """Write a table as Parquet and CSV."""
        frame.to_parquet(folder / "synthetic.parquet", index=False)
        frame.to_csv(folder / "synthetic.csv", index=False)


def file_stem(name: str) -> str:
    """A column's name as a file name."""
    return "".join(c if c.isalnum() else f"-{ord(c):x}-" for c in name)


@contextmanager
def private_workspace() -> Iterator[Workspace]:
    """Make a private working folder, and remove it however the run ends."""
    root = Path(tempfile.mkdtemp(prefix="equistrata-"))  # mkdtemp makes it 0700
    try:
        yield Workspace(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)
