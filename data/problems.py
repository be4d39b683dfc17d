"""All problems of a schema, instead of only the first problem.

>>> text = "columns: {AGE: {lower: 9, upper: 0, integer: maybe}, SEX: {values: [1, 1]}}"
>>> for problem in schema_problems(documents.parse(text, "schema people"), "people")[1]:
...     print(problem)
column 'AGE' of schema people needs 'lower' to be less than 'upper'
column 'AGE' of schema people needs 'integer' to be true or false
column 'SEX' of schema people needs 'values' to be a list of distinct values
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from equistrata.data.columns.declared import COLUMN_KEYS, CONFIRMED, TAKEN
from equistrata.data.declaration import confirmed, schema_text
from equistrata.data.derived import FROM, derived_and_declared
from equistrata.data.questions import asked, open_question_error, refuse_empty_draft
from equistrata.data.rules.comparisons import columns_of
from equistrata.data.schema import Schema, without_open
from equistrata.data.survey.weight import KEY as SURVEY_WEIGHT
from equistrata.data.survey.weight import named_weight
from equistrata.data.texts import documents
from equistrata.errors import InputError

_NEEDED = ("type", "values", "lower", "upper")  # the keys that are required to declare a column
_FREE = ("label", "sigma", "mean", "integer", "release")  # keys that can be checked independently of the required ones


def load_with_problems(source: str | Path) -> tuple[Schema | None, list[str]]:
    """Return the valid part and all problems of a schema file or an included schema.

    See `schema_problems` for the return values.

    Parameters
    ----------
    source : str or Path
        The path of the schema file, or the name of an included schema.

    Raises
    ------
    InputError
        If the file cannot be read as YAML.
    """
    text, where = schema_text(source)
    document = documents.parse(text, f"schema {where}")
    try:
        refuse_empty_draft(text, document, where)
    except InputError as error:
        return None, [str(error)]
    declared = document.get("columns") if isinstance(document, dict) else None
    named = declared if isinstance(declared, dict) else {}
    open_ones = asked(text, named)
    if open_ones and isinstance(document.get("default"), list):
        kept = [name for name in document["default"] if name not in open_ones]
        document = {key: value for key, value in document.items() if key != "default"} | (
            {"default": kept} if kept else {}
        )
    if open_ones and isinstance(document, dict):
        document = without_open(document, open_ones)
    schema, problems = schema_problems(document, where)
    return schema, [*problems, *(open_question_error(name, where) for name in open_ones)]


def declared_names(source: str | Path) -> list[str]:
    """Return the columns in a schema file or an included schema, including those with an invalid declaration.

    Raises
    ------
    InputError
        If the file cannot be read as YAML.
    """
    text, where = schema_text(source)
    document = documents.parse(text, f"schema {where}")
    declared = document.get("columns") if isinstance(document, dict) else None
    return [str(name) for name in (*declared, *named_weight(document))] if isinstance(declared, dict) else []


def schema_problems(document: Any, where: str) -> tuple[Schema | None, list[str]]:
    """Return the schema of the valid declarations, and a sentence for each problem of a schema file.

    Parts that are not valid are declared again one by one, so the sentences are the messages of `Schema.from_dict`.

    Parameters
    ----------
    document : object
        The content of the YAML file.
    where : str
        The name of the file in the sentences.

    Returns
    -------
    schema : Schema or None
        The schema of the valid declarations, or None if there are none.
    problems : list of str
        A sentence for each problem.
    """
    taken, document = _unconfirmed(document, where)
    try:
        return Schema.from_dict(document, where), taken
    except InputError as error:
        whole = str(error)
    declared = document.get("columns") if isinstance(document, dict) else None
    if not isinstance(declared, dict) or not declared:
        return None, [whole]
    document = confirmed(document)
    declared = document["columns"]
    derives, plain = derived_and_declared(declared)
    bad = {name: found for name, spec in plain.items() if (found := _column_problems(name, spec, where))}
    for name, spec in derives.items():  # a derived column is checked with its source if the source is valid
        found = _tried({"columns": {each: plain[each] for each in plain if each not in bad} | {name: spec}}, where)
        if found and spec[FROM] not in bad:
            bad[name] = found
    declared = {name: spec for name, spec in declared.items() if name not in derives or spec[FROM] not in bad}
    good = {name: spec for name, spec in declared.items() if name not in bad}
    problems = [problem for found in bad.values() for problem in found]
    kept: dict[str, Any] = {"columns": good}
    if good and SURVEY_WEIGHT in document:
        weighed = kept | {SURVEY_WEIGHT: document[SURVEY_WEIGHT]}
        found = _tried(weighed, where)
        problems += found
        bad |= dict.fromkeys(named_weight(document), found) if found else {}
        kept = kept if found else weighed
    if good:
        for part in _parts(document, good, bad):
            problems += _tried(kept | part, where)
    for key in ("name", "target", "default", "file"):
        part = {key: document[key]} if key in document else {}
        kept |= part if not _tried(kept | part, where) else {}
    schema = Schema.from_dict(kept, where) if good else None
    return schema, taken + (list(dict.fromkeys(problems)) or [whole])


def _unconfirmed(document: Any, where: str) -> tuple[list[str], Any]:
    """Return a sentence about the columns that are marked as taken from rows, and the document without these marks.

    The marks are removed so that other problems can be found. The sentence is in a list, which is empty if no column is
    marked.
    """
    declared = document.get("columns") if isinstance(document, dict) else None
    listed = document.get(CONFIRMED) or [] if isinstance(document, dict) else []
    if not isinstance(declared, dict) or not isinstance(listed, list):
        return [], document
    marked = [str(name) for name, spec in declared.items() if isinstance(spec, dict) and spec.get(TAKEN)]
    marked = [name for name in marked if name not in listed]
    if not marked:
        return [], document
    said = (
        f"columns of schema {where} are marked as {TAKEN!r}; compare each with public facts, correct it, and remove "
        "the mark, or list it under "
        f"{CONFIRMED}: [{', '.join(json.dumps(name, ensure_ascii=False) for name in marked)}]"
    )
    return [said], {**document, CONFIRMED: [*listed, *marked]}


def _tried(document: Any, where: str) -> list[str]:
    try:
        Schema.from_dict(document, where)
    except InputError as error:
        return [str(error)]
    return []


def _column_problems(name: Any, spec: Any, where: str) -> list[str]:
    """Return the problems of the required keys and of each other key with them.

    If there are none, return the problems of all keys together.
    """

    def tried(*keys: str, given: Mapping[str, Any] | None = None) -> list[str]:
        return _tried({"columns": {name: dict(needed if given is None else given) | {k: spec[k] for k in keys}}}, where)

    needed: dict[str, Any] = {}
    whole = _tried({"columns": {name: spec}}, where)
    if not whole or not isinstance(spec, dict):
        return whole
    needed = {key: spec[key] for key in _NEEDED if key in spec}
    others = [key for key in spec if key not in needed]
    if base := tried():
        stand_in = {"values": [0]} if "values" in spec else {"lower": 0, "upper": 1}
        free = [key for key in others if key in _FREE or key not in COLUMN_KEYS]
        return base + [problem for key in free for problem in tried(key, given=stand_in)]
    alone = {key: tried(key) for key in others}
    fine = [key for key in others if not alone[key]]
    # It is not a problem of a key if it is valid together with another key.
    own = [found for key, found in alone.items() if found and not any(tried(key, beside) != found for beside in fine)]
    return [problem for found in own for problem in found] or whole


def _parts(document: Mapping[str, Any], good: Mapping[str, Any], bad: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Iterate over documents that each have one part in addition to the valid columns.

    Parts that refer to a column with an invalid declaration are left out because they can only be checked after the
    column is corrected.
    """
    for key, value in document.items():
        if key in ("columns", SURVEY_WEIGHT) or (key == "target" and isinstance(value, str) and value in bad):
            continue
        if key not in ("default", "impossible", "rules", CONFIRMED) or not isinstance(value, list):
            yield {"columns": good, key: value}
            continue
        for entry in value:
            named = [entry]
            if key in ("impossible", "rules"):
                named = columns_of(entry) if key == "rules" else list(entry) if isinstance(entry, dict) else []
            if not any(name in bad for name in named if isinstance(name, str)):
                known = {name: good[name] for name in named if isinstance(name, str) and name in good}
                yield {"columns": known if known and len(known) == len(named) else good, key: [entry]}
