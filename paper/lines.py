"""Measurements as lines of a CSV file: each is written as soon as it is known, and one that is there is not made again."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args, get_type_hints

from equistrata.errors import InputError

C = TypeVar("C")
L = TypeVar("L")


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
        rows = list(csv.reader(io.StringIO(text[: text.rfind("\n") + 1])))
        if rows and rows[0] != self._header:
            raise InputError(
                f"{str(self.path)!r} holds other columns than this version writes; move it away, or name another output"
            )
        lines = (self._parse(row) for row in rows[1:] if len(row) == len(self._header))
        return {self.place(line): line for line in lines}

    def place(self, line: L) -> C:
        """The place that a line is about."""
        return self.cell(**{field.name: getattr(line, field.name) for field in fields(self.cell)})  # type: ignore[arg-type]

    def append(self, lines: Iterable[L]) -> None:
        """Write lines at the end, after a header if the file is new; first drop the rest of a line that was cut off."""
        buffer = io.StringIO(newline="")
        writer = csv.DictWriter(buffer, self._header, lineterminator="\n")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b") as file:
            file.seek(0)
            whole = file.read().rfind(b"\n") + 1
            file.truncate(whole)
            if not whole:
                writer.writeheader()
            writer.writerows(asdict(line) for line in lines)  # type: ignore[call-overload]
            file.write(buffer.getvalue().encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())

    @property
    def _header(self) -> list[str]:
        return [field.name for field in fields(self.line)]  # type: ignore[arg-type]

    def _parse(self, row: list[str]) -> L:
        kinds = _kinds(self.line)
        try:
            return self.line(**{name: _value(text, kinds[name]) for name, text in zip(self._header, row, strict=True)})
        except ValueError:
            raise InputError(
                f"{str(self.path)!r} holds a line that is not one of its own; move it away, or name another output"
            ) from None


@cache
def _kinds(line: type) -> dict[str, tuple[type, bool]]:
    """Field → its type, and whether it may be None."""
    hints = get_type_hints(line)
    return {
        name: (next(kind for kind in get_args(hint) or (hint,) if kind is not type(None)), type(None) in get_args(hint))
        for name, hint in hints.items()
    }


def _value(text: str, kind: tuple[type, bool]) -> Any:
    of, optional = kind
    return None if optional and not text else of(text)
