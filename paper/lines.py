"""Measured lines in a CSV file, each written as soon as it is known, so that none is made twice."""

from __future__ import annotations

import csv
import fcntl
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, get_type_hints

from equistrata.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

C = TypeVar("C", bound="DataclassInstance")
L = TypeVar("L", bound="DataclassInstance")
Given = TypeVar("Given")
Found = TypeVar("Found")


@dataclass(frozen=True)
class LineFile(Generic[C, L]):
    """A CSV file with a header, one line for each place of a grid.

    Attributes:
        path: the file; its folder is made when the first line is written.
        cell: a frozen dataclass of texts and numbers: a place.
        line: a subclass of `cell` with what was measured there; what was not measured is None, and empty in the file.
    """

    path: Path
    cell: type[C]
    line: type[L]

    def read(self) -> dict[C, L]:
        """Place → line. A later line of a place replaces an earlier one; a line that was cut off counts as not written.

        Raises InputError if the file holds other columns than these.
        """
        if not self.path.exists():
            return {}
        text = self.path.read_text("utf-8")
        header, *rows = [*csv.reader(io.StringIO(text[: text.rfind("\n") + 1]))] or [self._header]
        if header != self._header:
            raise InputError(
                f"{str(self.path)!r} holds other columns than this version writes; move it away, or name another output"
            )
        places = [field.name for field in fields(self.cell)]
        lines = (self._parse(row) for row in rows if len(row) == len(header))
        return {self.cell(**{name: getattr(line, name) for name in places}): line for line in lines}

    def append(self, lines: Iterable[L]) -> None:
        """Write lines at the end, after a header if the file is new; first drop the rest of a line that was cut off."""
        buffer = io.StringIO(newline="")
        writer = csv.DictWriter(buffer, self._header, lineterminator="\n")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # another process may write to the same file
            file.seek(0)
            whole = file.read().rfind(b"\n") + 1
            file.truncate(whole)
            if not whole:
                writer.writeheader()
            writer.writerows(asdict(line) for line in lines)
            file.write(buffer.getvalue().encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())

    @property
    def _header(self) -> list[str]:
        return [field.name for field in fields(self.line)]

    def _parse(self, row: list[str]) -> L:
        kinds = get_type_hints(self.line)
        try:
            return self.line(**{name: _value(text, kinds[name]) for name, text in zip(self._header, row, strict=True)})
        except ValueError:
            raise InputError(
                f"{str(self.path)!r} holds a line that is not one of its own; move it away, or name another output"
            ) from None


def spread(function: Callable[[Given], Found], items: Sequence[Given], workers: int) -> Iterator[Found]:
    """The results for all items, in order, made by clean processes where there are several workers."""
    if min(workers, len(items)) <= 1:
        yield from map(function, items)
        return
    from loky import ProcessPoolExecutor

    pool = ProcessPoolExecutor(min(workers, len(items)))
    try:
        yield from pool.map(function, items)
    finally:
        pool.shutdown(wait=True, kill_workers=True)


def _value(text: str, kind: Any) -> Any:
    """The text as its declared type, of which `X | None` is empty for None."""
    either = get_args(kind)
    return None if either and not text else (either[0] if either else kind)(text)
