"""Where private rows are: settings that a release and an audit share."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, create_model

from equistrata.flows.config.places import without_credentials
from equistrata.flows.config.settings import Names, Settings, setting, whole_type

LedgerPlace = Annotated[str, AfterValidator(without_credentials)]


class SourceSettings(Settings):
    """Where rows come from."""

    source: Literal["sample", "folktables", "csv", "parquet"] = setting("sample", "Where rows come from.")
    input: str | None = setting(None, "The table, for source csv or parquet.")
    state: Names = setting((), "States, for source folktables, as NY or NY,VT.")
    year: int = setting(2018, "Survey year, for source folktables.", ge=2014)
    horizon: Literal["1-Year", "5-Year"] = setting("1-Year", "Survey horizon, for source folktables.")
    root_dir: str = setting("acs", "Folder with <year>/<horizon>/psam_p….csv, for source folktables.")
    download: bool = setting(False, "Let folktables download what is not there.")


SOURCE_SETTINGS = tuple(SourceSettings.model_fields)


def unset(model: type[Settings]) -> type[Settings]:
    """The same settings, each None unless it is given."""
    fields: dict[str, Any] = {
        name: (whole_type(field) | None, Field(None, description=field.description))
        for name, field in model.model_fields.items()
    }
    return create_model(f"Unset{model.__name__}", __base__=Settings, **fields)
