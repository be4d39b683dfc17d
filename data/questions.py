"""Questions that a draft of a schema leaves open: comments in its YAML, so such columns are not released.

>>> text = "# columns:\\n" + "\\n".join(questions({"JOB": "no entry"}))
>>> print(text)
# columns:
# QUESTION: what may these columns hold? They are not released until they are declared.
# Where no list is public, as of jobs: {values: open}. A release finds what many rows hold, at a cost.
# JOB: {values: [...]} or {lower: ..., upper: ...}  (no entry)
>>> asked(text)
['JOB']
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from equistrata.errors import InputError

_ASKED = "# QUESTION: what may these columns hold? They are not released until they are declared."
_FOUND = "# Where no list is public, as of jobs: {values: open}. A release finds what many rows hold, at a cost."
_SHAPE = "{values: [...]} or {lower: ..., upper: ...}"
_OPEN = re.compile(rf"^# (.+): {re.escape(_SHAPE)}", re.M)


def questions(columns: Mapping[str, str]) -> list[str]:
    """The comments of a draft that ask for columns (name as YAML → why it is not declared, on one line)."""
    return [_ASKED, _FOUND, *(f"# {name}: {_SHAPE}  ({why})" for name, why in columns.items())] if columns else []


def asked(text: str) -> list[str]:
    """The columns, as YAML writes their names, for which comments of a schema file ask."""
    return _OPEN.findall(text) if _ASKED in text else []


def refuse_questions(text: str, document: Any, where: str) -> None:
    """Raise InputError for a draft that declares no column (or none to release), but asks for some in comments."""
    none = isinstance(document, dict) and (not document.get("columns") or document.get("default") == [])
    if none and (open_ones := asked(text)):
        shown = ", ".join(open_ones[:12]) + (f" and {len(open_ones) - 12} more" if len(open_ones) > 12 else "")
        what = "no column that is released" if document.get("columns") else "no column"
        raise InputError(
            f"schema {where} declares {what}: what {shown} may hold is still a QUESTION in its comments; answer "
            "it under 'columns:', without the '#', as 'NAME: {values: [...]}' or 'NAME: {lower: ..., upper: ...}'"
        )
