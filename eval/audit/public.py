"""The public audit: how well a release serves each stratum, in noisy numbers with intervals, each charged to a budget.

`PublicAudit` holds `NoisyNumber`s only, which cannot be made without a width. Exact numbers have a type of their own
(`equistrata.eval.audit.internal`).

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
    ByStratum,
    Grouping,
    Measured,
    NoisyNumber,
    SectionNumbers,
    Subject,
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
OF_ROWS = ("sizes", "means")  # about private rows alone, so that one measurement serves every release of them
SECTIONS: Mapping[str, Callable[[Subject, Budget, NoiseSource], SectionNumbers]] = {
    "calibration": calibration_section,
    "rates": rates_section,
    "workload": workload_section,
}  # about one release each
OF_CLASSIFIER = ("calibration", "rates")
PLAIN_FIELDS = ("relation", "private", "noise", "level", "classifier", "target", "positive")
NOISY_FIELDS = ("sizes", "means", "calibration", *RATES, "workload_error", "measurements")


@dataclass(frozen=True)
class PublicAudit:
    """What may be published about a release: settings, prices, and noisy numbers. No field can hold an exact number.

    Strata go by their labels (`SEX=1,RAC1P=2`), every declared one, and `all` for the whole table.

    Attributes:
        rho, relation: what the audit cost in total, and the neighbouring relation.
        charges: section → ρ, in order; they add up to `rho`. Releases audited together share the sections `OF_ROWS`.
        private, noise: whether the noise source is fit for real releases, and its name.
        level: the intervals' nominal coverage.
        strata_columns: the columns that define strata.
        classifier, target, positive: what was trained on the synthetic rows; empty without a target.
        sizes: stratum → number of rows.
        means: column → stratum → mean, each code counting as `equistrata.eval.scores.tables.numbers_of` says.
        calibration: stratum → Σ predicted probability / Σ positive rows; 1 is calibrated, above 1 promises too much.
        accuracy, selection_rate: stratum → share of rows predicted right; predicted positive.
        false_negative_rate: stratum → share of its positive rows that are predicted negative.
        workload_error: stratum → workload error, in [0, 2]; `all` over all columns, a stratum over those that define
            none; a stratum without synthetic rows has none (it counts as 2). The interval is for the rows at hand: it
            allows for noise, not for sampling.
        measurements: section → stratum → name → the noisy sum or count behind all of the above, with the interval of
            its noise alone.
        synthetic: what a report shows of the synthetic rows, which are public. Not in `to_dict`.

    Raises:
        TypeError: a number from private rows is not a `NoisyNumber`.
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
        """The same, with prices of a unit, under its relation: so many times those of one row that is added."""
        charges = tuple((name, rho * times) for name, rho in self.charges)
        return replace(self, rho=self.rho * times, charges=charges, relation=relation)

    def to_dict(self) -> dict[str, Any]:
        """For `audit.json`: plain numbers, texts and mappings."""
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
    """Audit one release in public: `public_audits` of it, with its settings, errors and cost."""
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
    """Audit several releases of the same rows in public.

    What is about the private rows alone (`OF_ROWS`) is measured once, so all releases are compared with the same noisy
    means and pay for them together. Each of the other sections is split equally among the releases.

    Args:
        private: the rows that the releases were made from (or rows held out of it), coded by the releases' schema.
        synthetic: release → its rows, coded; at least one release, and a row of each.
        strata: over the same schema.
        budget: all that is left of it is spent. An amount of ρ stands for a budget of it.
        noise: where the noise comes from.
        classifiers: release → classifier, for each; by default a random forest trained on its rows
            (`train_classifier`).
        target: the column that it predicts; by default the schema's. Without either, the shares of the classifier's
            sections go to the others.
        level: nominal coverage of every interval, in (0, 1), each by itself.
        shares: section → its part of the ρ, in any unit, each positive.
        degree: of the workload's marginals.
        alike: the most rows of a unit. They are sampled together and may be alike, so intervals have up to so many
            times the sampling variance of single rows (docs/proofs/units.md).

    Returns:
        Release → its audit, with the `rho` of its own numbers; together they cost what was spent of `budget`. Every
        interval but those of the workload error covers the *population's* mean, rate or ratio, of which the stratum's
        rows are a sample (coverage measured in docs/audit.md). A number below the noise floor keeps its interval.

    Raises:
        InputError: tables and strata of different schemas, no release or one without a row, a setting out of its range,
            or an empty budget.

    Cost: ρ-zCDP for all audits together, with ρ what was left of `budget`, adding or removing one row, on top of the
    releases' own cost. See docs/proofs/audit.md.
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
        subject = Subject(rows, table, classifiers.get(name), degree)
        source = noise if place == 0 else noise.spawn(len(SECTION_SHARES) + place)
        audits[name] = _audit(subject, paying[name], source, measured)
    return audits


def _audit(
    subject: Subject, budgets: Mapping[str, Budget], noise: NoiseSource, measured: Mapping[str, SectionNumbers]
) -> PublicAudit:
    """The audit of one release: what is measured already, and its own sections, from budgets that are charged."""
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
    """A field of noisy numbers for JSON. Raises TypeError on a number of another type."""
    if isinstance(tree, Mapping):
        return {str(key): _plain(branch, name) for key, branch in tree.items()}
    if not isinstance(tree, NoisyNumber):
        found = type(tree).__name__
        raise TypeError(f"{name} of a public audit holds {found}, but only noisy numbers may be published")
    return tree.to_dict()
