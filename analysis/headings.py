"""Names of a release's columns in the tables of an answer.

A column of the release can have the same name as one of the columns of the answer, such as "estimate". In this case,
its heading is marked.

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
IN_MONTHS = frozenset({"month"})  # in the tables of a series
IN_REVISED = IN_MONTHS | {"columns", "revised", "revised_error", "then", "then_error"}
_MARK = " (column)"


def heading(name: str, own: Set[str] = IN_ANSWERS) -> str:
    """Return the heading for a column of the release, which is marked if the table has its own column of this name.

    Parameters
    ----------
    name : str
        The name of the column in the release.
    own : set of str
        The names of the table's own columns.

    Returns
    -------
    str
        The heading.
    """
    return name + _MARK if _plain(name) in own else name


def column_of(heading: str, own: Set[str] = IN_ANSWERS | IN_MONTHS) -> str:
    """Return the column of the release for a heading. This is the inverse of `heading`.

    Parameters
    ----------
    heading : str
        The heading.
    own : set of str
        The names of the table's own columns.

    Returns
    -------
    str
        The name of the column.
    """
    return heading.removesuffix(_MARK) if _plain(heading) in own else heading


def _plain(name: str) -> str:
    while name.endswith(_MARK):
        name = name.removesuffix(_MARK)
    return name
