"""Files of models.

A file is a NumPy archive without pickle. Its head contains the format, the digest of the schema and the total.
"""

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
# The exceptions that NumPy and zipfile raise for files that are not archives, are truncated, or are damaged. They raise
# RuntimeError if the damage looks like encryption or like an unknown compression.
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
    """Write arrays to an archive with a head.

    Parameters
    ----------
    path : Path or file object
        The file to write.
    kind : str
        The name of the format.
    schema : Schema
        The schema of the model. Its digest is stored in the head.
    total : float
        The number of rows that the model represents.
    arrays : mapping of str to ndarray
        The arrays to write.
    more : mapping of str to object or None, default=None
        Further entries of the head, which must be valid in JSON.
    """
    head = {"format": kind, "schema": schema.digest, "total": total, **(more or {})}
    content: dict[str, Any] = {"head": np.array(json.dumps(head)), **arrays}
    with path.open("wb") if isinstance(path, Path) else nullcontext(path) as file:
        np.savez_compressed(file, **content)


def read_archive(path: Path | BinaryIO, schema: Schema, kinds: Mapping[str, Make[M]]) -> M:
    """Read a model from an archive.

    Parameters
    ----------
    path : Path or file object
        The file to read.
    schema : Schema
        The schema of the model.
    kinds : mapping of str to callable
        For each format, the function that makes the model from the head, the arrays and the schema. It can raise
        ValueError or InputError if they are not consistent.

    Returns
    -------
    Model
        The model.

    Raises
    ------
    InputError
        If the file is not a model of one of these formats and of this schema.
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
        raise InputError(
            f"{name} is not a model of schema {schema.name!r}; give a model and the schema it was fitted with"
        ) from None
