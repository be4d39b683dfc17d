"""What all settings have in common: they are checked once, never change, and a wrong one is named in one sentence."""

from __future__ import annotations

import csv
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

from equistrata.data.repeats import each_once
from equistrata.errors import InputError


class Given(Enum):
    """How a setting is given at the command line, where its type does not say it."""

    BY_PLACE = auto()  # an argument, not an option
    BY_FLAG = auto()  # an option without a value: its name, or each of its choices


@dataclass(frozen=True)
class Called:
    """What an option is called, where its field's name does not say it."""

    option: str


def _names(value: Any) -> Any:
    """A list of names may be written as one text with commas; a name that has some, in double quotes.

    >>> _names('SEX, "town, street" ,JOB'), _names('5" pipe,a')
    (('SEX', 'town, street', 'JOB'), ('5" pipe', 'a'))
    """
    if not isinstance(value, str):
        return value
    try:
        parts = next(csv.reader([value], skipinitialspace=True), [])
    except csv.Error:  # a line break
        parts = value.split(",")
    return tuple(name.strip() for name in parts if name.strip())


def _not_blank(value: str | None) -> str | None:
    if value is not None and not value.strip():
        raise InputError("setting 'unit' is blank; name the column of the units, or leave the setting out")
    return value


def _each_once(value: tuple[str, ...], about: ValidationInfo) -> tuple[str, ...]:
    return each_once(value, f"setting {about.field_name!r}:" if about.field_name else "a setting's name")


UnitColumn = Annotated[str | None, AfterValidator(_not_blank)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_names)]
Names = Annotated[Texts, AfterValidator(_each_once)]
Flag = Annotated[bool, Given.BY_FLAG]
Placed = TypeVar("Placed")
ByPlace = Annotated[Placed, Given.BY_PLACE]


_SHOWN = 40  # characters of a setting in a message


def setting(default: Any, description: str, **checks: Any) -> Any:
    """A field of a settings model (`...` as default: it must be given); its description is the option's help."""
    return Field(default, description=description, **checks)


class Settings(BaseModel):
    """Settings of a flow or a command, as Prefect parameters or command-line options. An unknown one is refused.

    pydantic's own errors, which the orchestrator logs, do not quote what was given: it may be a ledger's password.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, hide_input_in_errors=True, populate_by_name=True
    )

    @model_validator(mode="before")
    @classmethod
    def _is_text(cls, given: Any) -> Any:
        """File names may hold any bytes, and come as lone surrogates then, which Prefect and JSON cannot take."""
        for name, value in given.items() if isinstance(given, dict) else ():
            for text in value if isinstance(value, list | tuple) else (value,):
                if isinstance(text, str) and any("\ud800" <= character <= "\udfff" for character in text):
                    raise InputError(f"setting {str(name).rstrip('_')!r} holds bytes that are not UTF-8; rename that")
        return given

    @model_validator(mode="before")
    @classmethod
    def _is_a_number(cls, given: Any) -> Any:
        """`true` of a configuration is not 1: as `at_most: true`, it would be another guarantee than is meant."""
        for name, field in cls.model_fields.items() if isinstance(given, dict) else ():
            for key in {name, field.alias} & given.keys():
                _refuse_truth(str(key), field, given[key])
        return given

    @classmethod
    def build(cls, **settings: Any) -> Self:
        """Validate settings. Raises InputError with one sentence about the first setting that is wrong."""
        try:
            return cls(**settings)
        except ValidationError as error:
            raise InputError(_sentence(error, cls)) from None

    def changed(self, **settings: Any) -> Self:
        """A copy with other values of these fields; only they are validated. Raises InputError as `build` does."""
        new = {}
        for name, value in settings.items():
            _refuse_truth(name, type(self).model_fields[name], value)
            try:
                new[name] = TypeAdapter(whole_type(type(self).model_fields[name])).validate_python(value)
            except ValidationError as error:
                raise InputError(_sentence(error, type(self), name)) from None
        return self.model_copy(update=new) if any(getattr(self, name) != new[name] for name in new) else self


def whole_type(field: FieldInfo) -> Any:
    """The type of a field, with its bounds and validators."""
    return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation


def _refuse_truth(name: str, field: FieldInfo, value: Any) -> None:
    """Raise InputError for true or false where a number is wanted: Python takes them for 1 and 0."""
    kinds = {field.annotation, *get_args(field.annotation)}
    truth = type(value).__name__ in ("bool", "bool_")  # NumPy's too, without an import of it
    if truth and kinds & {int, float} and bool not in kinds:
        raise InputError(f"setting {name!r} is {str(value).lower()}, but it should be a number; write it as one")


def group_of(field: FieldInfo) -> type[Settings] | None:
    """The settings that a field groups under its name, if it does."""
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Settings) else None


def _longest(pattern: str) -> int:
    """The characters of the longest name that a pattern allows: a first one, and the rest in {0,n}."""
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
    if isinstance(cause, InputError):  # a sentence of ours; what was given may be a secret
        return str(cause)
    if first["type"] == "string_pattern_mismatch":  # the patterns of settings are all of names
        given = str(first["input"])
        shown = repr(given if len(given) <= _SHOWN else f"{given[:_SHOWN]}…")
        return (
            f"setting {name!r} is {shown}, but a name is of letters, digits, dots, dashes and underscores, begins with "
            f"a letter or digit and is not longer than {_longest(first['ctx']['pattern'])}"
        )
    reason = first["msg"][0].lower() + first["msg"][1:]
    return f"setting {name!r} is {first['input']!r}, but {reason.replace('input', 'it', 1)}"
