"""The setting `report` of releases and audits: the title of the page, the agency and its contact."""

from __future__ import annotations

import unicodedata
from typing import Annotated

from pydantic import AfterValidator, ValidationInfo

from equistrata.errors import InputError
from equistrata.flows.config.settings import Settings, setting

LONGEST = 200  # characters


def _one_line(text: str, info: ValidationInfo) -> str:
    """Return a text without spaces at its ends. If it is not a single line of valid length, raise an InputError."""
    name, text = f"report.{info.field_name}", text.strip()
    if not 1 <= len(text) <= LONGEST:
        raise InputError(f"setting {name!r} has {len(text):,} characters, but it must have 1 to {LONGEST}; correct it")
    if any(unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp") for character in text):
        raise InputError(f"setting {name!r} contains a line break or another control character; write it on one line")
    return text


Line = Annotated[str, AfterValidator(_one_line)]


class ReportSettings(Settings):
    """Public texts of one line each, with at most `LONGEST` characters."""

    title: Line | None = setting(
        None, "Title of the card or of the audit page. If not given, it is made from the data set and the release."
    )
    agency: Line | None = setting(None, "Agency that is responsible for the data, as it should be named on the page.")
    contact: Line | None = setting(None, "Contact for readers, such as an address or a telephone number.")
