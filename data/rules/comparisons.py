"""The rules of a schema file as text, which are comparisons joined by `or`.

>>> read("AGE >= 15 or `MARITAL STATUS` == 'none'", "schema people")
[Comparison(column='AGE', sign='>=', values=(15,), other=None), Comparison(column='MARITAL STATUS', sign='==', \
values=('none',), other=None)]
>>> read("JAIL_IN <= JAIL_OUT", "schema people")
[Comparison(column='JAIL_IN', sign='<=', values=(), other='JAIL_OUT')]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from equistrata.data.columns.column import Value
from equistrata.data.columns.declared import need
from equistrata.errors import InputError

Sign = Literal["<", "<=", ">", ">=", "==", "!="]
Token = tuple[str, str]  # the kind of the token and its text

FORMS = (
    "write comparisons that are joined by 'or', such as A <= B, AGE >= 15 or JOB == 'no', or JOB in ['no', 'yes'], "
    "with texts and dates in quotes, and column names with blanks in backquotes"
)
NEGATED: dict[str, Sign] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_TURNED: dict[str, Sign] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>'[^']*'|"[^"]*")|`(?P<quoted>[^`]+)`|(?P<number>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)
    |(?P<sign><=|>=|==|!=|<|>)|(?P<name>[^\W\d]\w*)|(?P<mark>[\[\],]))\s*""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Comparison:
    """A comparison of a column with values or with another column.

    If there are several values, one of them must match.

    Parameters
    ----------
    column : str
        The column on the left.
    sign : {"<", "<=", ">", ">=", "==", "!="}
        The operator.
    values : tuple of int, float or str
        The values on the right. Only the operator "==" can have several values.
    other : str, optional
        The column on the right, if the comparison is with a column.
    """

    column: str
    sign: Sign
    values: tuple[Value, ...] = ()
    other: str | None = None


def read(rule: Any, here: str) -> list[Comparison]:
    """Return the comparisons of a rule. Every row must satisfy at least one of them.

    Parameters
    ----------
    rule : object
        The text of the rule.
    here : str
        The start of the error message.

    Raises
    ------
    InputError
        If the rule cannot be read.
    """
    need(here, isinstance(rule, str), f"has a rule that is not a text; {FORMS}, and put the whole rule into quotes")
    said, tokens, place = f"has the rule {rule!r}, which", list[Token](), 0
    while rule[place:].strip():
        found = _TOKEN.match(rule, place)
        need(here, found, f"{said} cannot be read; {FORMS}")
        assert found is not None
        tokens.append((str(found.lastgroup), str(found[str(found.lastgroup)])))
        place = found.end()
    need(here, ("name", "and") not in tokens, f"{said} joins comparisons by 'and'; write two rules instead")
    parts = list(_split(tokens))
    return [_comparison(part, f"{here} {said}") for part in parts]


def columns_of(rule: Any) -> list[str]:
    """Return the names of the columns in a rule, or an empty list if the rule cannot be read."""
    try:
        return [name for each in read(rule, "") for name in (each.column, each.other) if name is not None]
    except InputError:
        return []


def _split(tokens: list[Token]) -> Iterator[list[Token]]:
    part = list[Token]()
    for token in tokens:
        if token == ("name", "or"):
            yield part
            part = []
        else:
            part.append(token)
    yield part


def _comparison(tokens: list[Token], here: str) -> Comparison:
    kinds, texts = [kind for kind, _ in tokens], [text for _, text in tokens]
    columns = [kind in ("name", "quoted") for kind in kinds]
    if len(tokens) > 2 and columns[0] and tokens[1] == ("name", "in"):
        listed = tokens[3:-1]
        commas = all(token == ("mark", ",") for token in listed[1::2]) and len(listed) % 2 == 1
        values = [_value(*token) for token in listed[::2]]
        ends = (texts[2], texts[-1]) == ("[", "]")
        need(here, ends and commas and None not in values, f"has no list of values after 'in'; {FORMS}")
        return Comparison(texts[0], "==", tuple(value for value in values if value is not None))
    need(here, len(tokens) == 3 and kinds[1] == "sign" and (columns[0] or columns[2]), f"is not a comparison; {FORMS}")
    sign: Any = texts[1]
    if columns[0] and columns[2]:
        need(here, texts[0] != texts[2], f"compares {texts[0]!r} with itself; name two columns")
        return Comparison(texts[0], sign, other=texts[2])
    name, (kind, text) = (texts[0], tokens[2]) if columns[0] else (texts[2], tokens[0])
    value = _value(kind, text)
    need(here, value is not None, f"is not a comparison; {FORMS}")
    assert value is not None
    return Comparison(name, sign if columns[0] else _TURNED[sign], (value,))


def _value(kind: str, text: str) -> Value | None:
    if kind == "text":
        return text[1:-1]
    if kind != "number":
        return None
    return int(text) if re.fullmatch(r"[-+]?\d+", text) else float(text)
