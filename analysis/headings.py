"""How the columns of a release are called beside the numbers of an answer: a column may have the name of one of these.

>>> heading("SEX"), heading("estimate"), heading("estimate (column)")
('SEX', 'estimate (column)', 'estimate (column) (column)')
>>> column_of("SEX"), column_of("estimate (column)")
('SEX', 'estimate')
"""

from __future__ import annotations

from collections.abc import Set

IN_ANSWERS = frozenset({
    "_least", "_most", "_shared", "against", "basis", "counted", "estimate", "former", "later", "lower", "p_value",
    "privacy_error", "release", "sampling_error", "standard_error", "term", "upper",
})  # fmt: skip
IN_CELLS = frozenset({"columns", "estimate", "lower", "noise", "upper"})
IN_MONTHS = frozenset({"month"})  # in a series, of courses too
IN_REVISED = IN_MONTHS | {"columns", "revised", "revised_error", "then", "then_error"}
_MARK = " (column)"


def heading(name: str, own: Set[str] = IN_ANSWERS) -> str:
    """What a column of the release is called in a table with columns of its own: its name, marked if it is taken.

    Args:
        own: the table's columns.
    """
    return name + _MARK if _plain(name) in own else name


def column_of(heading: str, own: Set[str] = IN_ANSWERS | IN_MONTHS) -> str:
    """The column of the release that a heading names: `heading` turned round."""
    return heading.removesuffix(_MARK) if _plain(heading) in own else heading


def _plain(name: str) -> str:
    while name.endswith(_MARK):
        name = name.removesuffix(_MARK)
    return name
