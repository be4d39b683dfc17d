"""Model files: NumPy archives without pickle. A head names the format, the schema (by its digest) and the total."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from equistrata.data.schema import Schema
from equistrata.errors import InputError

M = TypeVar("M")
Archive = Mapping[str, npt.NDArray[Any]]
# What NumPy and zipfile raise on files that are not archives, are cut off, or are damaged (RuntimeError: the damage
# looks like encryption or an unknown compression).
_BROKEN = (
    OSError, ValueError, KeyError, IndexError, TypeError, EOFError, OverflowError, RuntimeError, BadZipFile, zlib.error
)  # fmt: skip


def write_archive(
    path: Path | BinaryIO,
    kind: str,
    schema: Schema,
    total: float,
    arrays: Archive,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Write arrays under a head of `kind`, the schema's digest, the total and `more` (JSON)."""
    head = {"format": kind, "schema": schema.digest, "total": total, **(more or {})}
    with path.open("wb") if isinstance(path, Path) else nullcontext(path) as file:
        np.savez_compressed(file, head=np.array(json.dumps(head)), **arrays)  # type: ignore[arg-type]


def read_archive(
    path: Path | BinaryIO, kind: str, schema: Schema, make: Callable[[Mapping[str, Any], Archive], M]
) -> M:
    """What `make` builds of the head and the arrays; it may raise ValueError or InputError on what makes no sense.

    Raises:
        InputError: the file is not a model of this kind and schema.
    """
    try:
        with _opened(path) as file, np.load(file, allow_pickle=False) as archive:
            head = json.loads(str(archive["head"]))
            if head["format"] != kind or head["schema"] != schema.digest:
                raise ValueError
            return make(head, archive)
    except _BROKEN:
        name = repr(str(path)) if isinstance(path, Path) else "the archive"
        raise InputError(f"{name} is not a model of schema {schema.name!r}; give the right pair") from None


def archive_kind(path: Path | BinaryIO) -> str:
    """The format that a file's head names; empty if it is no such archive."""
    try:
        with _opened(path) as file, np.load(file, allow_pickle=False) as archive:
            return str(json.loads(str(archive["head"]))["format"])
    except _BROKEN:
        return ""


def _opened(path: Path | BinaryIO) -> AbstractContextManager[BinaryIO]:
    if isinstance(path, Path):
        return path.open("rb")
    path.seek(0)
    return nullcontext(path)
