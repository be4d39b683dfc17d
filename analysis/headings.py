"""How the columns of a release are called beside the numbers of an answer: a column may have the name of one of these.

>>> heading("SEX"), heading("estimate"), heading("estimate (column)")
('SEX', 'estimate (column)', 'estimate (column) (column)')
>>> column_of("SEX"), column_of("estimate (column)")
('SEX', 'estimate')
"""

from __future__ import annotations

# Of answers, changes, cells, courses and people.
OWN = frozenset({
    "_least", "_most", "_shared", "against", "basis", "column", "columns", "estimate", "former", "later", "lower",
    "month", "noise", "p_value", "release", "revised", "revised_error", "standard_error", "synthetic_id", "term",
    "then", "then_error", "upper",
})  # fmt: skip
_MARK = " (column)"


def heading(name: str) -> str:
    """What a column of the release is called in a table with columns of its own: its name, marked if it is taken."""
    return name + _MARK if _plain(name) in OWN else name


def column_of(heading: str) -> str:
    """The column of the release that a heading names."""
    return heading.removesuffix(_MARK) if _plain(heading) in OWN else heading


def _plain(name: str) -> str:
    while name.endswith(_MARK):
        name = name.removesuffix(_MARK)
    return name
