"""What all configurations have in common: settings that are checked at once, never change, and are told of in one sentence."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from equistrata.errors import InputError


class Settings(BaseModel):
    """A configuration: Prefect parameters and command-line options. An unknown setting is refused.

    pydantic's own errors, which the orchestrator logs, do not quote what was given: it may be a ledger's password.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _is_text(cls, given: Any) -> Any:
        """File names may hold any bytes, and come as halves of characters then; Prefect and JSON cannot take these."""
        for name, value in given.items() if isinstance(given, dict) else ():
            for text in value if isinstance(value, list | tuple) else (value,):
                if isinstance(text, str) and any("\ud800" <= character <= "\udfff" for character in text):
                    raise InputError(
                        f"setting {str(name).rstrip('_')!r} holds bytes that are not UTF-8; rename what it names, or choose another"
                    )
        return given

    @classmethod
    def build(cls, **settings: Any) -> Self:
        """Validate settings. Raises InputError with one sentence about the first setting that is wrong."""
        try:
            return cls(**settings)
        except ValidationError as error:
            raise InputError(_sentence(error, cls)) from None


def _sentence(error: ValidationError, model: type[BaseModel]) -> str:
    """One sentence about the first setting that is wrong."""
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"][:1]) or "configuration"
    if first["type"] == "extra_forbidden":
        known = ", ".join(sorted(field.alias or name for name, field in model.model_fields.items()))
        return f"unknown setting {name!r}; the settings are {known}"
    told = first.get("ctx", {}).get("error")
    if isinstance(told, InputError):  # says it all, and what was given may be a secret
        return str(told)
    reason = first["msg"][0].lower() + first["msg"][1:]
    return f"setting {name!r} is {first['input']!r}, but {reason.replace('input', 'it', 1)}"
