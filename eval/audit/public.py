"""The public audit, which measures how well a release serves each stratum.

The numbers are noisy, they have intervals, and each of them is charged to a budget. A `PublicAudit` contains only
`NoisyNumber` objects, which cannot be created without an interval of positive width. Exact numbers have a separate type
(see `equistrata.eval.audit.internal`).

>>> import numpy as np
>>> from equistrata.data.schema import Schema
>>> from equistrata.privacy.noise import SeededNoise
>>> schema = Schema.load("acs_employment").select(["SEX", "DIS", "MAR", "ESR"])
>>> rng = np.random.default_rng(0)
>>> rows = CodedTable(np.stack([rng.integers(0, size, 5000) for size in schema.sizes], axis=1).astype(np.uint8), schema)
>>> audit = public_audit(rows, rows, Strata.over(schema, ["SEX"]), budget=0.5, noise=SeededNoise(1), target="ESR")
>>> mean = audit.means["DIS"]["SEX=1"]
>>> round(mean.value, 2), round(mean.lower, 2), round(mean.upper, 2)
(1.5, 1.48, 1.51)
>>> [(section, round(float(rho), 3)) for section, rho in audit.charges]
[('sizes', 0.075), ('means', 0.175), ('calibration', 0.1), ('rates', 0.075), ('workload', 0.075)]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.eval.audit.means import means_section, measured_rows, sizes_section
from equistrata.eval.audit.noisy_number import (
    AuditedRelease,
    ByStratum,
    Grouping,
    Measured,
    NoisyNumber,
    SectionNumbers,
    SyntheticSummary,
    named,
)
from equistrata.eval.audit.sections import RATES, calibration_section, rates_section, workload_section
from equistrata.eval.scores.classifiers import Classifier, train_classifier
from equistrata.privacy.budget import ADD_REMOVE, Budget, Rho
from equistrata.privacy.noise import NoiseSource
from equistrata.stats.checks import share, whole

SECTION_SHARES: Mapping[str, float] = {
    "sizes": 0.15,
    "means": 0.35,
    "calibration": 0.2,
    "rates": 0.15,
    "workload": 0.15,
}
# These sections depend on the private rows only, so one measurement is used for all releases of the same rows.
OF_ROWS = ("sizes", "means")
SECTIONS: Mapping[str, Callable[[AuditedRelease, Budget, NoiseSource], SectionNumbers]] = {
    "calibration": calibration_section,
    "rates": rates_section,
    "workload": workload_section,
}  # each of these sections measures one release
OF_CLASSIFIER = ("calibration", "rates")
PLAIN_FIELDS = ("relation", "private", "noise", "level", "classifier", "target", "positive")
NOISY_FIELDS = ("sizes", "means", "calibration", *RATES, "workload_error", "measurements")


@dataclass(frozen=True)
class PublicAudit:
    """The results of a public audit: settings, privacy costs and noisy numbers. No field can contain an exact number.

    The mappings contain every declared stratum by its label (such as `SEX=1,RAC1P=2`), and the whole table as `all`.

    Attributes
    ----------
    rho : Rho
        The total privacy cost of the audit in zCDP.
    relation : str
        The neighbouring relation.
    charges : tuple of (str, Rho)
        The cost of each section, in order. The costs add up to `rho`. Releases that are audited together share the
        sections in `OF_ROWS`.
    private : bool
        If True, the noise source is suitable for real releases.
    noise : str
        The name of the noise source.
    level : float
        The nominal coverage of the intervals.
    strata_columns : tuple of str
        The columns that define the strata.
    classifier, target, positive : str
        The name of the classifier that was trained on the synthetic rows, the column that it predicts, and the positive
        value of that column. Empty if there is no target.
    sizes : mapping of str to NoisyNumber
        The number of private rows in each stratum.
    means : mapping of str to mapping of str to NoisyNumber
        The mean of each column in each stratum. The codes have the values that
        `equistrata.eval.scores.tables.numbers_of` returns.
    calibration : mapping of str to NoisyNumber
        The sum of the predicted probabilities divided by the number of positive rows, in each stratum. A ratio of 1
        means that the classifier is calibrated. If the ratio is larger than 1, the predicted probabilities are too
        high.
    accuracy : mapping of str to NoisyNumber
        The share of the rows that are predicted correctly.
    selection_rate : mapping of str to NoisyNumber
        The share of the rows that are predicted to be positive.
    false_negative_rate : mapping of str to NoisyNumber
        The share of the positive rows that are predicted to be negative.
    workload_error : mapping of str to NoisyNumber
        The workload error, in [0, 2]. The error for `all` is over all columns, and the error of a stratum is over the
        columns that define no strata. A stratum without synthetic rows has no entry; its error counts as 2. The
        interval accounts for the noise but not for sampling.
    measurements : mapping of str to mapping of str to mapping of str to NoisyNumber
        The noisy sums and counts from which the other numbers were computed, for each section and each stratum. Their
        intervals account for the noise only.
    synthetic : SyntheticSummary
        The numbers that a report shows of the synthetic rows, which are public. Not in `to_dict`.

    Raises
    ------
    TypeError
        If a number that was computed from private rows is not a `NoisyNumber`.
    """

    rho: Rho
    relation: str
    charges: tuple[tuple[str, Rho], ...]
    private: bool
    noise: str
    level: float
    strata_columns: tuple[str, ...]
    classifier: str
    target: str
    positive: str
    sizes: ByStratum
    means: Mapping[str, ByStratum]
    calibration: ByStratum
    accuracy: ByStratum
    selection_rate: ByStratum
    false_negative_rate: ByStratum
    workload_error: ByStratum
    measurements: Mapping[str, Measured]
    synthetic: SyntheticSummary

    def __post_init__(self) -> None:
        self.to_dict()

    def of_unit(self, times: int, relation: str) -> PublicAudit:
        """Return the audit with the privacy cost of a unit and the neighbouring relation of that unit.

        The cost of a unit is `times` the cost of adding or removing one row.
        """
        charges = tuple((name, rho * times) for name, rho in self.charges)
        return replace(self, rho=self.rho * times, charges=charges, relation=relation)

    def to_dict(self) -> dict[str, Any]:
        """Return the audit as a dictionary for `audit.json`."""
        return {
            "mode": "public",
            "rho": float(self.rho),
            "charges": {section: float(rho) for section, rho in self.charges},
            "strata_columns": list(self.strata_columns),
            "without_synthetic_rows": list(self.synthetic.lost),
            **{name: getattr(self, name) for name in PLAIN_FIELDS},
            **{name: _plain(getattr(self, name), name) for name in NOISY_FIELDS},
        }


def public_audit(
    private: CodedTable, synthetic: CodedTable, strata: Strata, *, classifier: Classifier | None = None, **settings: Any
) -> PublicAudit:
    """Audit one release with noisy numbers.

    The function calls `public_audits` with a single release. See there for the settings, the exceptions and the privacy
    cost.
    """
    classifiers = None if classifier is None else {"": classifier}
    return public_audits(private, {"": synthetic}, strata, classifiers=classifiers, **settings)[""]


def public_audits(
    private: CodedTable,
    synthetic: Mapping[str, CodedTable],
    strata: Strata,
    *,
    budget: Budget | Rho | float,
    noise: NoiseSource,
    classifiers: Mapping[str, Classifier] | None = None,
    target: str | None = None,
    level: float = 0.95,
    shares: Mapping[str, float] = SECTION_SHARES,
    degree: int = 3,
    alike: int = 1,
) -> dict[str, PublicAudit]:
    """Audit several releases of the same private rows with noisy numbers.

    The sections in `OF_ROWS` depend on the private rows only. They are measured once, so all releases are compared with
    the same noisy means and share the cost. The budget of each other section is split equally among the releases.

    Parameters
    ----------
    private : CodedTable
        The rows from which the releases were made, or rows that were held out from them. They are coded with the schema
        of the releases.
    synthetic : mapping of str to CodedTable
        The coded rows of each release. There is at least one release, and each release has at least one row.
    strata : Strata
        The strata, defined over the same schema.
    budget : Budget, Rho or float
        The privacy budget. The function spends all of the remaining budget. An amount of ρ is treated as a budget of
        that amount.
    noise : NoiseSource
        The source of the noise.
    classifiers : mapping of str to Classifier, optional
        The classifier for each release. By default, a random forest is trained on the rows of each release (see
        `train_classifier`).
    target : str, optional
        The column that the classifiers predict. By default, this is the target of the schema. If there is no target,
        the budget of the classifier sections is given to the other sections.
    level : float, default=0.95
        The nominal coverage of each single interval, in (0, 1).
    shares : mapping of str to float, default=SECTION_SHARES
        The share of the budget for each section. The shares are positive and need not add up to 1.
    degree : int, default=3
        The number of columns in each marginal of the workload.
    alike : int, default=1
        The largest number of rows of a unit. These rows are sampled together and may be equal, so the intervals allow
        for a sampling variance that is up to `alike` times as large (see docs/proofs/units.md).

    Returns
    -------
    dict of str to PublicAudit
        The audit of each release. The `rho` of an audit is the cost of the numbers in that audit. All audits together
        cost the amount that was spent from `budget`. Every interval covers the mean, rate or ratio of the *population*
        from which the rows of the stratum were sampled (the measured coverage is in docs/audit.md). The only exceptions
        are the intervals of the workload error. A number below the noise floor is returned with its interval.

    Raises
    ------
    InputError
        If the tables and the strata have different schemas, if there is no release or a release has no rows, if a
        setting is out of its range, or if the budget is empty.

    Privacy
    -------
    ρ-zCDP for all audits together under adding or removing one row, where ρ is the remaining amount of `budget`. This
    cost is in addition to the cost of the releases. See docs/proofs/audit.md.
    """
    if not synthetic:
        raise InputError("no release is given; name at least one")
    for table in synthetic.values():
        _check(private, table, strata, level, shares, degree)
    whole("alike", alike, 1)
    spend = Budget.of(budget)
    if not spend.remaining:
        raise InputError("nothing is left of the audit's budget; give it a positive amount")
    if classifiers is None:
        predicting = {name: table for name, table in synthetic.items() if target or table.schema.target}
        classifiers = {name: train_classifier(table, target) for name, table in predicting.items()}
    sections = [name for name in SECTION_SHARES if classifiers or name not in OF_CLASSIFIER]
    paying: dict[str, dict[str, Budget]] = {name: {} for name in synthetic}
    for section, rho in zip(sections, spend.remaining.split([shares[name] for name in sections]), strict=True):
        if section in OF_ROWS:
            shared = spend.part(rho, f"audit: {section}")
            for budgets in paying.values():
                budgets[section] = shared
        else:
            for (name, budgets), part in zip(paying.items(), rho.split([1] * len(paying)), strict=True):
                budgets[section] = spend.part(part, f"audit: {section}{f' of {name}' if name else ''}")
    of_rows = next(iter(paying.values()))
    rows = measured_rows(private, Grouping(strata, float(level), alike), of_rows["sizes"], noise.spawn(0))
    measured = {"sizes": sizes_section(rows), "means": means_section(rows, of_rows["means"], noise.spawn(1))}
    audits = {}
    for place, (name, table) in enumerate(synthetic.items()):
        subject = AuditedRelease(rows, table, classifiers.get(name), degree)
        source = noise if place == 0 else noise.spawn(len(SECTION_SHARES) + place)
        audits[name] = _audit(subject, paying[name], source, measured)
    return audits


def _audit(
    subject: AuditedRelease, budgets: Mapping[str, Budget], noise: NoiseSource, measured: Mapping[str, SectionNumbers]
) -> PublicAudit:
    """Audit one release. The shared sections were already measured, and the other sections are measured here."""
    grouping, answers = subject.private.grouping, dict(measured)
    for stream, section in enumerate(SECTION_SHARES):
        if section in SECTIONS and (subject.classifier or section not in OF_CLASSIFIER):
            answers[section] = SECTIONS[section](subject, budgets[section], noise.spawn(stream))
    shown: dict[str, Any] = {name: {} for name in ("calibration", *RATES)}
    for name, (numbers, _) in answers.items():
        shown |= {"means": numbers} if name == "means" else numbers
    return PublicAudit(
        rho=sum((budget.total for budget in budgets.values()), start=Rho(0)),
        relation=ADD_REMOVE,
        charges=tuple((section, budget.total) for section, budget in budgets.items()),
        private=noise.private,
        noise=noise.name,
        level=grouping.level,
        strata_columns=grouping.strata.columns,
        measurements={name: sums for _, drawn in answers.values() for name, sums in drawn.items()},
        synthetic=SyntheticSummary.of(subject.synthetic, grouping),
        **named(subject.classifier),
        **shown,
    )


def _check(
    private: CodedTable, synthetic: CodedTable, strata: Strata, level: float, shares: Mapping[str, float], degree: int
) -> None:
    declared = [(schema.names, schema.sizes) for schema in (private.schema, synthetic.schema, strata.schema)]
    if not declared[0] == declared[1] == declared[2]:
        raise InputError(
            "the private table, the synthetic table and the strata are of different schemas; code all by one"
        )
    if not len(synthetic):
        raise InputError("the synthetic table holds no rows; give a table with at least one row")
    share("level", level)
    if degree < 1:
        raise InputError(f"degree is {degree}, but a marginal has at least one column; correct it")
    if set(shares) != set(SECTION_SHARES) or not all(0 < part < float("inf") for part in shares.values()):
        raise InputError(
            f"an audit needs a positive share for each of {', '.join(SECTION_SHARES)}, and for nothing else"
        )


def _plain(tree: object, name: str) -> Any:
    """Convert a field of noisy numbers for JSON. Raise TypeError if a number has another type."""
    if isinstance(tree, Mapping):
        return {str(key): _plain(branch, name) for key, branch in tree.items()}
    if not isinstance(tree, NoisyNumber):
        found = type(tree).__name__
        raise TypeError(f"{name} of a public audit holds {found}, but only noisy numbers may be published")
    return tree.to_dict()
