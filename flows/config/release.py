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
from equistrata.flows.config.settings import Called, Names, Settings, Texts, UnitColumn, setting, worker_setting
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
        "sample", "Where rows come from (the format of an input, by its ending; folktables with a state)."
    )
    input: str | None = setting(None, "File of the table.")
    state: Names = setting((), "States, for source folktables, as NY or NY,VT.")
    year: int = setting(2018, "Survey year, for source folktables.", ge=2014)
    survey: Literal["1-Year", "5-Year"] = setting("1-Year", "Which survey of the year, for source folktables.")
    root_dir: str = setting("acs", "Folder with <year>/<survey>/psam_p….csv, for source folktables.")
    download: bool = setting(False, "Let folktables download what is not there.")
    task: Literal["ACSIncome", "ACSEmployment", "ACSPublicCoverage", "ACSMobility", "ACSTravelTime"] | None = setting(
        None, "A task of folktables: its columns, and only the rows that it is about."
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
            raise InputError(f"source {self.source!r} reads no input; leave out one of the two")
        if self.state and self.source != "folktables":
            raise InputError(f"source {self.source!r} has no states; leave out the state, or choose folktables")
        if self.task and self.source != "folktables":
            raise InputError(f"source {self.source!r} has no tasks; leave out the task, or choose folktables")
        return self


SOURCE_SETTINGS = tuple(SourceSettings.model_fields)


class SeriesSettings(Settings):
    """Settings of a series, which consists of monthly releases that share one budget and learn from each other."""

    name: Annotated[Pattern | None, Called("series")] = setting(
        None,
        "Series that this release is the next month of: epsilon and delta are then those of all its months together. "
        "May hold {year} etc.",
        pattern=r"^[A-Za-z0-9{][A-Za-z0-9._{}-]{0,59}$",
    )
    horizon: Annotated[int | None, Called("horizon")] = setting(None, "Months of the series, at most.", ge=1, le=1200)
    front: Annotated[float, Called("front")] = setting(
        1.0, "How many times as much of the series' budget as another month the first one has.", ge=1, le=1200
    )

    @model_validator(mode="after")
    def _both(self) -> Self:
        if (self.name is None) != (self.horizon is None):
            raise InputError("a series needs a name and a horizon; give both: --series NAME --horizon 12")
        if self.name is None and self.front != 1:
            raise InputError("'front' is of a series' first month; name the series, or leave it out")
        return self


class ReleaseConfig(SourceSettings):
    """All public settings of a release. Rows are never part of the settings."""

    coded: bool = setting(False, "The table already holds released codes (bins as their index).")
    schema_: str | None = setting(None, "Schema file or built-in name (acs_employment).", alias="schema")
    columns: Names = setting((), "Columns to release (the schema's default if none are given).")
    survey_weight: str | None = setting(
        None, "Column of survey weights, as PWGTP: rows then stand for people (the schema's; else rows are counted)."
    )
    controls: str | None = setting(
        None, "File of public totals of people, as by age, sex and race, that the weights then meet (no cost)."
    )
    expand: bool = setting(False, "Draw rows by their survey weight, and leave that column out: each row is a person.")
    strata: Names = setting((), "Columns that define strata; ST/PUMA for one within another.")
    unit: UnitColumn = setting(
        None, "Column that names the unit of privacy, as a person's or household's id (the schema's; else one row)."
    )
    at_most: int | None = setting(
        None,
        f"Rows of a unit that are used at most, 1 to {MOST_ROWS:,} (the schema's; else no two rows may share one).",
        ge=1,
        le=MOST_ROWS,
    )
    unit_weights: Weights | None = setting(
        None,
        "What counts as one in the synthesis: rows (noise for at_most of them at once) or units (noise for one; how "
        f"many rows it has is measured too; 2 to {MOST_WEIGHED} rows). Unset: what is predicted to be better for the "
        "units that are given; else rows.",
    )
    unit_sizes: Texts = setting(
        (), "Public shares of units with 1, 2, 3 … rows, as 0.3,0.4,0.2,0.1, by which that is predicted."
    )
    relation: Neighbours = setting(
        "add-remove", "Neighbouring tables: one unit is added or removed, or replaced by another (twice as much noise)."
    )
    units: int | None = setting(
        None,
        "Public number of units (people, households), roughly: δ follows it, unless given, and what counts as one.",
        ge=1,
    )
    synthesizer: Synthesizer | Annotated[str, Field(pattern=NAMED_CLASS)] = setting(
        "mst",
        "The mechanism, or snsynth:NAME, package.module:Class or file.py:Class with a guarantee of its own.",
    )
    synthesizer_python: str | None = setting(
        None, "Python of the environment that another project's synthesizer is in, as /opt/dpmm/bin/python."
    )
    degree: int | None = setting(None, "Columns in each set of the workload, for aim or gem (unset: 3).", ge=1, le=8)
    workload: Texts = setting(
        (), "The workload's sets of columns and their weights instead, for aim: SEX*DIS*ESR=2,MAR*ESR."
    )
    target: str | None = setting(None, "Half of the workload's weight is on sets with this column, for aim.")
    engine: Literal["numpy", "mbi"] = setting("numpy", "What estimates the models (mbi: reference, an extra).")
    epsilon: float = setting(1.0, "ε of the whole release.", gt=0, allow_inf_nan=False)
    delta: float = setting(DELTA, "δ of the whole release (at most 1/n^1.5 where n units are declared).", gt=0, lt=1)
    weights: str = setting("noisy", "File of public group weights (of rows), or noisy: noisy counts that are charged.")
    weight_column: str | None = setting(
        None, "Column of sizes or survey weights in the weights file, as PWGTP; rows if each row is one person."
    )
    combine_weights: bool = setting(False, "Combine the weights file with noisy counts by inverse variance.")
    shrinkage: bool = setting(True, "Shrinkage of small strata and of their sizes, at no privacy cost.")
    selection: Literal["shared", "per-stratum"] | None = setting(
        None, "One selection of queries for all strata, or one each (unset: shared where that is possible and better)."
    )
    levels: Literal["auto", "strata", "none"] = setting(
        "auto", "Queries of shared selection: over all rows and within strata (auto), or one of these."
    )
    count_share: float = setting(0.02, "Part of the release's ρ for noisy counts.", gt=0, lt=1)
    open_share: float = setting(
        0.05, "Part of the release's ρ for finding the values of open columns, if there are any.", gt=0, le=0.5
    )
    bound_share: float = setting(
        0.0,
        "Part of the release's ρ for noisy counts of units by their rows, which tell how many rows the bound left out "
        "(0: not told).",
        ge=0,
        le=0.5,
    )
    rows: int | None = setting(None, "Synthetic rows (the noisy number of rows if not given).", ge=1)
    replicates: int = setting(
        0, "Replicates of the model to keep in the release, so that its readers wait for none (25, say).", ge=0, le=1000
    )
    means: Names = setting((), "Numeric columns to estimate means of, as SCHL,WKHP.")
    means_share: float = setting(0.25, "Part of the release's ρ for the means.", gt=0, lt=1)
    means_schema: str | None = setting(None, "Schema with the means' bounds and σ (acs_means for ACS data).")
    means_estimator: Literal["stratified", "vanilla", "both"] = setting(
        "stratified", "StratCoinpress, Coinpress over all rows, or both (each then gets half)."
    )
    means_target: Literal["rows", "population"] = setting(
        "rows", "The means that intervals cover: the rows' own, or those of the population (needs σ)."
    )
    evaluate: Literal["full", "quick", "none"] = setting("quick", "Exact internal scores; full: with classifiers.")
    holdout: float = setting(0.2, "Chance of a row (or unit) to be held out, for evaluate full.", gt=0, lt=1)
    seed: int | None = setting(None, "For tests: reproducible, and therefore NOT private.", ge=0)
    runner: Literal["threads", "processes", "dask", "ray"] = setting(
        "processes", "Where strata are fitted: this process, processes of this machine, or a cluster (extras)."
    )
    workers: int = worker_setting("Processes that fit strata in parallel, without cluster.")
    cluster: str | None = setting(None, "Address of a Dask scheduler or Ray head (started here if not given).")
    scratch: str | None = setting(None, "Where the private working folder is made; all machines must share it.")
    output: Pattern = setting("release", "Folder to make; {year}, {month}, {week}, {date}, {time} are filled in.")
    ledger: LedgerPlace | None = setting(None, "Path, URL without password, or block:NAME ($EQUISTRATA_LEDGER_URL).")
    dataset: str | None = setting(None, "The data set's name in the ledger; charges its budget.")
    release_id: Pattern | None = setting(
        None,
        "The release's name in the ledger (from the output's name if not given); may hold {month} etc.",
        pattern=r"^[A-Za-z0-9{][A-Za-z0-9._{}-]{0,99}$",
    )
    time_zone: Zone = setting("UTC", "Time zone of {month} etc.: that of the schedule, as America/New_York.")
    series: SeriesSettings = setting(SeriesSettings(), "Name and horizon of a series.")
    former: str | None = setting(
        None, "Folder of the series' last release, from which this one learns (unset: it lies beside the output)."
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
            raise InputError("a task declares its columns itself; leave out the schema, or the task")
        return self

    @model_validator(mode="after")
    def _replicates_have_a_model(self) -> Self:
        if self.replicates == 1:
            raise InputError("one replicate has no spread; keep 2 or more (replicates), or none")
        if self.replicates and (self.expand or is_foreign(self.synthesizer)):
            what = "a release of people (expand)" if self.expand else f"a release by {self.synthesizer}"
            raise InputError(f"{what} answers no estimates, so it keeps no replicates; leave replicates out")
        return self

    @model_validator(mode="after")
    def _charged_is_private(self) -> Self:
        if self.dataset is not None and self.seed is not None:
            raise InputError(SEEDED_CHARGE)
        if self.series.name is not None and self.dataset is None:
            raise InputError(
                "which month of a series it is, the ledger knows; name the data set (dataset), or no series"
            )
        if self.former is not None and self.series.name is None:
            raise InputError("a former release is learned from in a series only; name the series, or leave it out")
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
