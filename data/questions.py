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
