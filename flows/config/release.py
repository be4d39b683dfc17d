"""The configuration of a release, which is a YAML file, Prefect parameters or command-line options."""

from __future__ import annotations

import hashlib
import json
import math
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from equistrata.data.files.formats import KINDS, kind_of
from equistrata.data.texts import documents
from equistrata.data.units.unit import MOST_ROWS, MOST_WEIGHED, Neighbours, Weights
from equistrata.errors import InputError
from equistrata.flows.config.placeholders import Pattern, Zone, filled
from equistrata.flows.config.places import LedgerPlace
from equistrata.flows.config.report import ReportSettings
from equistrata.flows.config.settings import Names, OptionName, Settings, Texts, UnitColumn, setting, worker_setting
from equistrata.synth.names import NAMED_CLASS, Synthesizer, is_foreign

SEEDED_CHARGE = (
    "noise from a seed can be repeated and subtracted, so it gives no privacy and a ledger is not charged for it; "
    "leave out the seed, or the data set (dataset)"
)

# Changing one of these settings does not change the release. They only affect its files and how it is computed.
INCIDENTAL = frozenset({
    "output", "workers", "runner", "cluster", "scratch", "ledger", "dataset", "release_id", "time_zone", "report",
    "former", "synthesizer_python", "replicates",
})  # fmt: skip

DELTA = 1e-9  # used if the number of units is not declared; it is at most 1/n^1.5 for up to a million units


def delta_for(units: int) -> float:
    """Return the default δ for a number of units.

    This is the largest power of ten that is at most 1/n^1.5 and at most 1e-5. If δ were close to 1/n, a mechanism that
    publishes the rows of one unit would be allowed.

    Parameters
    ----------
    units : int
        The number of units n, at least 1.

    Returns
    -------
    float
        The value of δ.

    Examples
    --------
    >>> delta_for(90_000), delta_for(12_000_000)
    (1e-08, 1e-11)
    """
    return float(f"1e-{max(math.ceil(1.5 * math.log10(units)), 5)}")


if TYPE_CHECKING:
    SourceName = str
else:
    SourceName = Literal[("sample", "folktables", *KINDS)]


class SourceSettings(Settings):
    """Settings for the source of the private rows, which are the same for a release and an audit."""

    source: SourceName = setting(
        "sample", "Source of the rows. --input implies its format, and --state or --task implies folktables."
    )
    input: str | None = setting(None, "File that contains the table.")
    state: Names = setting((), "States, such as NY or NY,VT (folktables only).")
    year: int = setting(2018, "Year of the survey (folktables only).", ge=2014)
    survey: Literal["1-Year", "5-Year"] = setting("1-Year", "Survey of that year (folktables only).")
    root_dir: str = setting("acs", "Folder that contains <year>/<survey>/psam_p….csv (folktables only).")
    download: bool = setting(False, "Download the files that are missing (folktables only).")
    task: Literal["ACSIncome", "ACSEmployment", "ACSPublicCoverage", "ACSMobility", "ACSTravelTime"] | None = setting(
        None, "Task of folktables. It determines the columns, and which rows are used."
    )

    @model_validator(mode="before")
    @classmethod
    def _source_that_is_meant(cls, given: Any) -> Any:
        """If the source is not given, choose it from the table or the state. Otherwise the sample would be used."""
        if not isinstance(given, dict) or given.get("source") is not None:
            return given
        table = given.get("input")
        meant = {"source": kind_of(str(table))} if table else {}
        return {**given, **(meant or ({"source": "folktables"} if given.get("state") or given.get("task") else {}))}

    @model_validator(mode="after")
    def _reads_what_is_given(self) -> Self:
        if self.input is not None and self.source not in KINDS:
            raise InputError(f"source {self.source!r} does not read a file; leave out the input, or the source")
        if self.state and self.source != "folktables":
            raise InputError(f"source {self.source!r} has no states; leave out the state, or choose folktables")
        if self.task and self.source != "folktables":
            raise InputError(f"source {self.source!r} has no tasks; leave out the task, or choose folktables")
        return self


SOURCE_SETTINGS = tuple(SourceSettings.model_fields)


class SeriesSettings(Settings):
    """Settings of a series, which consists of monthly releases that share one budget and learn from each other."""

    name: Annotated[Pattern | None, OptionName("series")] = setting(
        None,
        "Name of the series to which this release adds the next month. ε and δ are then those of all its months "
        "together. Placeholders such as {year} are filled in.",
        pattern=r"^[A-Za-z0-9{][A-Za-z0-9._{}-]{0,59}$",
    )
    horizon: Annotated[int | None, OptionName("horizon")] = setting(
        None, "Largest number of months in the series.", ge=1, le=1200
    )
    front: Annotated[float, OptionName("front")] = setting(
        1.0, "Budget of the first month, as a multiple of the budget of another month.", ge=1, le=1200
    )

    @model_validator(mode="after")
    def _both(self) -> Self:
        if (self.name is None) != (self.horizon is None):
            raise InputError("a series needs a name and a horizon; give both: --series NAME --horizon 12")
        if self.name is None and self.front != 1:
            raise InputError("'front' only applies to a series; name the series, or leave 'front' out")
        return self


class ReleaseConfig(SourceSettings):
    """All public settings of a release. Rows are never part of the settings."""

    coded: bool = setting(False, "The table already contains released codes, with bins as their index.")
    schema_: str | None = setting(
        None, "Schema file, or name of a built-in schema such as acs_employment.", alias="schema"
    )
    columns: Names = setting((), "Columns to release. If not given, the default columns of the schema.")
    survey_weight: str | None = setting(
        None,
        "Column with survey weights, such as PWGTP. The rows then represent people. If not given, the column that "
        "the schema declares. If it declares none, rows are counted.",
    )
    controls: str | None = setting(
        None,
        "File with public totals of people, such as by age, sex and race. The survey weights of the release then "
        "add up to them, at no privacy cost.",
    )
    expand: bool = setting(
        False, "Draw rows in proportion to their survey weight, and leave that column out. Each row is then one person."
    )
    strata: Names = setting((), "Columns that define strata. ST/PUMA means PUMA within ST.")
    unit: UnitColumn = setting(
        None,
        "Column that identifies the unit of privacy, such as the id of a person or household. If not given, the "
        "unit of the schema, or else one row.",
    )
    at_most: int | None = setting(
        None,
        f"Largest number of rows that are used of each unit, 1 to {MOST_ROWS:,}. If not given, the number in the "
        "schema. If it has none, each unit must have one row only.",
        ge=1,
        le=MOST_ROWS,
    )
    unit_weights: Weights | None = setting(
        None,
        "What the synthesis counts. With rows, the noise covers at_most rows at once. With units, it covers one "
        f"unit, and the number of rows per unit is measured too (for 2 to {MOST_WEIGHED} rows). If not given, the "
        "choice with the smaller predicted error for --units, or else rows.",
    )
    unit_sizes: Texts = setting(
        (),
        "Public shares of units with 1, 2, 3, … rows, such as 0.3,0.4,0.2,0.1. They are used to predict the "
        "better --unit-weights.",
    )
    relation: Neighbours = setting(
        "add-remove",
        "Neighbouring tables: one unit is added or removed, or one unit is replaced by another (with twice as "
        "much noise).",
    )
    units: int | None = setting(
        None,
        "Rough number of units (people, households), which must be public. It determines δ if --delta is not "
        "given, and is used to choose --unit-weights.",
        ge=1,
    )
    synthesizer: Synthesizer | Annotated[str, Field(pattern=NAMED_CLASS)] = setting(
        "mst",
        "The mechanism, or another class with its own guarantee: snsynth:NAME, package.module:Class or file.py:Class.",
    )
    synthesizer_python: str | None = setting(
        None,
        "Python of the environment in which another project's synthesizer is installed, such as /opt/dpmm/bin/python.",
    )
    degree: int | None = setting(
        None, "Number of columns in each set of the workload (aim and gem only). If not given, 3.", ge=1, le=8
    )
    workload: Texts = setting(
        (),
        "Sets of columns and their weights, such as SEX*DIS*ESR=2,MAR*ESR, instead of all sets of --degree "
        "columns (aim only).",
    )
    target: str | None = setting(
        None, "Give half of the weight of the workload to the sets that contain this column (aim only)."
    )
    engine: Literal["numpy", "mbi"] = setting(
        "numpy", "Library that estimates the models. mbi is the reference implementation, and needs an extra."
    )
    epsilon: float = setting(1.0, "ε of the whole release.", gt=0, allow_inf_nan=False)
    delta: float = setting(
        DELTA, "δ of the whole release. If --units is given, the default is at most 1/n^1.5.", gt=0, lt=1
    )
    weights: str = setting(
        "noisy", "File with public group weights (shares of rows), or noisy for noisy counts, which are charged."
    )
    weight_column: str | None = setting(
        None,
        "Column of the weights file that contains sizes or survey weights, such as PWGTP. If not given, each row "
        "of that file counts as one person.",
    )
    combine_weights: bool = setting(False, "Combine the weights file with noisy counts by inverse-variance weighting.")
    shrinkage: bool = setting(
        True, "Shrink small strata and their sizes toward what the other strata predict, at no privacy cost."
    )
    selection: Literal["shared", "per-stratum"] | None = setting(
        None,
        "Choose marginals once for all strata, or in each stratum. If not given, shared where this is possible "
        "and better.",
    )
    levels: Literal["auto", "strata", "none"] = setting(
        "auto",
        "Where shared selection measures marginals: at all levels (auto), within strata only (strata), or over "
        "all rows only (none).",
    )
    count_share: float = setting(0.02, "Share of ρ for noisy counts.", gt=0, lt=1)
    open_share: float = setting(
        0.05, "Share of ρ for finding the values of open columns, if there are any.", gt=0, le=0.5
    )
    bound_share: float = setting(
        0.0,
        "Share of ρ for noisy counts of units by their number of rows. They show how many rows --at-most has left "
        "out. With 0, this is not shown.",
        ge=0,
        le=0.5,
    )
    rows: int | None = setting(
        None, "Number of synthetic rows. If not given, the noisy number of rows of the table.", ge=1
    )
    replicates: int = setting(
        0,
        "Number of replicates of the model to store in the release, such as 25, so that readers do not have to "
        "wait for them.",
        ge=0,
        le=1000,
    )
    means: Names = setting((), "Numeric columns for which private means are estimated, such as SCHL,WKHP.")
    means_share: float = setting(0.25, "Share of ρ for the means.", gt=0, lt=1)
    means_schema: str | None = setting(None, "Schema with bounds and σ for the means, such as acs_means for ACS data.")
    means_estimator: Literal["stratified", "vanilla", "both"] = setting(
        "stratified", "StratCoinpress, Coinpress over all rows, or both (each with half of the budget)."
    )
    means_target: Literal["rows", "population"] = setting(
        "rows", "Whether the intervals cover the means of the rows or of the population (which needs σ)."
    )
    evaluate: Literal["full", "quick", "none"] = setting(
        "quick", "Compute exact internal scores. With full, classifiers are trained as well."
    )
    holdout: float = setting(0.2, "Probability that a row (or unit) is held out, for --evaluate full.", gt=0, lt=1)
    seed: int | None = setting(None, "Seed for tests. The release is reproducible, and therefore NOT private.", ge=0)
    runner: Literal["threads", "processes", "dask", "ray"] = setting(
        "processes",
        "Where strata are fitted: in this process, in several processes of this machine, or on a cluster (needs "
        "an extra).",
    )
    workers: int = worker_setting("Number of processes that fit strata in parallel, if no cluster is used.")
    cluster: str | None = setting(None, "Address of a Dask scheduler or a Ray head. If not given, one is started here.")
    scratch: str | None = setting(
        None, "Folder in which the private working folder is made. All machines must share it."
    )
    output: Pattern = setting(
        "release",
        "Folder to create. {year}, {month} (such as 2026-11), {week}, {date} and {time} are filled in.",
    )
    ledger: LedgerPlace | None = setting(
        None, "Path of the ledger, its URL without a password, or block:NAME. If not given, $EQUISTRATA_LEDGER_URL."
    )
    dataset: str | None = setting(None, "Name of the data set in the ledger. Its budget is charged.")
    release_id: Pattern | None = setting(
        None,
        "Name of the release in the ledger. If not given, it is made from the name of the output. Placeholders "
        "such as {month} are filled in.",
        pattern=r"^[A-Za-z0-9{][A-Za-z0-9._{}-]{0,99}$",
    )
    time_zone: Zone = setting(
        "UTC", "Time zone of placeholders such as {month}. Use the one of the schedule, such as America/New_York."
    )
    series: SeriesSettings = setting(SeriesSettings(), "Name and horizon of a series.")
    former: str | None = setting(
        None,
        "Folder of the last release of the series, from which this one learns. If not given, it is looked for "
        "beside the output.",
    )
    report: ReportSettings = setting(ReportSettings(), "Title, agency and contact of the card.")

    @model_validator(mode="before")
    @classmethod
    def _delta_of_units(cls, given: Any) -> Any:
        if not isinstance(given, dict) or given.get("delta") is not None or not isinstance(given.get("units"), int):
            return given
        return {**given, "delta": delta_for(given["units"])} if given["units"] > 0 else given

    @model_validator(mode="after")
    def _task_has_its_own_schema(self) -> Self:
        if self.task and self.schema_:
            raise InputError("a task already declares its columns; leave out the schema, or the task")
        return self

    @model_validator(mode="after")
    def _replicates_have_a_model(self) -> Self:
        if self.replicates == 1:
            raise InputError("setting 'replicates' is 1, but one replicate has no spread; give 2 or more, or 0")
        if self.replicates and (self.expand or is_foreign(self.synthesizer)):
            what = "a release with expand" if self.expand else f"a release by {self.synthesizer}"
            raise InputError(f"{what} does not support estimates, so it cannot store replicates; leave replicates out")
        return self

    @model_validator(mode="after")
    def _charged_is_private(self) -> Self:
        if self.dataset is not None and self.seed is not None:
            raise InputError(SEEDED_CHARGE)
        if self.series.name is not None and self.dataset is None:
            raise InputError(
                "the months of a series are counted in a ledger; name the data set (dataset), or leave the series out"
            )
        if self.former is not None and self.series.name is None:
            raise InputError("'former' only applies to a series; name the series, or leave 'former' out")
        return self

    @classmethod
    def load(cls, path: str | Path, **overrides: Any) -> ReleaseConfig:
        """Read the settings from a YAML file.

        Parameters
        ----------
        path : str or Path
            The file.
        **overrides : object
            Settings that take precedence over the file.

        Returns
        -------
        ReleaseConfig
            The settings.

        Raises
        ------
        InputError
            If a setting is invalid. The message describes the first invalid setting.
        """
        where = f"config file {str(path)!r}"
        document = documents.load(path, where)
        if not isinstance(document, dict):
            raise InputError(f"{where} needs settings as 'name: value' lines")
        settings = {str(key).replace("-", "_"): value for key, value in document.items()}
        if len(settings) < len(document):
            twice = next(name for name in settings if sum(str(key).replace("-", "_") == name for key in document) > 1)
            raise InputError(f"{where} has the setting {twice!r} twice; keep one of them")
        for name, given in overrides.items():  # for a group, only the given settings are replaced
            both = isinstance(given, dict) and isinstance(settings.get(name), dict)
            settings[name] = {**settings[name], **given} if both else given
        return cls.build(**settings)

    def at(self, scheduled: datetime) -> Self:
        """Replace the placeholders by the scheduled time of a release. The time must have a time zone."""
        texts = {"output": self.output} | ({} if self.release_id is None else {"release_id": self.release_id})
        given: dict[str, Any] = {name: filled(text, scheduled, self.time_zone) for name, text in texts.items()}
        if self.series.name is not None:
            given["series"] = self.series.changed(name=filled(self.series.name, scheduled, self.time_zone))
        return self.changed(**given)

    @property
    def digest(self) -> str:
        """The SHA-256 hash of the settings that determine the release.

        Files are included by name only, because their content is in the `binding`.
        """
        settings = {name: value for name, value in self.public().items() if name not in INCIDENTAL}
        if self.series.name is None:  # keeps the digest of versions without series
            settings.pop("series")
        # Unset settings are removed, which keeps the digest of versions without these settings.
        for name in ("survey_weight", "controls", "expand", "degree", "workload", "target"):
            if not settings[name]:
                settings.pop(name)
        settings["horizon"] = settings.pop("survey")  # keeps the name that was used until 2026-11-25
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()

    def public(self) -> dict[str, Any]:
        """Return the settings as plain values for cards and parameters, by the names that users write."""
        return self.model_dump(mode="json", by_alias=True)
