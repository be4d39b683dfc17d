"""The names of the codes of a column in a question.

A code can be named by its value or by its label.

>>> from equistrata.data.columns.column import Column
>>> race = Column("RACE", values=(1, 2, 3), labels=((1, "Other"), (2, "White"), (3, "Other")))
>>> CodeNames.of(race).codes("Other"), CodeNames.of(race).codes(3), CodeNames.of(race).codes("Black")
((0, 2), (2,), ())
>>> CodeNames.of(Column("KIDS", values=(1, 2), labels=((1, "0"), (2, "1")))).codes("1")
Traceback (most recent call last):
equistrata.errors.InputError: column 'KIDS': '1' is ambiguous, because it is a value and also the label of value 2; ...
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
    """The names of the codes of a column.

    Attributes
    ----------
    column : str
        The name of the column.
    values : mapping of value to int
        The code of each value. The keys are the values and their texts.
    labels : mapping of str to tuple of int
        The codes of each label. A label has several codes if several values share it.
    numbers : bool
        If True, the values are numbers, so a text that is a number is the text of a value.
    """

    column: str
    values: Mapping[Value, int]
    labels: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    numbers: bool = False

    @classmethod
    def of(cls, column: Column) -> CodeNames:
        """Return the names of the codes of a column with declared values."""
        values: dict[Value, int] = {str(key): code for code, key in enumerate(column.keys)}
        values |= {key: code for code, key in enumerate(column.keys)}
        labels = codes_by_label((str(words), column.keys.index(key)) for key, words in column.labels)
        return cls(column.name, values, labels, not any(isinstance(key, str) for key in column.keys))

    def codes(self, value: Value) -> tuple[int, ...]:
        """Return the codes that a value or a label names.

        Parameters
        ----------
        value : int, float or str
            A value, the text of a value, or a label.

        Returns
        -------
        tuple of int
            The codes. The tuple is empty if no code has this name.

        Raises
        ------
        InputError
            If the text is the text of one value and the label of another value.
        """
        own = (self.values[value],) if value in self.values else ()
        called = self.labels.get(value, ()) if isinstance(value, str) else ()
        if called and called != own and (own or (self.numbers and _NUMBER.fullmatch(str(value)))):
            others = [str(key) for key, code in self.values.items() if code in {*called} - {*own}]
            raise InputError(
                f"column {self.column!r}: {value!r} is ambiguous, because it is a value and also the label of value "
                f"{', '.join(dict.fromkeys(others))}; ask about all values of {self.column}, or give the declared "
                "value in Python"
            )
        return own or called


def codes_by_label(labels: Iterable[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    """Return the codes of each label in ascending order."""
    found: dict[str, tuple[int, ...]] = {}
    for words, code in labels:
        found[words] = (*found.get(words, ()), code)
    return found
