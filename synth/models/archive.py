"""Model files: NumPy archives without pickle. A head names the format, the schema (by its digest) and the total."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from equistrata.data.schema import Schema
from equistrata.data.texts.json_documents import parse_json
from equistrata.errors import InputError

M = TypeVar("M")
Archive = Mapping[str, npt.NDArray[Any]]
Head = Mapping[str, Any]
Make = Callable[[Head, Archive, Schema], M]
# What NumPy and zipfile raise on files that are not archives, are cut off, or are damaged (RuntimeError: the damage
# looks like encryption or an unknown compression).
_BROKEN = (
    OSError, ValueError, KeyError, IndexError, TypeError, EOFError, OverflowError, RuntimeError, MemoryError,
    BadZipFile, zlib.error,
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
    content: dict[str, Any] = {"head": np.array(json.dumps(head)), **arrays}
    with path.open("wb") if isinstance(path, Path) else nullcontext(path) as file:
        np.savez_compressed(file, **content)


def read_archive(path: Path | BinaryIO, schema: Schema, kinds: Mapping[str, Make[M]]) -> M:
    """What the kind that the head names makes of a file; it may raise ValueError or InputError on what makes no sense.

    Raises:
        InputError: the file is not a model of these kinds and this schema.
    """
    try:
        with (
            path.open("rb") if isinstance(path, Path) else nullcontext(path) as file,
            np.load(file, allow_pickle=False) as archive,
        ):
            head = parse_json(str(archive["head"]), "its head", {"format": str, "schema": str, "total": float})
            if head["schema"] != schema.digest:
                raise ValueError
            return kinds[head["format"]](head, archive, schema)
    except _BROKEN:
        name = repr(str(path)) if isinstance(path, Path) else "the archive"
        raise InputError(f"{name} is not a model of schema {schema.name!r}; give the right pair") from None
