r"""The questions in a draft of a schema.

A question consists of comments in the YAML text. The user answers it by removing the comment sign from one line.

>>> lines = question("CIG", "97 is also listed", {"a number": "{lower: 0, upper: 97}"})
>>> print("\n".join(["columns:", "  SEX: {values: [1, 2]}", *lines]))
columns:
  SEX: {values: [1, 2]}
  # QUESTION CIG: 97 is also listed. Remove "# " from one of the lines below, or delete them all to leave CIG out.
  # CIG: {lower: 0, upper: 97}  # a number
>>> asked("\n".join(lines), {"SEX"}), asked("\n".join(lines), {"SEX", "CIG"})
(['CIG'], [])
>>> readings("\n".join(lines), "CIG")
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
    """Return the comments for a question about a column.

    Parameters
    ----------
    key : str
        The name of the column in YAML.
    why : str
        The reason for the question.
    lines : mapping of str to str
        The meaning of each possible declaration, and the declaration.

    Returns
    -------
    list of str
        The lines of the comment.
    """
    how = f'Remove "# " from one of the lines below, or delete them all to leave {key} out.'
    return [f"  # QUESTION {key}: {why}. {how}", *(f"  # {key}: {spec}  # {said}" for said, spec in lines.items())]


def left_out(key: str, why: str, shape: str) -> list[str]:
    """Return the comments for a column that is not declared, with a template of the declaration if there is one."""
    return [f"  # LEFT OUT {key}: {why}", *([f"  # {key}: {shape}"] if shape else [])]


def asked(text: str, declared: Collection[str]) -> list[str]:
    """Return the columns of a schema file for which a question is open. Columns that are declared are left out."""
    return [name for name in _names(_QUESTION, text) if name not in declared]


def readings(text: str, name: str) -> list[tuple[str, Any]]:
    """Return the meaning and the declaration of each line that answers the question about a column."""
    pairs = ((found[3], documents.parse(found[1], "a line")) for found in _LINE.finditer(text))
    return [(said, line[name]) for said, line in pairs if isinstance(line, dict) and name in line]


def open_question_error(name: str, where: str) -> str:
    """Return the error message for a column that is released although its question is open."""
    return (
        f'column {name!r} of schema {where} is a QUESTION: remove "# " from one of the lines that begin with '
        f'"# {name}:", delete all of them to leave the column out, or release other columns'
    )


def refuse_empty_draft(text: str, document: Any, where: str) -> None:
    """Raise an InputError if a draft declares no column, and its columns are only in comments."""
    names = [*asked(text, ()), *_names(_LEFT_OUT, text)]
    if names and isinstance(document, dict) and not document.get("columns"):
        shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
        raise InputError(
            f"schema {where} declares no column, because these are only comments: {shown}; remove the '#' from the "
            "columns to release, and put them under 'columns:'"
        )


def _names(pattern: re.Pattern[str], text: str) -> list[str]:
    return [*dict.fromkeys(str(documents.parse(key, "a name", as_written=True)) for key in pattern.findall(text))]
