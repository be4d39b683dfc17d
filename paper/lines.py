"""Results in a CSV file. Each line is written as soon as it is known, so that no result is computed twice."""

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
    """A CSV file with a header and one line for each place of a grid.

    Attributes
    ----------
    path : Path
        The file. Its folder is created with the first line.
    cell : type
        A frozen dataclass of texts and numbers, which represents a place.
    line : type
        A subclass of `cell` with the results for a place. A result that was not measured is None, and empty in the
        file.
    """

    path: Path
    cell: type[C]
    line: type[L]

    def read(self) -> dict[C, L]:
        """Read the file, and return the line of each place.

        If a place occurs several times, the last line is used. An incomplete line at the end is ignored. Raises
        InputError if the file has other columns.
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
        """Append lines to the file, after a header if the file is new.

        An incomplete line at the end is removed first.
        """
        buffer = io.StringIO(newline="")
        writer = csv.DictWriter(buffer, self._header, lineterminator="\n")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # another process may write to the file
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
    """Yield the results for all items in order. If there are several workers, they are computed in clean processes."""
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
    """Convert a text to its declared type. An empty text is None for the type `X | None`."""
    either = get_args(kind)
    return None if either and not text else (either[0] if either else kind)(text)
