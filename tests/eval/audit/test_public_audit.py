"""Tests of the public audit. The tests check the values without noise, the privacy cost and the types, and that there
are no exact numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import numpy as np
import pytest
from audit_fixtures import SCHEMA, STRATA, Fixed, people
from no_noise import NoNoise
from score_fixtures import coded_frame

import equistrata.eval.audit.public
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.eval.audit.internal import InternalAudit, internal_audit
from equistrata.eval.audit.noisy_number import TOO_SMALL, TOO_WIDE, NoisyNumber
from equistrata.eval.audit.public import SECTION_SHARES, PublicAudit, public_audit
from equistrata.eval.scores.tables import Pair
from equistrata.eval.scores.workload import workload_by_stratum, workload_error
from equistrata.privacy.budget import ADD_REMOVE, Budget, BudgetExceeded, Rho
from equistrata.privacy.noise import SecureNoise, SeededNoise

PRIVATE, SYNTHETIC = people((900, 300, 30), 1), people((500, 400, 100), 2)
OTHER = people((800, 350, 60), 7)


def audit(private=PRIVATE, synthetic=SYNTHETIC, strata=STRATA, *, budget=0.5, noise=None, **settings):
    noise = SeededNoise(0) if noise is None else noise
    return public_audit(private, synthetic, strata, budget=budget, noise=noise, classifier=Fixed(), **settings)


def test_without_noise_its_values_are_the_exact_ones():
    found = audit(noise=NoNoise())
    exact = internal_audit(PRIVATE, SYNTHETIC, STRATA, classifier=Fixed(), min_share=0.0)
    assert {label: number.value for label, number in found.sizes.items()} == dict(exact.sizes) | {"all": 1230}
    real = coded_frame(PRIVATE)
    for column in ("A", "B", "Y"):
        assert found.means[column]["all"].value == pytest.approx(real[column].mean(), abs=1e-6)
        for group, rows in real.groupby("G"):
            label = f"G={'xyz'[int(group)]}"
            assert found.means[column][label].value == pytest.approx(rows[column].mean(), abs=1e-6)
    for label, ratio in exact.calibration.items():
        assert found.calibration[label].value == pytest.approx(ratio, abs=1e-6)
    assert exact.fairness is not None
    for name, rates in (
        ("accuracy", exact.fairness.accuracy_by_stratum),
        ("selection_rate", exact.fairness.selection_rate),
        ("false_negative_rate", exact.fairness.false_negative_rate),
    ):
        for label, rate in rates.items():
            assert getattr(found, name)[label].value == pytest.approx(rate)
    assert found.accuracy["all"].value == pytest.approx(exact.fairness.accuracy)
    pair = Pair.of(PRIVATE, SYNTHETIC, ["G"], min_share=0.0)
    assert found.workload_error["all"].value == pytest.approx(workload_error(pair))
    within = workload_by_stratum(pair)
    assert within == pytest.approx(
        {label: number.value for label, number in found.workload_error.items() if label != "all"}
    )


def test_four_alike_of_each_person_say_as_much_as_one():
    """The rows are repeated four times, and each unit has four rows. The intervals for the
    population must not change.
    """
    four = PRIVATE.take(np.repeat(np.arange(len(PRIVATE)), 4))
    once, units = audit(noise=NoNoise()), audit(four, budget=0.5 / 16, noise=NoNoise(), alike=4)
    as_rows = audit(four, budget=0.5 / 16, noise=NoNoise())
    for found in ("means", "calibration", "accuracy", "selection_rate", "false_negative_rate"):
        one, same, other = (getattr(each, found) for each in (once, units, as_rows))
        for label in ["G=x", "all"] if found != "means" else []:
            assert (same[label].lower, same[label].upper) == pytest.approx(
                (one[label].lower, one[label].upper), rel=0.02
            )
            assert other[label].upper - other[label].lower < 0.9 * (one[label].upper - one[label].lower)
        for column in one if found == "means" else ():
            ends = [(each[column]["all"].lower, each[column]["all"].upper) for each in (one, same, other)]
            assert ends[1] == pytest.approx(ends[0], rel=0.02)
            assert ends[2][1] - ends[2][0] < 0.9 * (ends[0][1] - ends[0][0])


def test_it_spends_what_is_left_of_a_budget_section_by_section():
    budget = Budget(Rho(1))
    budget.spend(Rho(0.25), "release")
    found = audit(budget=budget)
    assert budget.remaining == Rho(0)
    assert [what for what, _ in budget.entries] == ["release", *(f"audit: {section}" for section in SECTION_SHARES)]
    assert found.rho == Rho(0.75) == sum((rho for _, rho in found.charges), start=Rho(0))
    assert {section: float(rho) for section, rho in found.charges} == pytest.approx(
        {section: 0.75 * share for section, share in SECTION_SHARES.items()}
    )
    assert found.relation == ADD_REMOVE
    with pytest.raises(InputError, match="nothing is left"):
        audit(budget=budget)


def test_it_is_charged_before_a_row_is_looked_at():
    class Spent(Budget):
        def spend(self, rho, what):
            raise BudgetExceeded(rho, Rho(0), what)

    class Unread(CodedTable):
        def column(self, name):
            raise AssertionError("a row was looked at")

        def index_of(self, names):
            raise AssertionError("a row was looked at")

    with pytest.raises(BudgetExceeded):
        audit(private=Unread(PRIVATE.codes, SCHEMA), budget=Spent(Rho(1)))


def test_shares_are_the_callers():
    shares = dict.fromkeys(SECTION_SHARES, 1) | {"means": 6}
    found = dict(audit(shares=shares).charges)
    assert float(found["means"]) == pytest.approx(0.3)
    assert float(found["rates"]) == pytest.approx(0.05)


def test_without_a_target_the_classifiers_shares_go_to_the_others():
    schema = SCHEMA.select(["G", "A", "B"])
    tables = (table.select(["G", "A", "B"]) for table in (PRIVATE, SYNTHETIC))
    found = public_audit(*tables, Strata.over(schema, ["G"]), budget=0.5, noise=SeededNoise(0))
    assert [section for section, _ in found.charges] == ["sizes", "means", "workload"]
    assert found.rho == Rho(0.5)
    assert found.classifier == found.target == ""
    assert not found.calibration
    assert not found.accuracy
    assert set(found.means) == {"A", "B"}


def test_noise_has_the_deviations_that_the_prices_buy():
    """The test uses 150 audits. The standard error of a standard deviation is 5.8 %, and the tolerance is four standard
    errors.
    """
    draws = [audit(noise=SeededNoise(i)) for i in range(150)]
    price = {section: float(rho) for section, rho in draws[0].charges}

    def spread(section, label, name):
        numbers = [draw.measurements[section][label][name] for draw in draws]
        stated = (numbers[0].upper - numbers[0].lower) / 2 / 1.959964
        assert np.std([number.value for number in numbers]) == pytest.approx(stated, rel=0.23)
        return stated

    assert spread("sizes", "G=x", "rows") == pytest.approx(1 / math.sqrt(2 * price["sizes"]), rel=1e-5)
    assert spread("rates", "G=z", "true positives") == pytest.approx(1 / math.sqrt(2 * price["rates"]), rel=1e-5)
    assert spread("workload", "all", "distance") == pytest.approx(2 / math.sqrt(price["workload"]), rel=1e-5)
    assert spread("workload", "G=y", "distance") == pytest.approx(2 / math.sqrt(price["workload"]), rel=1e-5)
    # Each column has a third of the ρ of the section. If a column has three values, a tenth is used for the squares.
    assert spread("mean of A", "G=x", "sum about the middle") == pytest.approx(
        0.5 / math.sqrt(2 * price["means"] / 3), rel=0.01
    )
    assert spread("mean of B", "G=x", "sum about the middle") == pytest.approx(
        1 / math.sqrt(1.8 * price["means"] / 3), rel=0.01
    )
    spread("calibration", "G=x", "ws")


@pytest.mark.slow
def test_workload_intervals_hold_the_error_of_the_rows_at_hand():
    """The test uses 300 intervals. The number of intervals that cover the exact value must be between 268 and 298. The
    probability of a false alarm is 10⁻⁴.

    For a small stratum, more intervals may cover the value.
    """
    exact = {label: number.value for label, number in audit(noise=NoNoise()).workload_error.items()}
    made = [audit(budget=0.05, noise=SeededNoise(i)).workload_error for i in range(300)]
    for label, least, most in (("all", 268, 298), ("G=x", 268, 298), ("G=z", 262, 300)):
        assert least <= sum(each[label].lower <= exact[label] <= each[label].upper for each in made) <= most


def test_one_stratum():
    strata = Strata.over(SCHEMA, [])
    found = audit(strata=strata)
    assert set(found.sizes) == set(found.accuracy) == set(found.workload_error) == {"all"}
    assert set(found.means) == {"G", "A", "B", "Y"}
    assert found.rho == Rho(0.5)


def test_every_declared_stratum_is_there_also_where_nobody_is():
    found = audit(private=people((50, 0, 0)))
    for table in (found.sizes, found.calibration, found.accuracy, found.means["B"]):
        assert set(table) == {"G=x", "G=y", "G=z", "all"}
    nobody = audit(private=PRIVATE.take(np.zeros(0, dtype=int)))
    assert nobody.calibration["all"].note
    assert nobody.accuracy["all"].note


def test_strata_that_the_release_lost_are_named_and_not_measured():
    found = audit(synthetic=people((500, 400, 0)))
    assert found.to_dict()["without_synthetic_rows"] == ["G=z"]
    assert set(found.workload_error) == {"G=x", "G=y", "all"}


def test_small_strata_say_that_they_say_nothing():
    found = audit(budget=0.001)
    notes = found.to_dict()["calibration"]["G=z"]["note"], found.to_dict()["accuracy"]["G=z"]["note"]
    assert set(notes) <= {TOO_SMALL, TOO_WIDE}
    plain = audit(budget=5.0)
    assert not plain.calibration["G=x"].note
    assert "note" not in plain.to_dict()["accuracy"]["G=x"]


@pytest.mark.parametrize(
    ("number", "note"),
    [
        (NoisyNumber(2.0, 0.0, 4.0), ""),
        (NoisyNumber(1.9, 0.0, 4.0), TOO_SMALL),
        (NoisyNumber(-2.0, -3.0, 0.0), ""),
        (NoisyNumber(None, 0.0, 4.0), TOO_SMALL),
        (NoisyNumber(2.0, 0.0, math.inf), TOO_SMALL),
        (NoisyNumber(0.9, 0.5, 1.0, possible=1.0), ""),
        (NoisyNumber(0.9, 0.4, 1.0, possible=1.0), TOO_WIDE),
    ],
)
def test_notes(number, note):
    assert number.note == note
    assert number.to_dict().get("note", "") == note


@pytest.mark.parametrize(
    "numbers", [(1.0, 1.0, 1.0), (0.0, 1.0, 2.0), (3.0, 1.0, 2.0), (math.nan, 0, 1), (0.0, -math.inf, 1)]
)
def test_a_noisy_number_cannot_be_exact_or_odd(numbers):
    with pytest.raises(ValueError, match="noisy number"):
        NoisyNumber(*numbers)


def test_an_audit_cannot_hold_what_is_not_noisy():
    found = audit()
    fields = {name: getattr(found, name) for name in found.__dataclass_fields__}
    assert PublicAudit(**fields).to_dict() == found.to_dict()
    for wrong in (
        {"accuracy": {"G=x": 0.75}},
        {"means": {"A": {"G=x": 1.5}}},
        {"measurements": {"rates": {"G=x": {"tp": 3}}}},
    ):
        with pytest.raises(TypeError, match="only noisy numbers"):
            PublicAudit(**fields | wrong)
    with pytest.raises(TypeError):
        PublicAudit(**fields, exact=0.75)
    with pytest.raises(AttributeError):
        found.accuracy = {}


def test_the_two_kinds_of_audit_are_strangers():
    internal = internal_audit(PRIVATE, SYNTHETIC, STRATA, classifier=Fixed())
    assert {InternalAudit, PublicAudit}.isdisjoint([*InternalAudit.__mro__[1:], *PublicAudit.__mro__[1:]])
    assert (internal.to_dict()["mode"], audit().to_dict()["mode"]) == ("internal", "public")


def leaves(tree, path=()):
    if isinstance(tree, Mapping):
        for name, branch in tree.items():
            yield from leaves(branch, (*path, name))
    elif isinstance(tree, list):
        for i, branch in enumerate(tree):
            yield from leaves(branch, (*path, i))
    else:
        yield path, tree


def leaked(make):
    """Return the paths of numbers that do not depend on the noise but depend on the rows.

    Five seeds are used because integers can be equal by chance. The ends of declared ranges are ignored.
    """
    same, other = ([dict(leaves(make(rows, seed).to_dict())) for seed in range(5)] for rows in (PRIVATE, OTHER))
    ends = {0.0, 1.0, 2.0, None}
    constant = [path for path, leaf in same[0].items() if all(document.get(path) == leaf for document in same)]
    constant = [path for path in constant if path[-1] != "note"]  # a note is the reason why a number is too noisy
    return [p for p in constant if same[0][p] not in ends and any(d.get(p) != same[0][p] for d in other)]


@pytest.mark.parametrize("budget", [0.001, 0.5])
def test_every_number_that_depends_on_rows_depends_on_noise(budget):
    assert leaked(lambda rows, seed: audit(rows, budget=budget, noise=SeededNoise(seed))) == []


def test_that_test_sees_an_exact_number(monkeypatch):
    """The planted fault is the exact accuracy with a fake interval."""
    honest = equistrata.eval.audit.public.SECTIONS["rates"]

    def leaky(subject, *rest):
        shown, drawn = honest(subject, *rest)
        exact = float(np.mean(subject.predictions[1] == subject.predictions[0].selected))
        return {**shown, "accuracy": {"all": NoisyNumber(exact, 0.0, 1.0)}}, drawn

    monkeypatch.setitem(equistrata.eval.audit.public.SECTIONS, "rates", leaky)
    assert leaked(lambda rows, seed: audit(rows, noise=SeededNoise(seed))) == [("accuracy", "all", "value")]


def test_no_exact_number_of_the_private_rows_is_in_it():
    """Each number of the exact audit is searched with six digits in the document of the public audit."""
    exact = internal_audit(PRIVATE, SYNTHETIC, STRATA, classifier=Fixed(), published=audit(noise=NoNoise()).means)
    numbers = [n for path, n in leaves(exact.to_dict()) if {"lower", "upper"}.isdisjoint(path)]
    canaries = {f"{n:.6g}" for n in numbers if isinstance(n, float)}
    canaries = {text for text in canaries if len(text) > 6}  # ratios of small counts can be equal by chance
    assert len(canaries) > 40

    def found_in(document):
        return canaries & {f"{n:.6g}" for _, n in leaves(document) if isinstance(n, float)}

    assert found_in(audit(noise=SeededNoise(1)).to_dict()) == set()
    assert len(found_in(audit(noise=NoNoise()).to_dict())) >= 15  # the numbers are found if there is no noise


def test_json_has_no_nan():
    for budget in (1e-6, 0.5, 50.0):
        for rows in (PRIVATE, PRIVATE.take(np.zeros(0, dtype=int))):
            json.dumps(audit(rows, budget=budget).to_dict(), allow_nan=False)


def test_the_order_of_rows_does_not_matter_and_they_stay_as_they_were():
    shuffled = PRIVATE.take(np.random.default_rng(0).permutation(len(PRIVATE)))
    before = PRIVATE.codes.copy()
    assert audit(shuffled).to_dict() == audit().to_dict()
    assert np.array_equal(PRIVATE.codes, before)


def test_real_noise_is_marked():
    found = audit(noise=SecureNoise())
    assert found.private
    assert "OpenDP" in found.noise
    assert not audit().private


def test_it_trains_a_forest_of_its_own():
    found = public_audit(PRIVATE, SYNTHETIC, STRATA, budget=0.5, noise=SeededNoise(0))
    assert (found.classifier, found.target, found.positive) == ("random_forest", "Y", "1")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"synthetic": SYNTHETIC.take(np.zeros(0, dtype=int))}, "holds no rows"),
        ({"synthetic": SYNTHETIC.select(["G", "A", "B"])}, "different schemas"),
        ({"strata": Strata.over(Schema.load("acs_employment"), ["SEX"])}, "different schemas"),
        ({"level": 1.0}, "level is 1"),
        ({"budget": 0.0}, "nothing is left"),
        ({"shares": {"sizes": 1}}, "a positive share for each of"),
        ({"shares": dict(SECTION_SHARES) | {"means": 0}}, "a positive share for each of"),
        ({"degree": 0}, "degree is 0"),
    ],
)
def test_bad_settings_are_refused_without_a_charge(settings, sentence):
    budget = Budget(Rho.of(settings.pop("budget", 0.5)))
    with pytest.raises(InputError, match=sentence):
        audit(budget=budget, **settings)
    assert not budget.entries
