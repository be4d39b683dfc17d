"""The configuration of an audit: Prefect parameters and command-line options.

>>> AuditConfig.build(releases="strat, vanilla").releases
('strat', 'vanilla')
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from equistrata.flows.config.release import LedgerPlace, Names, ReleaseConfig
from equistrata.flows.config.settings import Settings

EPSILON, DELTA = 1.0, 1e-9
SOURCE_SETTINGS = ("source", "input", "state", "year", "horizon", "root_dir", "download")

# A text too, for events that name one folder: Prefect 3.8 fills in no template inside a list.
Folders = Annotated[
    Names, WithJsonSchema({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]})
]


class AuditConfig(Settings):
    """Everything that decides an audit. Public settings only; where they are not given, the first release's card speaks."""

    releases: Folders = Field((), description="Release folders; several are compared, the first with each other.")
    mode: Literal["internal", "public"] = Field(
        "internal", description="internal: exact numbers that stay inside. public: noisy numbers that are paid for."
    )
    strata: Names = Field(
        (), description="Columns that define the groups (the finest of the releases' if none are given)."
    )
    target: str | None = Field(None, description="The column that classifiers predict (the schema's).")
    epsilon: float | None = Field(None, gt=0, allow_inf_nan=False, description="ε of a public audit (1).")
    delta: float | None = Field(None, gt=0, lt=1, description="δ of a public audit (1e-9).")
    dataset: str | None = Field(None, description="Whose budget a public audit is charged to (the releases' own).")
    ledger: LedgerPlace | None = Field(None, description="The ledger: path, URL without password, or block:NAME.")
    source: Literal["sample", "folktables", "csv", "parquet"] | None = Field(None, description="Where the rows are.")
    input: str | None = Field(None, description="The table of private rows, for source csv or parquet.")
    state: Names | None = Field(None, description="States, for source folktables.")
    year: int | None = Field(None, ge=2014, description="Survey year, for source folktables.")
    horizon: Literal["1-Year", "5-Year"] | None = Field(None, description="Survey horizon, for source folktables.")
    root_dir: str | None = Field(None, description="Folder with the ACS files, for source folktables.")
    download: bool | None = Field(None, description="Let folktables download what is not there.")
    output: str | None = Field(None, description="Folder to make (in the first release, if not given).")
    pdf: bool = Field(False, description="Print the report as PDF too (Chromium, or the extra 'pdf').")
    seed: int | None = Field(None, ge=0, description="For tests: reproducible, and therefore NOT private.")

    @property
    def price(self) -> tuple[float, float]:
        """(ε, δ) of a public audit."""
        return self.epsilon or EPSILON, self.delta or DELTA


def from_release_config(path: str | Path) -> dict[str, Any]:
    """Where a release's configuration file finds its rows, and its ledger, as settings of an audit.

    Raises InputError if it is no such file.
    """
    config = ReleaseConfig.load(path)
    settings = {name: getattr(config, name) for name in SOURCE_SETTINGS if name in config.model_fields_set}
    account = {name: getattr(config, name, None) for name in ("ledger", "dataset")}
    return settings | {name: value for name, value in account.items() if value is not None}
