"""Common behaviour of all settings.

Settings are validated once and cannot be changed. An invalid setting is reported in one sentence.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from enum import Enum, auto
from typing import Annotated, Any, Self, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.fields import FieldInfo

from equistrata.data.repeats import require_unique
from equistrata.errors import InputError


class Given(Enum):
    """The way in which a setting is given on the command line, if its type does not determine it."""

    BY_PLACE = auto()  # a positional argument
    BY_FLAG = auto()  # an option without a value; if there are several choices, each of them is an option


@dataclass(frozen=True)
class OptionName:
    """The name of an option, if it differs from the name of the field."""

    option: str


def _names(value: Any) -> Any:
    """Split a text at its commas. A name that contains a comma can be written in double quotes.

    >>> _names('SEX, "town, street" ,JOB'), _names('5" pipe,a')
    (('SEX', 'town, street', 'JOB'), ('5" pipe', 'a'))
    """
    if not isinstance(value, str):
        return value
    try:
        parts = next(csv.reader([value], skipinitialspace=True), [])
    except csv.Error:  # the text contains a line break
        parts = value.split(",")
    return tuple(name.strip() for name in parts if name.strip())


def _not_blank(value: str | None) -> str | None:
    if value is not None and not value.strip():
        raise InputError("setting 'unit' is blank; name the column of the units, or leave the setting out")
    return value


def _each_once(value: tuple[str, ...], about: ValidationInfo) -> tuple[str, ...]:
    return require_unique(value, f"setting {about.field_name!r}:" if about.field_name else "a setting's name")


UnitColumn = Annotated[str | None, AfterValidator(_not_blank)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_names)]
Names = Annotated[Texts, AfterValidator(_each_once)]
Flag = Annotated[bool, Given.BY_FLAG]
Placed = TypeVar("Placed")
ByPlace = Annotated[Placed, Given.BY_PLACE]


_SHOWN = 40  # the largest number of characters of a setting that are shown in a message


def setting(default: Any, description: str, **checks: Any) -> Any:
    """Define a field of a settings model.

    The description is the help text of the option, and `...` as default means required.
    """
    return Field(default, description=description, **checks)


def worker_setting(description: str) -> Any:
    """Define a setting for the number of processes. The default is the number of processors."""
    return Field(default_factory=lambda: os.cpu_count() or 1, ge=1, description=description)


class Settings(BaseModel):
    """Base class for the settings of flows and commands. An unknown setting is refused.

    The errors of pydantic are logged by the orchestrator. They do not quote the given value, because it may be the
    password of a ledger.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, hide_input_in_errors=True, populate_by_name=True
    )

    @model_validator(mode="before")
    @classmethod
    def _is_text(cls, given: Any) -> Any:
        """Refuse texts with lone surrogates.

        They come from file names that are not UTF-8, and cannot be stored by Prefect or JSON.
        """
        for name, value in given.items() if isinstance(given, dict) else ():
            for text in value if isinstance(value, list | tuple) else (value,):
                if isinstance(text, str) and any("\ud800" <= character <= "\udfff" for character in text):
                    raise InputError(
                        f"setting {str(name).rstrip('_')!r} contains bytes that are not UTF-8; use another name"
                    )
        return given

    @model_validator(mode="before")
    @classmethod
    def _is_a_number(cls, given: Any) -> Any:
        """Refuse `true` for a number. Otherwise `at_most: true` would mean 1, which is a different guarantee."""
        for name, field in cls.model_fields.items() if isinstance(given, dict) else ():
            for key in {name, field.alias} & given.keys():
                _refuse_truth(str(key), field, given[key])
        return given

    @classmethod
    def build(cls, **settings: Any) -> Self:
        """Create and validate settings.

        Raises
        ------
        InputError
            If a setting is invalid. The message is one sentence about the first invalid setting.
        """
        try:
            return cls(**settings)
        except ValidationError as error:
            raise InputError(_sentence(error, cls)) from None

    def changed(self, **settings: Any) -> Self:
        """Return a copy with other values of some settings. Only these values are validated.

        Raises
        ------
        InputError
            If a value is invalid.
        """
        new = {}
        for name, value in settings.items():
            _refuse_truth(name, type(self).model_fields[name], value)
            try:
                new[name] = TypeAdapter(whole_type(type(self).model_fields[name])).validate_python(value)
            except ValidationError as error:
                raise InputError(_sentence(error, type(self), name)) from None
        return self.model_copy(update=new) if any(getattr(self, name) != new[name] for name in new) else self


def whole_type(field: FieldInfo) -> Any:
    """Return the type of a field with its bounds and validators."""
    return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation


def _refuse_truth(name: str, field: FieldInfo, value: Any) -> None:
    """Raise an InputError if a number is true or false, because Python would use 1 or 0."""
    kinds = {field.annotation, *get_args(field.annotation)}
    truth = type(value).__name__ in ("bool", "bool_")  # also finds the type of NumPy without an import
    if truth and kinds & {int, float} and bool not in kinds:
        raise InputError(f"setting {name!r} is {str(value).lower()}, but it should be a number; write it as one")


def group_of(field: FieldInfo) -> type[Settings] | None:
    """Return the settings class of a field that is a group of settings, or None."""
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Settings) else None


def _longest(pattern: str) -> int:
    """Return the length of the longest name for a pattern that consists of one character and {0,n} others."""
    return 1 + int(pattern.rpartition(",")[2].rstrip("$)}"))


def _sentence(error: ValidationError, model: type[BaseModel], field: str | None = None) -> str:
    first = error.errors()[0]
    way = ([field] if field else []) + [str(part) for part in first["loc"]]
    inner = group_of(model.model_fields[way[0]]) if way and way[0] in model.model_fields else None
    name = ".".join(way[: 1 if inner is None else 2]) or "configuration"
    if first["type"] == "extra_forbidden":
        known = ", ".join(sorted(field.alias or name for name, field in (inner or model).model_fields.items()))
        return f"unknown setting {name!r}; the settings are {known}"
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):  # use this message only, because the given value may be secret
        return str(cause)
    if first["type"] == "string_pattern_mismatch":  # all settings with patterns are names
        given = str(first["input"])
        shown = repr(given if len(given) <= _SHOWN else f"{given[:_SHOWN]}…")
        return (
            f"setting {name!r} is {shown}, but a name consists of letters, digits, dots, dashes and "
            f"underscores, begins with a letter or digit and has at most {_longest(first['ctx']['pattern'])} "
            "characters"
        )
    reason = first["msg"][0].lower() + first["msg"][1:]
    return f"setting {name!r} is {first['input']!r}, but {reason.replace('input', 'it', 1)}"
