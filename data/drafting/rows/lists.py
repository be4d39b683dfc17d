"""Lists of codes that a dictionary has in a table of their own, and that columns name: XLSForm's `choices`, or a
second part of a CSV file.

>>> lists = lists_of([([["sexlist", "f", "Female"], ["sexlist", "m", "Male"]], {"list": 0, "name": 1, "label": 2})])
>>> with_lists([{"name": "sex", "type": "select_one sexlist"}], lists)[1:]
[{'name': 'sex', 'code': 'f', 'words': 'Female'}, {'name': 'sex', 'code': 'm', 'words': 'Male'}]
>>> [len(with_lists([{"choices": said}], lists)) for said in ("see list SEXLIST", "sexlist", "list of towns", "0-9")]
[3, 3, 1, 1]
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

Part = tuple[Sequence[Sequence[str]], Mapping[str, int]]  # rows, and where in them the columns of a dictionary are
Lists = Mapping[str, Sequence[tuple[str, str]]]  # a list's name in small letters → codes and their words

_SELECTED = re.compile(r"select[_ ]one\s+(\S+?)(\s+or_other)?", re.I)
_NAMED = re.compile(
    r"(?:(?:see|use|siehe|voir|ver)\s+)?(?:(?:the\s+)?(?:code\s*|value\s*)?(?:list|set|liste|lista)\s*[:=]?\s*)?(\S+?)",
    re.I,
)
_OTHER = ("other", "Other")  # the code that XLSForm adds


def cells_of(row: Sequence[str], place: Mapping[str, int]) -> dict[str, str]:
    """What a row says, by the columns of a dictionary; empty where it ends before."""
    return {what: row[at].strip() if at < len(row) else "" for what, at in place.items()}


def lists_of(parts: Sequence[Part]) -> dict[str, list[tuple[str, str]]]:
    """The lists of tables that have nothing else (`headings.of_lists`), each with its codes in order."""
    lists = dict[str, list[tuple[str, str]]]()
    for rows, place in parts:
        key = "list" if "list" in place else "choices"
        code = "code" if "code" in place else "name"
        name = ""
        for row in rows:
            cells = cells_of(row, place)
            name = cells[key].casefold() or name
            words = cells.get("words") or cells.get("label") or ""
            lists.setdefault(name, []).extend([(cells[code], words)] * bool(cells[code]))
    return lists


def with_lists(group: Sequence[Mapping[str, str]], lists: Lists) -> list[Mapping[str, str]]:
    """The rows of a column, with a row for each code of the list that it names, if there is such a list."""
    said = {what: next((cells[what] for cells in group if cells.get(what)), "") for what in ("type", "choices")}
    selected = _SELECTED.fullmatch(said["type"])
    named = selected or _NAMED.fullmatch(said["choices"])
    name = next((cells["name"] for cells in group if cells.get("name")), "")
    coded = bool(said["choices"]) or any(cells.get("code") for cells in group)
    own = not coded and not said["type"].lower().startswith("select")  # a list of the column's own name
    codes = lists.get(named[1].casefold() if named else name.casefold() if own else "", ())
    if not codes:
        return [*group]
    codes = [*codes, *[_OTHER] * bool(selected and selected[2])]
    kept = [{what: cell for what, cell in cells.items() if what != "choices"} for cells in group]
    return [*kept, *({"name": name, "code": raw, "words": words} for raw, words in codes)]
