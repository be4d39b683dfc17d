"""The public functions of `equistrata` for programs and notebooks.

Most of them correspond to a command with the same name.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    from equistrata.data.schema import Schema
    from equistrata.data.table import CodedTable
    from equistrata.flows.publication.publish import Published
    from equistrata.inference.ratios.ratio import RatioEstimate
    from equistrata.inference.ratios.sums import RatioWeights
    from equistrata.privacy.noise import NoiseSource

__all__ = ["audit", "plan", "publish", "ratio", "read_table", "release"]


def read_table(table: str | Path | pd.DataFrame | None, schema: Schema | str | Path) -> CodedTable:
    """Read a table and code its values as the schema declares.

    Parameters
    ----------
    table : str, Path, pandas.DataFrame or None
        A CSV or Parquet file, or a data frame. If None, the simulated sample that comes with equistrata is used.
    schema : Schema, str or Path
        A schema, the path of its file, or the name of a built-in schema. Its default columns are read.

    Returns
    -------
    CodedTable
        The coded rows.

    Raises
    ------
    InputError
        If the table cannot be read, does not have a column, or contains a value that is not declared. The message does
        not contain the value.
    """
    import pandas as pd

    from equistrata.data.schema import Schema
    from equistrata.data.sources import FileSource, SampleSource
    from equistrata.data.table import CodedTable
    from equistrata.errors import InputError

    selected = (schema if isinstance(schema, Schema) else Schema.load(schema)).selected()
    if isinstance(table, pd.DataFrame):
        return CodedTable.encode(table, selected)
    if not isinstance(table, str | Path | None):
        raise InputError(
            f"a table is the path of a file or a pandas data frame, not a {type(table).__name__}; convert it to one"
        )
    source = SampleSource() if table is None else FileSource.of(str(table), selected)
    return CodedTable.concatenate([CodedTable.encode(rows, selected) for rows in source.batches(selected.cells)])


def ratio(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    weights: RatioWeights | None = None,
    *,
    epsilon: float,
    delta: float,
    noise: NoiseSource | None = None,
    **settings: Any,
) -> RatioEstimate:
    """Estimate the ratio of two sums with differential privacy.

    Parameters
    ----------
    numerator, denominator : array-like of shape (n,)
        Values in [0, 1]. The values of the denominator must be 0 or 1, unless `binary=False`.
    weights : RatioWeights or None, default=None
        Design weights with a declared bound. If None, all weights are 1.
    epsilon, delta : float
        Parameters of the privacy guarantee.
    noise : NoiseSource or None, default=None
        Source of the noise. If None, secure noise is used.
    **settings : object
        Other fields of `equistrata.inference.ratios.ratio.RatioSettings`, for example `mechanism`, `log` or `level`.

    Returns
    -------
    RatioEstimate
        The estimate with its interval.

    Raises
    ------
    InputError
        If a setting is out of its range, or if values are missing or out of bounds.

    Privacy
    -------
    The estimate is (ε, δ)-differentially private under adding or removing one row. The proof is given in
    docs/proofs/ratio.md.
    """
    from equistrata.inference.ratios.ratio import RatioSettings, private_ratio
    from equistrata.privacy.noise import SecureNoise

    source = SecureNoise() if noise is None else noise
    return private_ratio(numerator, denominator, RatioSettings(epsilon, delta, **settings), source, weights)


def plan(column: str | None = None, **settings: Any) -> dict[str, Any]:
    """Plan an estimate in each stratum, or a synthesis, from public numbers only.

    The result is the document that `equistrata plan --json` prints.

    Parameters
    ----------
    column : str or None, default=None
        The column to plan for. For a numeric column, the mean is planned. For a categorical column or None, a
        proportion is planned. It must be None if `synthesizer` is given, which plans a synthesis.
    **settings : object
        The options of `equistrata plan --help`, for example `strata=["SEX"]`, `epsilon=0.5` or `relative_error=0.1`.

    Returns
    -------
    dict
        The plan.

    Raises
    ------
    InputError
        If a setting is out of its range.

    Privacy
    -------
    There is no cost, because no row is read.
    """
    from equistrata.flows.cli.planning.plan import plan_document
    from equistrata.flows.cli.planning.settings import PlanSettings

    return plan_document(PlanSettings.build(column=column, **settings))


def release(config: str | Path | None = None, **settings: Any) -> Path:
    """Make a release in this process, as the command `equistrata release` does. A Prefect server is not needed.

    Parameters
    ----------
    config : str, Path or None, default=None
        A YAML file with settings.
    **settings : object
        The options of `equistrata release --help`, for example `epsilon=1`, `strata=["SEX"]` or `output="out"`. They
        take precedence over the file.

    Returns
    -------
    Path
        The folder of the release.

    Raises
    ------
    InputError
        If a setting is invalid. In this case nothing was charged or written.
    LedgerError, BudgetExceeded
        If the ledger refuses the charge.

    Privacy
    -------
    The cost is the (ε, δ) of the settings. It is charged to the ledger if a data set is given, and it is stated on the
    release card.
    """
    from equistrata.flows.cli.release import configured, prepared, run_release

    resolved = configured(config, settings)
    prepared(resolved)
    return run_release(resolved)


def audit(*releases: str | Path, **settings: Any) -> Path:
    """Audit releases against their private rows, as the command `equistrata audit` does.

    Parameters
    ----------
    *releases : str or Path
        The folders of the releases. The first release is compared with each of the others.
    **settings : object
        The options of `equistrata audit --help`. If `mode` is "internal", the numbers are exact and must not be
        published. If it is "public", they are noisy and cost `epsilon` and `delta`.

    Returns
    -------
    Path
        The folder with the report.

    Raises
    ------
    InputError
        If a setting is invalid, or if the rows are not the rows of the releases.
    """
    from equistrata.flows.audit.plan import AuditPlan
    from equistrata.flows.audit.steps import place
    from equistrata.flows.cli.audit import run_audit
    from equistrata.flows.config.audit import AuditConfig

    resolved = AuditConfig.build(**settings, releases=tuple(map(str, releases)))
    with place(AuditPlan.of(resolved)):  # report all errors that can be found without the rows before Prefect starts
        pass
    return run_audit(resolved)


def publish(release: str | Path, destination: str | Path) -> Published:
    """Copy the files of a release to a new folder or a new `.zip` file.

    Only the files in the manifest of the release are copied. Each file is compared with its SHA-256 hash.

    Parameters
    ----------
    release : str or Path
        The folder of the release.
    destination : str or Path
        The new folder or the new file.

    Returns
    -------
    Published
        A summary of the published files.

    Raises
    ------
    InputError
        If the destination cannot be created, or if the release is seeded, incomplete or edited.
    """
    from equistrata.flows.publication.publish import publish_release

    return publish_release(Path(release), Path(destination))
