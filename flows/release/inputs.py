"""The objects that are named in the settings of a release.

They are schemas, the unit, public weights and the source of the rows. The functions do not read any private row. They
raise an InputError if a setting is invalid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from equistrata.data.census.tasks import census_schema
from equistrata.data.files.formats import KINDS
from equistrata.data.schema import Schema
from equistrata.data.sources import FileSource, FolktablesSource, SampleSource, Source, read_frame
from equistrata.data.strata import Strata
from equistrata.data.survey.controls import Controls
from equistrata.data.units.unit import Unit, Weights, better_weights, unit_sizes_of, used_rows
from equistrata.data.weights import PublicWeights
from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.synth.mechanisms.base import Mechanism
from equistrata.synth.mechanisms.workload import workload_of
from equistrata.synth.registry import check_weighing, serving
from equistrata.synth.strata.shrinkage import MOST_STRATA
from equistrata.synth.synthesizer import NOISY

ACS_SCHEMA, ACS_MEANS = "acs_employment", "acs_means"


def schema_of(config: ReleaseConfig) -> Schema:
    """Return the schema of the rows, as declared.

    Raises
    ------
    InputError
        If no schema is named, or if it cannot be read.
    """
    named = config.schema_
    if named is None and config.source in KINDS:
        raise InputError(
            f"source {config.source!r} needs a schema that declares its columns; give one with --schema "
            "(equistrata init FILE drafts one)"
        )
    if named is None and config.source == "folktables" and config.state and (config.task or config.columns):
        schema = census_schema(config.year, config.survey, config.state, config.task, config.columns)
    else:
        schema = Schema.load(named or ACS_SCHEMA)
    if config.survey_weight is not None:
        schema = schema.with_survey_weight(config.survey_weight)
    return schema.coded() if config.coded else schema


def released_schema(config: ReleaseConfig, declared: Schema) -> Schema:
    """Return the declared schema of the released columns, including the survey weight.

    Raises
    ------
    InputError
        If the survey weight has another role as well, or if another setting is not compatible with it.
    """
    schema = declared.released(config.columns) if config.columns else declared.selected()
    name = schema.survey_weight
    if name is None:
        if config.expand:
            raise InputError("--expand needs a survey weight; give its column with --survey-weight")
        return schema
    check_weighed(name, config.strata, config.synthesizer)
    if config.means:
        raise InputError(
            f"private means are means of rows, but with the survey weight {name!r} rows represent people; "
            "leave out --means, and estimate them from the release (equistrata estimate)"
        )
    if config.weights != NOISY:
        raise InputError(
            f"group weights are shares of rows, but with the survey weight {name!r} rows represent people; "
            "give public totals of people with --controls instead"
        )
    if config.rows is not None and config.controls is None and not config.expand:
        raise InputError(
            f"the survey weights of {config.rows:,} rows would not sum to the population; leave out --rows, "
            "give public totals of people with --controls, or make each row a person with --expand"
        )
    if config.expand and config.evaluate == "full":
        raise InputError(
            "classifiers are scored on private rows, but with --expand the released rows are people; choose "
            "--evaluate quick"
        )
    if len(schema.names) == 1:
        raise InputError(f"{name!r}, the survey weight, is the only released column; name other columns with --columns")
    return schema


def check_weighed(weight: str, strata: Sequence[str], synthesizer: str) -> None:
    """Raise an InputError if a survey weight defines strata, or if the synthesizer does not support survey weights."""
    if weight in strata:
        raise InputError(f"{weight!r} is the survey weight, so it cannot define strata; leave it out of --strata")
    check_weighing(synthesizer)


def with_workload(own: Mechanism, config: ReleaseConfig, schema: Schema) -> Mechanism:
    """Return the synthesizer with the requested workload.

    Raises
    ------
    InputError
        If the workload contains a column that is not released.
    """
    names = schema.unweighted
    if config.target is not None and config.target not in names:
        raise InputError(f"target {config.target!r} is not among the released columns ({', '.join(names)}); correct it")
    return serving(own, config.degree, workload_of(config.workload, names), config.target)


def means_schema_of(config: ReleaseConfig, declared: Schema) -> Schema:
    """Return the schema that declares the columns of the means. It is a separate file or the schema of the rows."""
    acs = config.source in ("sample", "folktables") and config.schema_ in (None, ACS_SCHEMA)
    named = config.means_schema or (ACS_MEANS if acs else None)
    return Schema.load(named) if named and config.means else declared


def means_of(config: ReleaseConfig, declared: Schema) -> Schema:
    """Return the schema of the columns for which means are estimated.

    Raises
    ------
    InputError
        If the mean of a column cannot be estimated.
    """
    faults = {name: why for name in config.means if (why := _no_mean(declared, name))}
    if faults:
        reasons = "; ".join(faults.values())
        raise InputError(
            f"the mean of {', '.join(map(repr, faults))} needs a numeric column with 'lower', 'upper' and 'sigma' in "
            f"schema {declared.name!r} ({reasons}); declare them, or give --means-schema"
        )
    return declared.select(config.means)


def _no_mean(schema: Schema, name: str) -> str:
    """Return the reason why the mean of a column cannot be estimated. If it can, the text is empty."""
    if name not in schema.names:
        return f"unknown column {name!r}"
    column = schema[name]
    if not column.numeric or column.layout:
        return f"{name!r} contains {'dates' if column.layout else 'values'}"
    return f"{name!r} has no 'sigma'" if column.sigma is None else ""


def unit_of_release(config: ReleaseConfig, declared: Schema, released: Schema, price: float) -> Unit:
    """Return the unit of privacy from the settings or, if it is not set, from the schema.

    Parameters
    ----------
    config : ReleaseConfig
        The settings.
    declared : Schema
        The schema of the rows.
    released : Schema
        The schema of the released columns.
    price : float
        The price of the release in ρ, from which the better way to count is predicted.

    Returns
    -------
    Unit
        The unit of privacy.

    Raises
    ------
    InputError
        If the settings about units are not valid.
    """
    unit = replace(declared.unit, relation=config.relation)
    column = config.unit or unit.column
    if column is None:
        for name in ("at_most", "unit_sizes"):
            if getattr(config, name):
                raise InputError(f"setting {name!r} needs a unit; give its column with --unit")
        return replace(unit, weights=config.unit_weights or "rows")
    if column in released.names:
        raise InputError(
            f"unit column {column!r} identifies people, so it must not be released; leave it out of 'default' "
            "in the schema, or choose other columns with --columns"
        )
    if column in config.means:
        raise InputError(
            f"unit column {column!r} identifies people, so its mean must not be released; leave it out of --means"
        )
    same = config.at_most is None and column == unit.column
    found = unit if same else replace(Unit.of(column, config.at_most), relation=config.relation)
    # The values of open columns and combined weights are based on counts of rows.
    rows = bool(declared.select(released.names).open) or config.combine_weights
    if config.unit_weights == "units" and rows:
        raise InputError(
            "open columns and combined weights only work if rows are counted; leave them out, or choose "
            "--unit-weights rows"
        )
    sizes = unit_sizes_of(config.unit_sizes)
    expected = None if config.units is None else config.units * used_rows(found.at_most, sizes)
    better = better_weights(found.at_most, len(released.names), price, expected, sizes)
    default: Weights = "rows" if rows else better
    return replace(found, weights=config.unit_weights or default)


def weights_of(config: ReleaseConfig, strata: Strata) -> PublicWeights | None:
    """Return the public weights. If all weights are based on noisy counts, return None.

    Raises
    ------
    InputError
        If the weights cannot be used.
    """
    if config.weights != NOISY:
        if not config.strata:
            raise InputError("group weights are given, but no strata; name the stratum columns with --strata")
        by_strata = bool(config.means) and config.means_estimator != "vanilla"
        if (config.combine_weights or by_strata) and len(strata.keys) > MOST_STRATA:
            raise InputError(
                f"combine_weights, and means of strata with public weights, support at most {MOST_STRATA:,} "
                f"strata, but there are {len(strata.keys):,}; leave combine_weights out, choose --means-estimator "
                "vanilla, or use "
                "fewer stratum columns"
            )
        return PublicWeights.from_file(config.weights, strata, config.weight_column)
    if config.combine_weights:
        raise InputError(
            "combine_weights combines public weights with noisy counts; give the file of public weights with --weights"
        )
    return None


def controls_of(config: ReleaseConfig, released: Schema, strata: Strata) -> Controls | None:
    """Return the public totals of people for the released columns. If they are not given, return None.

    Raises
    ------
    InputError
        If the totals cannot be used.
    """
    if config.controls is None:
        return None
    if released.survey_weight is None:
        own = {cell for name in strata.columns for cell in strata.schema[name].cells}
        names = set(map(str, read_frame(config.controls, declared=released.published).columns))
        same = bool(own) and own <= names and len(names) == len(own) + 1
        instead = "; or, because the file only has the stratum columns, give it with --weights" * same
        raise InputError(f"control totals need a survey weight; give its column with --survey-weight{instead}")
    controls = Controls.from_file(config.controls, released)
    needed = int((controls.totals > 0).sum())
    if not config.expand and config.rows is not None and config.rows < needed:
        raise InputError(
            f"the control totals have people in {needed:,} cells, and each cell needs a row; give at least "
            "this number of rows with --rows, or leave --rows out"
        )
    return controls


def source_of(config: ReleaseConfig, schemas: Sequence[Schema], numbers: Sequence[str] = ()) -> Source:
    """Return the source of the rows.

    Parameters
    ----------
    config : ReleaseConfig
        The settings.
    schemas : sequence of Schema
        The first schema declares how a CSV file represents its values. All schemas declare which columns are numeric.
    numbers : sequence of str, default=()
        The names of additional numeric columns.

    Returns
    -------
    Source
        The source.

    Raises
    ------
    InputError
        If the settings do not define the source.
    """
    if config.source == "sample":
        return SampleSource()
    if config.source == "folktables":
        if not config.state:
            raise InputError("source 'folktables' needs at least one state; give --state NY")
        declared = tuple(column for schema in schemas for column in schema.columns)
        return FolktablesSource(
            config.state, config.year, config.survey, config.root_dir, config.download, declared, config.task
        )
    if config.input is None:
        raise InputError(f"source {config.source!r} needs the path of its table; give it with --input")
    return FileSource.of(config.input, *schemas, kind=config.source, numbers=numbers)
