"""The configuration of an audit, as Prefect parameters and command-line options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema, create_model

from equistrata.flows.config.places import LedgerPlace
from equistrata.flows.config.release import SOURCE_SETTINGS, ReleaseConfig, SourceSettings
from equistrata.flows.config.report import ReportSettings
from equistrata.flows.config.settings import ByPlace, Flag, Given, Names, Settings, setting, whole_type

EPSILON, DELTA = 1.0, 1e-9

# A text is allowed for events that name one folder, because Prefect 3.8 does not fill in templates inside a list.
Folders = Annotated[
    Names, WithJsonSchema({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]})
]


# The settings of the source of the rows. Each of them is None if it is not given.
_UNSET: Any = {
    name: (whole_type(field) | None, Field(None, description=field.description))
    for name, field in SourceSettings.model_fields.items()
}


class AuditConfig(create_model("UnsetSourceSettings", __base__=Settings, **_UNSET)):  # type: ignore[misc]
    """All public settings of an audit. Settings that are not given are read from the card of the first release."""

    releases: ByPlace[Folders] = setting((), "Release folders. The first one is compared with the others.")
    mode: Annotated[Literal["public", "internal"], Given.BY_FLAG] = setting(
        "internal",
        "Publish noisy numbers, which are charged to a budget, or compute exact numbers, which must not be published.",
    )
    strata: Names = setting((), "Columns that define the groups. If not given, the finest strata of the releases.")
    target: str | None = setting(None, "Column that classifiers predict. If not given, the target of the schema.")
    epsilon: float | None = setting(
        None, "ε of a public audit that reads rows. If only --delta is given, 1.", gt=0, allow_inf_nan=False
    )
    delta: float | None = setting(
        None, "δ of a public audit that reads rows. If only --epsilon is given, 1e-9.", gt=0, lt=1
    )
    dataset: str | None = setting(
        None, "Data set that is charged for a public audit. If not given, that of the releases."
    )
    ledger: LedgerPlace | None = setting(None, "Path of the ledger, its URL without a password, or block:NAME.")
    output: str | None = setting(None, "Folder to create. If not given, it is created in the first release.")
    pdf: Flag = setting(False, "Print the report as PDF as well (needs Chromium).")
    seed: int | None = setting(None, "Seed for tests. The audit is reproducible, and therefore NOT private.", ge=0)
    report: ReportSettings = setting(
        ReportSettings(), "Title, agency and contact of the page (those of the first release's card)."
    )

    @property
    def free(self) -> bool:
        """True for a public audit without a price, which does not read any row."""
        return self.mode == "public" and self.epsilon is None and self.delta is None

    @property
    def price(self) -> tuple[float, float]:
        """The parameters ε and δ of a public audit."""
        return self.epsilon or EPSILON, self.delta or DELTA


def from_release_config(path: str | Path) -> dict[str, Any]:
    """Return the settings of an audit that are given in the configuration file of a release.

    Parameters
    ----------
    path : str or Path
        The YAML file.

    Returns
    -------
    dict
        The settings of the source, the ledger and the data set, if the file contains them.

    Raises
    ------
    InputError
        If the file is not a valid configuration.
    """
    config = ReleaseConfig.load(path)
    names = {*SOURCE_SETTINGS, "ledger", "dataset"} & config.model_fields_set
    return {name: getattr(config, name) for name in names}
