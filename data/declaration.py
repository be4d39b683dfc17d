"""The YAML text of a schema before it is parsed, and the columns that a user has confirmed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from equistrata.data.columns.declared import CONFIRMED, TAKEN
from equistrata.data.texts import documents
from equistrata.errors import InputError


def built_in_schemas() -> list[str]:
    """Return the names of the schemas that are included in equistrata.

    >>> built_in_schemas()[:2]
    ['acs_2017', 'acs_2018']
    """
    files = resources.files("equistrata.data").joinpath("schemas").iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def schema_text(source: str | Path) -> tuple[str, str]:
    """Return the YAML text of a schema and its name in error messages.

    Parameters
    ----------
    source : str or Path
        The path of a schema file, or the name of an included schema.

    Returns
    -------
    text : str
        The YAML text.
    where : str
        The name of the schema in error messages.

    Raises
    ------
    InputError
        If the schema does not exist or cannot be read.
    """
    path = Path(source)
    name = len(os.fsencode(path.name)) <= 255 and path.name == str(source) and not path.suffix
    if name and not os.path.exists(path):
        if str(source) not in built_in_schemas():
            raise InputError(
                f"no schema named {str(source)!r}; give the path of a YAML file or one of "
                f"{', '.join(built_in_schemas())}"
            )
        return resources.files("equistrata.data").joinpath("schemas", f"{source}.yaml").read_text("utf-8"), str(source)
    return documents.read_text(path, f"schema file {str(path)!r}"), str(path)


def confirmed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a schema file in which confirmed columns are not marked as taken from rows.

    The confirmed columns are those under the key 'confirmed'.

    >>> confirmed({"columns": {"A": {"values": [1], "taken_from_rows": ["values"]}}, "confirmed": ["A"]})["columns"]
    {'A': {'values': [1]}}
    """
    names, declared = document.get(CONFIRMED), document.get("columns")
    if not isinstance(names, list) or not isinstance(declared, dict):
        return dict(document)
    kept = {
        name: {key: value for key, value in spec.items() if key != TAKEN or name not in names}
        for name, spec in declared.items()
        if isinstance(spec, dict)
    }
    return {**document, "columns": declared | kept}
