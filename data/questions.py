"""Questions that a draft of a schema leaves: comments in its YAML, with the lines that answer them.

>>> lines = question("CIG", "97 is listed beside numbers", {"a number": "{lower: 0, upper: 97}"})
>>> print("\\n".join(["columns:", "  SEX: {values: [1, 2]}", *lines]))
columns:
  SEX: {values: [1, 2]}
  # QUESTION CIG: 97 is listed beside numbers. Take "# " off one line, or delete all of them to leave CIG out.
  # CIG: {lower: 0, upper: 97}  # a number
>>> asked("\\n".join(lines), {"SEX"}), asked("\\n".join(lines), {"SEX", "CIG"})
(['CIG'], [])
>>> readings("\\n".join(lines), "CIG")
[('a number', {'lower': 0, 'upper': 97})]
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from equistrata.data.texts import documents
from equistrata.errors import InputError

_KEY = r'("(?:[^"\\]|\\.)*"|[^\s":]+)'
_QUESTION = re.compile(rf"^ *# QUESTION {_KEY}: ", re.M)
_LEFT_OUT = re.compile(rf"^ *# LEFT OUT {_KEY}: ", re.M)
_LINE = re.compile(rf"^ *# ({_KEY}: \{{.*\}})  # (.*)$", re.M)


def question(key: str, why: str, lines: Mapping[str, str]) -> list[str]:
    """The comments that ask how a column is meant.

    Parameters
    ----------
    key
        The column's name, as YAML writes it.
    lines
        What each reading means → its declaration.
    """
    how = f'Take "# " off one line, or delete all of them to leave {key} out.'
    return [f"  # QUESTION {key}: {why}. {how}", *(f"  # {key}: {spec}  # {said}" for said, spec in lines.items())]


def left_out(key: str, why: str, shape: str) -> list[str]:
    """The comments on a column that is not declared, with a line to begin with, if there is one."""
    return [f"  # LEFT OUT {key}: {why}", *([f"  # {key}: {shape}"] if shape else [])]


def asked(text: str, declared: Collection[str]) -> list[str]:
    """The columns of which a schema file still asks how they are meant: none that it declares."""
    return [name for name in _names(_QUESTION, text) if name not in declared]


def readings(text: str, name: str) -> list[tuple[str, Any]]:
    """What each line that answers a question means, and its declaration."""
    pairs = ((found[3], documents.parse(found[1], "a line")) for found in _LINE.finditer(text))
    return [(said, line[name]) for said, line in pairs if isinstance(line, dict) and name in line]


def unanswered(name: str, where: str) -> str:
    """The sentence on a column that is released, and of which a question is open."""
    return (
        f'column {name!r} of schema {where} is a QUESTION: take "# " off one of the lines that begin with "# {name}:", '
        "delete all of them to leave it out, or release other columns"
    )


def refuse_nothing(text: str, document: Any, where: str) -> None:
    """Raise InputError for a draft that declares no column, but asks for some, or leaves them out, in comments."""
    names = [*asked(text, ()), *_names(_LEFT_OUT, text)]
    if names and isinstance(document, dict) and not document.get("columns"):
        shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
        raise InputError(
            f"schema {where} declares no column: {shown} are comments in it; declare those that are to be released, "
            "under 'columns:' and without the '#'"
        )


def _names(pattern: re.Pattern[str], text: str) -> list[str]:
    return [*dict.fromkeys(str(documents.parse(key, "a name", as_written=True)) for key in pattern.findall(text))]
