"""The public functions of `equistrata`, for programs and notebooks: the commands of these names, and a few more."""

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
    """Code the rows of a file or a data frame as the schema declares.

    Args:
        table: a file, as CSV or Parquet, or a data frame; None for the simulated sample that comes with
            equistrata.
        schema: a schema, its file, or the name of a built-in one. Its default columns are read.

    Raises:
        InputError: the table cannot be read, lacks a column, or holds a value that is not declared. No value is quoted.
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
    """The ratio of two sums, privately, with an interval.

    Args:
        numerator, denominator: shape (n,), in [0, 1]; the denominator is 0 or 1 unless `binary=False`.
        weights: design weights with their declared bound; None for 1 each.
        noise: secure noise unless another is given.
        settings: the others of `equistrata.inference.ratios.ratio.RatioSettings`, as `mechanism`, `log` or `level`.

    Raises:
        InputError: a setting out of its range, or numbers missing or out of their bounds.

    Cost: (ε, δ)-DP, add-remove. See docs/proofs/ratio.md.
    """
    from equistrata.inference.ratios.ratio import RatioSettings, private_ratio
    from equistrata.privacy.noise import SecureNoise

    source = SecureNoise() if noise is None else noise
    return private_ratio(numerator, denominator, RatioSettings(epsilon, delta, **settings), source, weights)


def plan(column: str | None = None, **settings: Any) -> dict[str, Any]:
    """What can be read in each stratum at which ε, from public numbers alone: what `equistrata plan --json` prints.

    Args:
        column: a numeric column plans its mean; a categorical one, or none, a proportion. None with `synthesizer`,
            which plans a synthesis.
        settings: the options of `equistrata plan --help`, as `strata=["SEX"]`, `epsilon=0.5`, `relative_error=0.1`.

    Raises:
        InputError: a setting out of its range.

    Cost: none, no row is read.
    """
    from equistrata.flows.cli.planning.plan import plan_document
    from equistrata.flows.cli.planning.settings import PlanSettings

    return plan_document(PlanSettings.build(column=column, **settings))


def release(config: str | Path | None = None, **settings: Any) -> Path:
    """Make a release in this process, as `equistrata release` does; no Prefect server is needed. Returns its folder.

    Args:
        config: a YAML file with settings.
        settings: the options of `equistrata release --help`, as `epsilon=1, strata=["SEX"], output="out"`; they win.

    Raises:
        InputError: a setting is wrong; nothing was charged or written.
        LedgerError, BudgetExceeded: the ledger refuses.

    Cost: the (ε, δ) of the settings, charged to the ledger if one is named; the card says it.
    """
    from equistrata.flows.cli.release import configured, prepared, run_release

    resolved = configured(config, settings)
    prepared(resolved)
    return run_release(resolved)


def audit(*releases: str | Path, **settings: Any) -> Path:
    """Audit releases against their private rows, as `equistrata audit` does. Returns the folder with the report.

    Args:
        releases: their folders; the first is compared with each other.
        settings: the options of `equistrata audit --help`; `mode` is "internal" (exact numbers, not to be published) or
            "public" (noisy, and paid for with `epsilon` and `delta`).

    Raises:
        InputError: a setting is wrong, or the rows are not those of the releases.
    """
    from equistrata.flows.audit.plan import AuditPlan
    from equistrata.flows.audit.steps import place
    from equistrata.flows.cli.audit import run_audit
    from equistrata.flows.config.audit import AuditConfig

    resolved = AuditConfig.build(**settings, releases=tuple(map(str, releases)))
    with place(AuditPlan.of(resolved)):  # all that can be wrong without the rows is said before Prefect starts
        pass
    return run_audit(resolved)


def publish(release: str | Path, destination: str | Path) -> Published:
    """Copy what a release's manifest lists, each file held against its SHA-256, into a new folder, or a new `.zip`.

    Raises:
        InputError: the destination cannot be made, or the release is seeded, incomplete or edited.
    """
    from equistrata.flows.publication.publish import publish_release

    return publish_release(Path(release), Path(destination))
