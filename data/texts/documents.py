r"""YAML files of settings.

The files must be small, must not be deeply nested, and must not repeat a key. An error message contains the line of the
fault.

>>> parse("a: 1\nb: [2, 3]\n", "people.yaml")
{'a': 1, 'b': [2, 3]}
>>> parse("a: 1\na: 2\n", "people.yaml")
Traceback (most recent call last):
equistrata.errors.InputError: people.yaml has the key 'a' twice, the second time at line 2; keep one of them
"""

from __future__ import annotations

import errno
import re
import stat
from collections.abc import Collection, Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml

from equistrata.errors import InputError

MOST_BYTES = 1 << 20
MOST_NODES = 100_000  # the maximum number of nodes, which take one second to parse, or three without libyaml
MOST_DEPTH = 20
_MERGE = "tag:yaml.org,2002:merge"
# YAML 1.1 reads 010 as 8, 0x10 as 16 and 1:30 as 90, although they are usually meant as codes or times.
_OTHER_BASE = re.compile(r"[-+]?(?:0[0-9_]+|0x[0-9a-fA-F_]+|0b[01_]+|[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?)")


def _loader(base: Any, where: str) -> Any:
    """Return a safe loader that raises an InputError if a key is repeated, because YAML keeps the last value without a
    warning.
    """

    class Loader(base):  # type: ignore[misc]
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
            seen = set()
            for key_node, _ in node.value:
                key = self.construct_object(key_node, deep=True)
                if isinstance(key, Hashable) and key_node.tag != _MERGE:
                    if key in seen:
                        line = key_node.start_mark.line + 1
                        twice = f"the key {_shown(key)} twice, the second time at line {line}"
                        raise InputError(f"{where} has {twice}; keep one of them")
                    seen.add(key)
            mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
            return mapping

    return Loader


_READER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the wheels of PyYAML have the fast loader

_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TRUTH = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}  # YAML 1.1 does not read these words as texts

_AS_WRITTEN: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def load(path: str | Path, where: str, aliases: bool = False) -> Any:
    """Read a YAML file.

    Parameters
    ----------
    path : str or Path
        The path of the file.
    where : str
        The name of the file in error messages, such as "schema people.yaml".
    aliases : bool
        If True, anchors and aliases are allowed.

    Returns
    -------
    object
        The content of the file, or None if the file is empty.

    Raises
    ------
    InputError
        If the file cannot be read, if it is not a regular file, if it is not UTF-8, if it is too large, or if `parse`
        raises an error.
    """
    return parse(read_text(path, where), where, aliases)


def read_text(path: str | Path, where: str) -> str:
    """Return the text of a small UTF-8 file without the byte order mark.

    Raises
    ------
    InputError
        If the file cannot be read, if it is too large, or if it is not UTF-8.
    """
    try:
        return read_bytes(path, where, MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{where} is not UTF-8 text; save it as UTF-8") from None


def read_bytes(path: str | Path, where: str, most: int) -> bytes:
    """Return the content of a regular file.

    Parameters
    ----------
    path : str or Path
        The path of the file.
    where : str
        The name of the file in error messages.
    most : int
        The maximum size of the file in bytes.

    Raises
    ------
    InputError
        If the file cannot be read, if it is not a regular file, or if it is too large.
    """
    content = None
    try:
        if stat.S_ISREG(Path(path).stat().st_mode):  # a pipe could block, and a device could have no end
            with Path(path).open("rb") as file:
                content = file.read(most + 1)
    except (OSError, ValueError) as error:  # the path contains a null character (ValueError)
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            raise InputError(f"{where[:60]}… has a name or path that is too long; give a shorter one") from None
        raise InputError(f"{where} cannot be read; check the path") from None
    if content is None:
        raise InputError(f"{where} is a folder, a pipe or a device; give a regular file")
    if len(content) > most:
        raise InputError(f"{where} has more than {most:,} bytes, which is the limit; shorten it")
    return content


def parse(text: str, where: str, aliases: bool = False, as_written: bool = False) -> Any:
    """Parse a YAML text.

    Parameters
    ----------
    text : str
        The text.
    where : str
        The name of the text in error messages.
    aliases : bool
        If True, anchors and aliases are allowed.
    as_written : bool
        If True, all keys and scalars are returned as texts.

    Returns
    -------
    object
        The content of the text, or None if the text is empty.

    Raises
    ------
    InputError
        If the text is not valid YAML, if it contains tags, or if it repeats a key. An error is also raised if there are
        more than MOST_NODES values after aliases are expanded, if there are more than MOST_DEPTH levels, or if YAML
        would read a number differently from how it is written.
    """
    try:
        _look_over(text, where, aliases, as_written)
        document = yaml.load(text, _loader(_AS_WRITTEN if as_written else _READER, where))  # nosec B506
    except InputError:
        raise
    except yaml.YAMLError as error:
        line = _at(getattr(error, "problem_mark", None))
        if "nesting depth" in (getattr(error, "problem", None) or ""):  # libyaml has a limit since PyYAML 6.0.4
            raise _too_deep(where, line) from None
        raise InputError(f"{where} is not valid YAML{line}; correct its syntax") from None
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):  # for example an impossible date
        raise InputError(
            f"{where} is not valid YAML, because it has an impossible date or number; correct it"
        ) from None
    if aliases and _expanded(document, {}) > MOST_NODES:
        raise InputError(f"{where} expands to more than {MOST_NODES:,} values by its aliases; use fewer aliases")
    return document


def flow(value: Any, plain: Collection[str] = ()) -> str:
    """Return a value as YAML on a single line, which `parse` can read.

    Texts are in quotes, except for keys and the words in `plain`.

    >>> flow({"type": "number", "no": [1, 0.5, True]}, plain=["number"])
    '{type: number, "no": [1, 0.5, true]}'
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow_key(key)}: {flow(each, plain)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow(each, plain) for each in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        text = str(int(value)) if value.is_integer() else repr(value)
        return f"{value:.15f}".rstrip("0") if "e" in text else text  # YAML reads 1e-05 as a text
    if isinstance(value, int) or value in plain:
        return str(value)
    quoted: str = yaml.dump(str(value), Dumper=_DUMPER, default_style='"', allow_unicode=True, width=1 << 30)
    return quoted.removesuffix("\n")


def flow_key(key: object) -> str:
    """Return the key of a mapping as YAML, in quotes only if they are needed."""
    plain = isinstance(key, str) and _PLAIN_KEY.fullmatch(key) and key.lower() not in _TRUTH
    return str(key) if plain else flow(key)


def _look_over(text: str, where: str, aliases: bool, as_written: bool) -> None:
    """Check the stream of YAML events without recursion, and raise an InputError at the first fault."""
    depth = nodes = 0
    for event in yaml.parse(text, _READER):
        line = _at(event.start_mark)
        anchored = isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None
        if anchored and not aliases:
            raise InputError(f"{where} has an anchor or alias (& or *){line}; write the value out")
        if isinstance(event, yaml.NodeEvent):
            nodes += 1
            if nodes > MOST_NODES:
                raise InputError(f"{where} has more than {MOST_NODES:,} values, which is the limit; shorten it")
            if getattr(event, "tag", None) is not None:
                raise InputError(f"{where} is not valid YAML{line}: tags (!) are not supported; remove the tag")
        typed = event.value if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and not as_written else ""
        if _OTHER_BASE.fullmatch(typed):
            raise InputError(
                f"{where} has {_shown(typed)}{line}, which YAML may read as another number; put it into quotes, "
                "or write it without leading zeros and colons"
            )
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MOST_DEPTH:
                raise _too_deep(where, line)
        depth -= isinstance(event, yaml.CollectionEndEvent)


def _too_deep(where: str, line: str) -> InputError:
    return InputError(f"{where} is nested more than {MOST_DEPTH} levels deep{line}; use fewer levels")


def _expanded(value: Any, known: dict[int, int]) -> int:
    """Return the number of values after aliases are expanded, which is above MOST_NODES if a value contains itself."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = MOST_NODES + 1  # a value that contains itself finds this number
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_expanded(part, known) for part in parts)
    return known[id(value)]


def _at(mark: Any) -> str:
    return f" at line {mark.line + 1}" if mark else ""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
