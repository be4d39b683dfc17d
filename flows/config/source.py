"""Where private rows are: settings that a release and an audit share."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, create_model

from equistrata.flows.config.places import without_credentials
from equistrata.flows.config.settings import Names, Settings, whole_type

LedgerPlace = Annotated[str, AfterValidator(without_credentials)]


class SourceSettings(Settings):
    """Where rows come from."""

    source: Literal["sample", "folktables", "csv", "parquet"] = Field("sample", description="Where rows come from.")
    input: str | None = Field(None, description="The table, for source csv or parquet.")
    state: Names = Field((), description="States, for source folktables, as NY or NY,VT.")
    year: int = Field(2018, ge=2014, description="Survey year, for source folktables.")
    horizon: Literal["1-Year", "5-Year"] = Field("1-Year", description="Survey horizon, for source folktables.")
    root_dir: str = Field("acs", description="Folder with <year>/<horizon>/psam_p….csv, for source folktables.")
    download: bool = Field(False, description="Let folktables download what is not there.")


SOURCE_SETTINGS = tuple(SourceSettings.model_fields)


def unset(model: type[Settings]) -> type[Settings]:
    """The same settings, each None unless it is given."""
    fields: dict[str, Any] = {
        name: (whole_type(field) | None, Field(None, description=field.description))
        for name, field in model.model_fields.items()
    }
    return create_model(f"Unset{model.__name__}", __base__=Settings, **fields)
