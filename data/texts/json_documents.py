"""JSON files, such as cards, manifests, schemas, measurements, states and code books.

These files can come from other people, so they are not trusted. There are limits on the size, the depth and the number
of values. Keys must not be repeated, and numbers must be finite. The types of the values are then compared with a
shape, so that the other modules can rely on the structure of a document.

>>> parse_json('{"rows": 5, "strata": ["SEX"]}', "card.json")
{'rows': 5, 'strata': ['SEX']}
>>> check_shape({"rows": 5, "strata": ["SEX", 1]}, {"rows": int, "strata": [str]}, "card.json")
Traceback (most recent call last):
equistrata.errors.InputError: card.json has 'strata.1' = 1, which is no text; restore the file as it was written
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from equistrata.data.texts.documents import read_bytes
from equistrata.errors import InputError, enough_memory

MOST_BYTES = 64 << 20
MOST_BYTES_OF_NUMBERS = 1 << 30  # the limit for measurements and for the state of a series
MOST_DEPTH = 20
MOST_PARTS = 2_000_000  # the maximum number of lists and mappings
MEND = "restore the file as it was written"
MOST_DIGITS = 20  # the maximum number of digits of a whole number of 64 bits

_MISSING = object()

Shape = Any
"""What `check_shape` compares with: a type (`float` is any number); None; a frozenset of texts; the values of a mapping
as {str: shape}, or its keys as {"key": shape, "key?": shape}, where the second may lack; [shape] of each in a list, or
[shape, shape] of the two in it; or a tuple of shapes, of which one fits."""


def read_json(path: Path, where: str, shape: Shape = object, most: int = MOST_BYTES) -> Any:
    """Read a JSON file.

    Parameters
    ----------
    path : Path
        The path of the file.
    where : str
        The object that the file belongs to, for error messages.
    shape : Shape
        The required shape (see `check_shape`).
    most : int
        The maximum size of the file in bytes.

    Returns
    -------
    object
        The content of the file.

    Raises
    ------
    InputError
        If the file is not a regular file that can be read, if it is too large, or if `parse_json` raises an error.
    """
    named = f"{path.name} of {where}"
    return parse_json(read_bytes(path, named, most), named, shape)


def parse_json(content: bytes | str, where: str, shape: Shape = object) -> Any:
    """Parse a JSON text.

    Parameters
    ----------
    content : bytes or str
        The text.
    where : str
        The name of the text in error messages.
    shape : Shape
        The required shape (see `check_shape`).

    Returns
    -------
    object
        The content of the text.

    Raises
    ------
    InputError
        If the text is not valid JSON, if a key is repeated, if a number is not finite or has more than MOST_DIGITS
        digits, or if a text contains an unpaired surrogate. An error is also raised if there are more than MOST_DEPTH
        levels or MOST_PARTS lists and mappings, or if the document does not have the required shape.
    """

    def refuse(why: str) -> NoReturn:
        raise InputError(f"{where} cannot be read as JSON: {why}; {MEND}")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
            refuse(f"it has the key {_shown(twice)} twice in the same object")
        return found

    def whole(digits: str) -> int:
        return int(digits) if len(digits) <= MOST_DIGITS else refuse(f"a number has {len(digits):,} digits")

    def finite(text: str) -> float:
        found = float(text)
        return found if math.isfinite(found) else refuse("a number is too large")

    content = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    deep = f"it is nested more than {MOST_DEPTH} levels deep"
    if content.count(b"[") + content.count(b"{") > MOST_PARTS:
        refuse(f"it has more than {MOST_PARTS:,} lists and mappings")
    try:
        with enough_memory(where, "read it on another machine"):
            text = content.decode("utf-8-sig")
            found = json.loads(
                text, object_pairs_hook=once, parse_int=whole, parse_float=finite,
                parse_constant=lambda name: refuse(f"{name} is not a number"),
            )  # fmt: skip
            if "\\ud" in text.lower():
                json.dumps(found, ensure_ascii=False).encode("utf-8")
    except InputError:
        raise
    except UnicodeError:
        refuse("it is not UTF-8 text")
    except ValueError:
        refuse("it is damaged")
    except RecursionError:
        refuse(deep)
    if _deeper(found):
        refuse(deep)
    check_shape(found, shape, where)
    return found


def _deeper(document: Any) -> bool:
    """Return True if a document has more than MOST_DEPTH levels."""
    level = [document]
    for _ in range(MOST_DEPTH):
        inner = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [each for parts in inner for each in parts if isinstance(each, dict | list)]
    return bool(level)


def check_shape(document: Any, shape: Shape, where: str, at: str = "") -> None:
    """Check that a JSON document has the required shape.

    Keys that are not in the shape are ignored.

    Parameters
    ----------
    document : object
        The content of the document.
    shape : Shape
        The required shape.
    where : str
        The name of the document in error messages.
    at : str
        The key of the document within a larger document.

    Raises
    ------
    InputError
        If the document does not have this shape. The message contains the key.
    """
    fault = _fault(document, shape, at)
    if fault is not None:
        raise InputError(f"{where} {fault}; {MEND}")


def _fault(found: Any, shape: Shape, at: str) -> str | None:
    """Return a description of the first fault of a document, or None if there is no fault."""
    if isinstance(shape, tuple):
        faults = [_fault(found, each, at) for each in shape]
        # If several shapes are allowed, report the fault that is deepest in the document.
        return None if None in faults else max(faults, key=lambda fault: len(str(fault).partition("' ")[0]))
    if isinstance(shape, dict) and isinstance(found, Mapping):
        if str in shape:
            return _first((value, shape[str], f"{at}.{key}".lstrip(".")) for key, value in found.items())
        for key, inner in shape.items():
            name = key.removesuffix("?")
            value, place = found.get(name, _MISSING), f"{at}.{name}".lstrip(".")
            if value is _MISSING:
                if name == key:
                    return f"lacks {_shown(place)}"
            elif (fault := _fault(value, inner, place)) is not None:
                return fault
        return None
    if isinstance(shape, list) and isinstance(found, list | tuple) and len(shape) > 1:
        if len(shape) != len(found):
            return f"has {len(found)} values in {_shown(at)} instead of {len(shape)}"
        return _first((*pair, f"{at}.{place}") for place, pair in enumerate(zip(found, shape, strict=True)))
    if isinstance(shape, list) and isinstance(found, list | tuple):
        if set(map(type, found)) <= _ALIKE.get(shape[0] if isinstance(shape[0], type) else None, set()):
            return None  # a fast check for lists of millions of numbers
        return _first((value, shape[0], f"{at}.{place}".lstrip(".")) for place, value in enumerate(found))
    if isinstance(shape, frozenset) and isinstance(found, str) and found in shape:
        return None
    if (isinstance(shape, type) and _is(found, shape)) or (shape is None and found is None):
        return None
    wanted = f"is no {_NAMES.get(_kind(shape), 'such value')}"
    return f"has {_shown(at)} = {_shown(found)}, which {wanted}" if at else wanted


def shape_of(declared: Any) -> Shape:
    """Return the shape of the result of `dataclasses.asdict` for a dataclass, or the shape of a field of this type."""
    kind, parts = get_origin(declared), get_args(declared)
    if is_dataclass(declared):
        hints = get_type_hints(declared)
        required = {each.name for each in fields(declared) if each.default is MISSING}
        return {name if name in required else f"{name}?": shape_of(hint) for name, hint in hints.items()}
    if kind is Literal:
        return frozenset(parts)
    if kind is tuple:
        return [shape_of(each) for each in parts if each is not ...]
    if kind in (Union, UnionType):
        return tuple(map(shape_of, parts))
    return None if declared is type(None) else declared


_ALIKE: Mapping[Any, set[type]] = {str: {str}, bool: {bool}, int: {int}, float: {int, float}}
_NAMES = {
    str: "text", bool: "truth value", int: "whole number", float: "number", dict: "mapping", list: "list", None: "null",
}  # fmt: skip


def _kind(shape: Shape) -> Any:
    return type(shape) if isinstance(shape, dict | list) else shape


def _first(parts: Any) -> str | None:
    return next((fault for each in parts if (fault := _fault(*each)) is not None), None)


def _is(found: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(found, int | float) and not isinstance(found, bool)
    return isinstance(found, kind) and not (kind is int and isinstance(found, bool))


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
