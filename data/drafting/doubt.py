"""The decision about a column that a code book describes, which is a declaration or a question.

A column is only declared if the code book is unambiguous. If a careful reader can understand it in two ways, the result
is a question with the possible declarations.

>>> decide_declaration(BookColumn("SEX", "Sex", values=(("1", "Male"), ("2", "Female")))).spec
{'label': 'Sex', 'type': 'nominal', 'values': [1, 2], 'labels': {1: 'Male', 2: 'Female'}}
>>> hours = decide_declaration(BookColumn("HOURS", "", "integer", (("99", "99 or more"),), lower=1, upper=98))
>>> hours.why, [(meaning, spec["upper"]) for meaning, spec in hours.readings]
('99 (99 or more) in addition to the numbers 1 to 98', [('all are numbers', 99), ('99: codes, not numbers', 98)])
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from equistrata.data.columns.column import ABSENT, OWN_CATEGORY, Value, number_in
from equistrata.data.columns.dates import ISO
from equistrata.data.drafting.column import CODES, MOST_LISTED, NO_ANSWER, BookColumn, Code
from equistrata.data.misfits import unused_value

Reading = tuple[str, dict[str, Any]]  # the meaning, and the declaration in a schema file

ANY_SHAPE = "{values: [...]} or {lower: ..., upper: ...} or {values: open}"
_IDENTIFIER = re.compile(
    r"^(?:hh|case|fam|p|part|pat|person|rec|record|resp|sub|subj|subject)?[_ ]?id(?:_?(?:no|num|number))?$"
    r"|(?:^|[_\W])(?:id|uuid|guid|ssn|serialno|e_?mail|phone|address|street|surname|[fl]name)$|^(?:respondent|person|"
    r"patient|case)_?id|^(?:(?:first|last|middle|family|given|full|maiden|sur)[_ ]?)?names?$|^names?[_ ](?:last|first)$"
    r"|(?:^|_)(?:last|first|family|maiden)$|^(?:vor|nach)name$|^(?:pr[eé])?nom$|^(?:nombre|apellido|cognome)s?$", re.I
)  # fmt: skip
_PERSONAL = re.compile(
    r"\b(?:last|first|family|given|full|maiden|sur) ?name\b|\bsocial security num|\be-?mail address|\bserial number\b"
    r"|\bphone number|\bidentifier\b|\bid(?: (?:code|number))?$"
    r"|\b(?:case|family|household|participant|patient|person|record|respondent|subject) (?:identif|id\b|number\b)", re.I
)  # fmt: skip
_BIRTH = re.compile(r"birth|born|dob\b|\bgeb(?:\b|dat|oren|tag|urt)|naiss|nacimiento|nascita|nascimento", re.I)
_SENTINEL = re.compile(r"-(?:[1-9]|9+|8+|7+)|9+|8{2,}|7{2,}")  # a number that often stands for a missing value
_UNDER = re.compile(r"(?:under|less than|below|<)\s*(\d+(?:\.\d+)?)\b", re.I)
_COUNTS = (
    r"\W{{0,3}}(?:{}|{})\s*(?:\+|(?:\w+\s+)?(?:or|and) (?:above|below|earlier|fewer|greater|higher|later|less|lower"
    r"|more|older|over|under|up|younger)\b)"
)
_COUNTED = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_SEVERAL = re.compile(r"\d+\s*\+|[<>≤≥]=?\s*\d+|.*\S\s+\S.*")  # such as "3+", ">65" or "all others"
_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,14})")
_FEW_CODES = 100  # up to this number of codes between the first and the last can be a complete list


@dataclass(frozen=True)
class Decision:
    """The declaration of a column, or a question about it.

    If there is neither a declaration nor a question, the column is left out of the draft.

    Parameters
    ----------
    spec : dict, optional
        The declaration of the column in a schema file.
    why : str
        The reason if there is no declaration.
    readings : sequence of Reading
        The possible declarations and their meanings.
    shape : str
        A template of the declaration for the user.
    personal : bool
        If True, the column can identify people, so it is never drafted from the rows.
    """

    spec: dict[str, Any] | None = None
    why: str = ""
    readings: Sequence[Reading] = ()
    shape: str = ANY_SHAPE
    personal: bool = False


PERSONAL = Decision(None, "an identifier or a name, which is not released", shape="", personal=True)


def is_personal(name: str, label: str = "") -> bool:
    """Return True if the name or the label of a column is that of an identifier or the name of a person."""
    return bool(_IDENTIFIER.search(name) or _PERSONAL.search(label))


def decide_declaration(column: BookColumn) -> Decision:
    """Return the declaration of a column, or a question if the code book is ambiguous."""
    if column.kind == "id" or is_personal(column.name, column.label):
        return PERSONAL
    if column.kind == "date":
        return of_dates(column, [column.layout] if column.layout else [ISO, "%d.%m.%Y", "%m/%d/%Y"])
    if column.kind == "boolean" and not column.remarks:
        words = ("false", "true")
        recode = {raw: word for word in words for raw in (word, word.title(), word.upper(), str(words.index(word)))}
        return Decision(spec_of_values(column, [(word, "") for word in words]) | {"recode": recode})
    if empty := [words for raw, words in column.values if not raw]:
        kept = tuple(code for code in column.values if code[0])
        column = replace(column, values=kept, absent=True, absence="; ".join(filter(None, empty)))
    known = {raw for raw, _ in (*column.values, *column.missing)}
    if said := [(raw, words) for raw, words in CODES.findall(column.label) if raw not in known]:
        remark = f"its label mentions {', '.join(raw for raw, _ in said)}, which the book does not list"
        column = replace(column, values=(*column.values, *said), remarks=(*column.remarks, remark))
    remarks = (f'the book mentions "{text}", but does not list it' for text in column.unlisted()[:1])
    column = replace(column, remarks=(*column.remarks, *remarks))
    low, high = column.lower, column.upper
    if not _answers(column.values) and column.kind not in ("nominal", "ordinal") and low is None:
        column = replace(column, missing=(*column.missing, *column.values), values=())
    if isinstance(low, str) and isinstance(high, str):
        spec = {**_label(column), "values": "open", **({"missing": "none"} if column.absent else {})}
        why = f'the book has codes from "{low}" to "{high}", but no list of them; list them, as values: [...]'
        readings = [("codes that occur in many rows, found at a privacy cost", spec)]
        if low.isdigit() and high.isdigit() and len(low) == len(high) and 0 < int(high) - int(low) < _FEW_CODES:
            every = [(f"{number:0{len(low)}}", "") for number in range(int(low), int(high) + 1)]
            readings.append(("every code between them", spec_of_values(column, every)))
        return _question([why], readings)
    if isinstance(low, float | int) and isinstance(high, float | int):
        if low < high:
            return _range(column, low, high)
        column = replace(column, remarks=(*column.remarks, f"its bounds {low:.15g} and {high:.15g} are not a range"))
    if column.values:
        return _list(column)
    if column.remarks or column.kind not in ("number", "integer"):
        return Decision(None, "; ".join(column.remarks) or "the book has neither values nor bounds")
    codes = f", codes: {{{', '.join(f'{raw}: ...' for raw, _ in column.missing)}}}" if column.missing else ""
    shape = f"{{lower: ..., upper: ...{', integer: true' * (column.kind == 'integer')}{codes}}}"
    return Decision(None, "numbers, but the book has no bounds", shape=shape)


def of_dates(column: BookColumn, layouts: Sequence[str]) -> Decision:
    """Return the decision about a column of dates.

    Parameters
    ----------
    column : BookColumn
        The description of the column.
    layouts : sequence of str
        The possible formats of the dates.

    Returns
    -------
    Decision
        The declaration, or a question if there are several formats. Dates of birth are left out.
    """
    ends = {"lower": column.lower or "...", "upper": column.upper or "..."}
    spec = {**_label(column), "type": "date", "format": layouts[0], **ends}
    spec |= {"codes": {raw: words or raw for raw, words in column.missing}} if column.missing else {}
    spec |= {"missing": OWN_CATEGORY} if column.absent else {}
    if (birth := bool(_BIRTH.search(f"{column.name} {column.label}"))) or "..." in ends.values():
        why = "; ".join(column.remarks) or "dates, but the book has no bounds"
        why = "dates of birth can name people; prefer an age" if birth else why
        shape = f'{{type: date, format: "{layouts[0]}", lower: "{ends["lower"]}", upper: "{ends["upper"]}"}}'
        return Decision(None, why, shape=shape, personal=birth)
    if len(layouts) == 1 and not column.remarks:
        return Decision(spec)
    reasons = column.remarks or ("its dates can be in several formats",)
    return _question(reasons, [(f"written as {each}", {**spec, "format": each}) for each in layouts])


def _range(column: BookColumn, low: float, high: float) -> Decision:
    """Return the decision about numbers within bounds, which can have additional codes."""
    said, beside = column.kind in ("number", "integer"), list[Code]()
    for raw, words in column.values:
        zero = said and number_in(raw) == 0 and words.casefold() == "none"  # the book describes an amount
        under = number_in(raw) == low - 1 and (end := _UNDER.match(words)) and float(end[1]) == low
        if zero or under:
            low, high = min(low, float(raw)), max(high, float(raw))
        else:
            beside.append((raw, words))
    missing = {number: raw for raw, _ in column.missing if (number := number_in(raw)) is not None}
    low, high = _without(missing, low, high)
    called_values, whole = column.kind in ("nominal", "ordinal"), float(low).is_integer() and float(high).is_integer()
    reasons = [*column.remarks, *["the book declares values, but also has bounds"] * called_values]
    reasons += ["the book declares integers, but its bounds have decimals"] * (column.kind == "integer" and not whole)
    if isinstance(column.lower, float | int) and column.lower < low and column.lower < 0:
        reasons.append(f"{column.lower:.15g} is a code for missing, but also the lower bound")
    reasons += [f"{raw} is a code for missing, but within the bounds" for n, raw in missing.items() if low <= n <= high]
    reasons += [f"{_shown(beside)} in addition to the numbers {low:.15g} to {high:.15g}"] * bool(beside)
    if not reasons:
        return Decision(spec_of_numbers(column, low, high, column.missing))
    none = [code for code in beside if code not in _answers(beside)]
    zeros = [code for code in _answers(beside) if number_in(code[0]) == 0]
    inside = len(beside) > 2 and all(low <= (number_in(raw) or low - 1) <= high for raw, _ in beside)
    ways = [_with_codes(column, beside, low, high, some) for some in (none, [*zeros, *none], beside, [])]
    codes = beside if inside else []
    if called_values and high - low < _FEW_CODES:
        codes = [(f"{low + step:.0f}", "") for step in range(int(high - low) + 1)]
    listed = [("a list of codes: no other number occurs", spec_of_values(column, codes))] if codes else []
    return _question(reasons, [*ways[: 2 if inside else 4], *listed])


def _with_codes(column: BookColumn, beside: Sequence[Code], low: float, high: float, codes: Sequence[Code]) -> Reading:
    """Return the declaration in which `codes` are codes and the other entries of `beside` are numbers."""
    every = [*codes, *column.missing, *(code for code in beside if number_in(code[0]) is None and code not in codes)]
    apart = {number_in(raw) for raw, _ in every}
    numbers = [number for raw, _ in beside if (number := number_in(raw)) is not None and number not in apart]
    low, high = _without(apart, min([low, *numbers]), max([high, *numbers]))
    meaning = f"{', '.join(raw for raw, _ in every)}: codes, not numbers" if every else "all are numbers"
    return meaning, spec_of_numbers(column, low, high, every)


def _without(codes: Container[float | None], low: float, high: float) -> tuple[float, float]:
    """Return the bounds without the codes at their ends.

    For example, if the bounds are 0 and 99 and the code 99 means refused, the upper bound is 98.
    """
    while high in codes and high - low > 1:
        high -= 1
    while low in codes and high - low > 1:
        low = 0.0 if low < 0 < high else low + 1
    return low, high


def _list(column: BookColumn) -> Decision:
    """Return the declaration of a list of values, or a question if the list is ambiguous."""
    values, plain, reasons = column.values, _answers(column.values), [*column.remarks]
    numbers = sorted(number for raw, _ in plain if (number := number_in(raw)) is not None)
    reasons += ["the book lists only one value"] * (len(values) == 1)
    reasons += [f"{_shown(plain)} is the only answer"] * (len(values) > len(plain) == 1 and column.kind != "nominal")
    others = [code for code in plain if numbers and column.kind != "text" and _SEVERAL.fullmatch(code[0])]
    reasons += [f"{_shown(others)} may stand for several values"] * bool(others)
    texts = len(numbers) < len(plain) and column.kind in ("number", "integer")
    reasons += ["the book declares numbers, but lists texts"] * texts
    readings = [("all of them are values", spec_of_values(column, values))] * (len(values) > 1)
    if absent := [code for code in values if code[0] in ABSENT or _is_blank(code, values)]:
        reasons.append(f"{_shown(absent)} can be a value, or stand for an empty cell")
        left = replace(column, absent=True, absence=absent[0][1])
        kept = [code for code in values if code not in absent]
        readings += [("they are empty cells", spec_of_values(left, kept))] * bool(kept)
    bare = [(raw, "missing") for raw, words in plain if not words and _SENTINEL.fullmatch(raw)]
    bare = [code for code in bare if len(values) > 2 and (float(code[0]) < 0 or float(code[0]) - 1 not in numbers)]
    if bare:
        reasons.append(f"{', '.join(raw for raw, _ in bare)} often stands for a missing cell")
    counted = _counted(column, plain, numbers) if len(numbers) == len(plain) else ""
    reasons += [counted] * bool(counted)
    most = [number for number in numbers if number not in {float(raw) for raw, _ in bare}]
    if (counted or bare) and len(most) > 1:
        codes = [code for code in values if code not in plain] + bare + [*column.missing]
        numeric = spec_of_numbers(column, most[0], most[-1], codes)
        readings.append((f"numbers from {most[0]:.15g} to {most[-1]:.15g}", numeric))
    if 0 < sum(bool(words) for _, words in values) < len(values):
        reasons.append("only some of its values have labels")
    meant = {words: raw for raw, words in values}
    if crossed := [raw for raw, _ in values if meant.get(raw, raw) != raw]:
        reasons.append(f"{', '.join(crossed)} is a code, but also the label of another code")
    turned = all(number_in(words) is not None and number_in(raw) is None for raw, words in values)
    reasons += ["its codes can be on the right of the equals sign"] * turned
    if (crossed or turned) and len(meant) == len(values):
        back = [(words, raw if turned else "") for words, raw in meant.items()]
        readings.append(("the file contains the texts on the right", spec_of_values(column, back)))
    return _question(reasons, readings) if reasons else Decision(spec_of_values(column, values))


def _answers(values: Iterable[Code]) -> list[Code]:
    """Return the codes except for those that mean no answer."""
    return [code for code in values if not NO_ANSWER.match(code[1])]


def _is_blank(code: Code, values: Sequence[Code]) -> bool:
    """Return True if a text is listed among numbers and its label or its letters mean an empty cell."""
    numeric = sum(number_in(raw) is not None for raw, _ in values)
    blank = not _answers([code]) or {*code[0]} <= {"b"}
    return number_in(code[0]) is None and blank and numeric * 2 >= len(values) - 1 > 0


def _counted(column: BookColumn, plain: Sequence[Code], numbers: Sequence[float]) -> str:
    """Return the reason why the listed values can be numbers instead of codes, or an empty text."""
    if column.kind == "number" and numbers:
        return "the book declares numbers, but lists codes"
    if len(numbers) == 2 and numbers[1] - numbers[0] > 2:
        return "only the ends of the scale have labels"
    if len(numbers) == 3 and numbers[0] + 1 < numbers[1] < numbers[2] - 1 and column.kind != "nominal":
        return "only the ends and the middle of the scale have labels"
    for raw, words in plain:
        spelled = _COUNTED[int(raw)] if raw in map(str, range(len(_COUNTED))) else raw
        if re.match(_COUNTS.format(re.escape(raw), re.escape(spelled)), words, re.I):
            return f"{raw} ({words}) seems to be a count"
    own = sum(not words or number_in(words.split()[0]) == number_in(raw) for raw, words in plain)
    return "each value seems to be a count" if len(numbers) > MOST_LISTED and own * 2 > len(plain) else ""


def _question(reasons: Sequence[str], readings: Iterable[Reading]) -> Decision:
    """Return a question with at most three different declarations."""
    distinct: dict[str, Reading] = {}
    for reading in readings:
        distinct.setdefault(repr(reading[1]), reading)
    return Decision(None, "; ".join(reasons), [*distinct.values()][:3])


def _shown(codes: Sequence[Code]) -> str:
    shown = ", ".join(f"{raw} ({words})" if words else raw for raw, words in codes[:6])
    return shown + (f" and {len(codes) - 6} more" if len(codes) > 6 else "")


def spec_of_values(column: BookColumn, values: Iterable[Code]) -> dict[str, Any]:
    """Return the declaration of a list of values in a schema file.

    The values are numbers if all of them are written as whole numbers and the column is not a text.
    """
    pairs = dict(column.missing) | dict(values)
    pairs = {raw: pairs[raw] for raw in dict.fromkeys([*dict(values), *pairs])}
    numbers = column.kind != "text" and all(map(_WHOLE.fullmatch, pairs))
    listed: list[Value] = [int(raw) for raw in pairs] if numbers else [*pairs]
    labels = {value: words for value, words in zip(listed, pairs.values(), strict=True) if words}
    spec = {**_label(column), "type": "ordinal" if column.kind == "ordinal" else "nominal", "values": listed}
    if column.absent:
        absent = unused_value(listed)
        labels |= {absent: column.absence or "missing"} if column.absence or absent != "missing" else {}
        spec |= {"values": [*listed, absent], "missing": absent}
    return spec | ({"labels": labels} if labels else {})


def spec_of_numbers(column: BookColumn, low: float, high: float, codes: Iterable[Code]) -> dict[str, Any]:
    """Return the declaration of a column of numbers in a schema file.

    Unless the book states otherwise, the numbers are whole if their bounds are whole. A file that contains decimals
    then raises an error.
    """
    open_kind = column.kind != "number" and not column.decimals and float(low).is_integer() and float(high).is_integer()
    whole = column.kind == "integer" or column.decimals == 0 or open_kind
    ends = {key: int(end) if float(end).is_integer() else end for key, end in (("lower", low), ("upper", high))}
    spec = {**_label(column), "type": "number", **ends}
    spec |= {"integer": True} if whole else {"decimals": column.decimals} if column.decimals else {}
    named = {(int(raw) if _WHOLE.fullmatch(raw) else raw): words or raw for raw, words in codes}
    spec |= {"codes": named} if named else {}
    return spec | ({"missing": OWN_CATEGORY} if column.absent else {})


def _label(column: BookColumn) -> dict[str, Any]:
    return {"label": column.label} if column.label else {}
