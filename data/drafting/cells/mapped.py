"""Values in JSON and YAML code books, with their words: of a list, a mapping, or JSON Schema's alternatives.

>>> pairs_of([{"value": 1, "label": "Male"}, {"value": 2, "label": "Female"}]), alternatives("^(A|B)$")
([(1, 'Male'), (2, 'Female')], ['A', 'B'])
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from equistrata.data.drafting.cells.choices import beside_in, listed_in
from equistrata.data.drafting.headings import CALLED, plain

# Values, as a regular expression; a point would be any letter.
ALTERNATIVES = re.compile(r"\^?(?:\((?:\?:)?)?[\w ,/-]+(?:\|[\w ,/-]+)+\)?\$?")
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:[a-z]{2})?")  # en, enus
_WORDS = ("valuelabels", "labels", "enumlabels", "enumnames", "enumdescriptions", "categorylabels", "levellabels",
          "xenumnames", "xenumdescriptions", "xenumvarnames")  # fmt: skip


def alternatives(pattern: str) -> list[str]:
    """The values of a regular expression that lists them: ^(A|B)$."""
    return pattern.strip("^$()").removeprefix("?:").split("|") if pattern else []


def pairs_of(listed: list[Any]) -> list[tuple[object, object]]:
    """The values of a list: texts such as "1 - Yes" have words, if all of them do."""
    if len(listed) > 1 and all(isinstance(each, str) and "\n" not in each for each in listed):
        found, lower, _ = listed_in("\n".join(listed))
        if lower is None and len(found) == len(listed) and any(words for _, words in found):
            return [*found]
    return [pair_of(each) for each in listed]


def with_words(codes: list[tuple[object, object]], field: Mapping[str, Any]) -> list[tuple[object, object]]:
    """Values with the words that a mapping or list beside them has, unless they have their own."""
    for words in (field[key] for key in _WORDS if isinstance(field.get(key), dict | list)):
        if codes and not any(said for _, said in codes):
            if isinstance(words, dict):
                by_raw = {str(raw): said for raw, said in words.items()}
                codes = [(raw, by_raw.get(str(raw), "")) for raw, _ in codes]
            elif len(words) == len(codes) and all(isinstance(said, str) for said in words):
                codes = [(raw, said) for (raw, _), said in zip(codes, words, strict=True)]
    return codes


def united(field: Mapping[str, Any]) -> Mapping[str, Any]:
    """A field of JSON Schema with its alternatives in one: a range, codes beside it, and null for absent cells."""
    listed = next((field[key] for key in ("oneof", "anyof") if isinstance(field.get(key), list)), None)
    if listed is None or not all(isinstance(each, dict) for each in listed):
        return field
    ranges = [each for each in listed if "const" not in each and "enum" not in each and each.get("type") != "null"]
    others = [each for each in listed if each not in ranges and each.get("type") != "null"]
    consts = [{"value": raw, **each} if "enum" in each else each for each in others
              for raw in (each["enum"] if isinstance(each.get("enum"), list) else [None])]  # fmt: skip
    rest = {key: value for key, value in field.items() if key not in ("oneof", "anyof")}
    rest |= {"required": False} if len(ranges) + len(others) < len(listed) else {}
    if not ranges:
        return {**rest, "values": consts}
    if len(ranges) > 1:
        return field
    return {**{plain(str(key)): value for key, value in ranges[0].items()}, **rest, "missingcodes": consts}


def worded(field: Mapping[str, Any]) -> Any:
    """Of several lists of values, one that has words for all of the enumeration's."""
    enum = field.get("enum")
    lists = (field[key] for key in CALLED["choices"] if key != "enum" and field.get(key))
    if not isinstance(enum, list):
        return None
    for each in lists:
        raw = [*map(str, each)] if isinstance(each, dict) else [str(pair_of(one)[0]) for one in list_of(each)]
        if {*map(str, enum)} <= {*raw} and (isinstance(each, dict) or any(pair_of(one)[1] for one in each)):
            return each
    return None


def absent_of(absent: Any) -> list[Any] | None:
    """Missing values as a list: of a list, a mapping to their words, or texts such as "-9=refused; -8"."""
    if isinstance(absent, dict):
        return [{"value": raw, "label": words} for raw, words in absent.items()]
    if isinstance(absent, str | int | float) and not isinstance(absent, bool):
        found = beside_in(str(absent))
        return [{"value": raw, "label": words} for raw, words in found]
    return absent if isinstance(absent, list) else None


def list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def pair_of(listed: Any) -> tuple[object, object]:
    """A value of a list: itself, or a mapping that has its words."""
    if not isinstance(listed, dict):
        return listed, ""
    inner = {str(key).lower(): value for key, value in listed.items()}
    at = next((key for key in ("const", "value", "code", "key", "id", "name") if key in inner), "")
    words = words_of({key: value for key, value in inner.items() if key != at})
    return inner.get(at, ""), words


def words_of(value: Any) -> object:
    """The words of a value: itself, or of a mapping those that it has for it; of several languages the first."""
    if not isinstance(value, dict):
        return value
    inner = {plain(str(key)): words for key, words in value.items()}
    said = next((inner[key] for key in (*CALLED["words"], *CALLED["label"], "name", "text") if key in inner), None)
    if said is None and inner and all(isinstance(words, str) for words in inner.values()):
        return next(iter(inner.values())) if all(map(_LANGUAGE.fullmatch, inner)) else ""
    return words_of(said) if isinstance(said, dict) else "" if said is None else said
