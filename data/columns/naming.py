"""What names the codes of a column in a question: its values, and its labels.

>>> from equistrata.data.columns.column import Column
>>> race = Column("RACE", values=(1, 2, 3), labels=((1, "Other"), (2, "White"), (3, "Other")))
>>> CodeNames.of(race).codes("Other"), CodeNames.of(race).codes(3), CodeNames.of(race).codes("Black")
((0, 2), (2,), ())
>>> CodeNames.of(Column("KIDS", values=(1, 2), labels=((1, "0"), (2, "1")))).codes("1")
Traceback (most recent call last):
equistrata.errors.InputError: column 'KIDS': '1' is written as a value, and is the label of value 2; ...
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from equistrata.errors import InputError

if TYPE_CHECKING:
    from equistrata.data.columns.column import Column, Value

_NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?")


@dataclass(frozen=True)
class CodeNames:
    """The names of a column's codes.

    Attributes:
        column: its name.
        values: the code of each value, by the value and by the text that it is written as.
        labels: the codes of each label; several where values share it.
        numbers: whether values are numbers, so that a text that is a number is written as a value.
    """

    column: str
    values: Mapping[Value, int]
    labels: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    numbers: bool = False

    @classmethod
    def of(cls, column: Column) -> CodeNames:
        """Of a column with declared values."""
        values: dict[Value, int] = {str(key): code for code, key in enumerate(column.keys)}
        values |= {key: code for code, key in enumerate(column.keys)}
        labels = by_label((str(words), column.keys.index(key)) for key, words in column.labels)
        return cls(column.name, values, labels, not any(isinstance(key, str) for key in column.keys))

    def codes(self, value: Value) -> tuple[int, ...]:
        """The codes that a value or a label names; none where it names nothing.

        Raises InputError for a text that is written as a value and is the label of another one.
        """
        own = (self.values[value],) if value in self.values else ()
        called = self.labels.get(value, ()) if isinstance(value, str) else ()
        if called and called != own and (own or (self.numbers and _NUMBER.fullmatch(str(value)))):
            others = [str(key) for key, code in self.values.items() if code in {*called} - {*own}]
            raise InputError(
                f"column {self.column!r}: {value!r} is written as a value, and is the label of value "
                f"{', '.join(dict.fromkeys(others))}; ask about all values of {self.column}, or in Python give the "
                "value as it is declared"
            )
        return own or called


def by_label(labels: Iterable[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    """The codes of each label, in order."""
    found: dict[str, tuple[int, ...]] = {}
    for words, code in labels:
        found[words] = (*found.get(words, ()), code)
    return found
