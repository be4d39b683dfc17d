"""Tests of the privacy cost of a public audit, which is recorded and compared with the charges."""

from dataclasses import replace

import numpy as np
import pytest
from audit_fixtures import SCHEMA, STRATA, Fixed, people
from recorder import made_twice

import equistrata.eval.audit.public
import equistrata.eval.audit.sections
import equistrata.privacy.noise
from equistrata.data.table import CodedTable
from equistrata.eval.audit.means import measured_rows, sizes_section
from equistrata.eval.audit.public import public_audits
from equistrata.privacy.budget import Budget, Rho

RHO = Rho(0.5)
ROWS, OTHERS = people((300, 60, 4), 1), people((100, 40, 3), 2)
ROW = np.array([[2, 1, 2, 0]], dtype=np.uint8)
BOTH = ROWS, CodedTable(np.vstack([ROWS.codes, ROW]), SCHEMA)


def audited(rows, noise, releases=1, classifier=True):
    """Return audits of one or more releases in the published form."""
    made = {f"release {i}": OTHERS.take(np.arange(len(OTHERS)) >= i) for i in range(releases)}
    classifiers = {name: Fixed() for name in made} if classifier else {}
    audits = public_audits(rows, made, STRATA, budget=Budget(RHO), noise=noise, classifiers=classifiers, degree=2)
    return {name: audit.to_dict() for name, audit in audits.items()}


@pytest.mark.parametrize("classifier", [True, False])
@pytest.mark.parametrize("releases", [1, 2])
def test_an_audit_costs_its_price(tmp_path, releases, classifier):
    found = made_twice(lambda rows, noise: audited(rows, noise, releases, classifier), *BOTH, tmp_path)
    assert found.keeps(RHO)
    assert found.pure


def test_noise_too_small_by_a_tenth_is_caught(monkeypatch, tmp_path):
    honest = equistrata.privacy.noise.gaussian_sigma
    monkeypatch.setattr(equistrata.privacy.noise, "gaussian_sigma", lambda *price: 0.9 * honest(*price))
    with pytest.raises(AssertionError, match="costs"):
        made_twice(audited, *BOTH, tmp_path)


def test_sizes_that_are_not_charged_are_caught(monkeypatch, tmp_path):
    """Each release measures the sizes again, but they are charged only once."""
    honest = equistrata.eval.audit.public._audit

    def audit(subject, budgets, noise, measured):
        rows = subject.private
        again = measured_rows(rows.table, rows.grouping, Budget(budgets["sizes"].total), noise.spawn(99))
        own = {**measured, "sizes": sizes_section(again)}
        return honest(replace(subject, private=again), budgets, noise, own)

    monkeypatch.setattr(equistrata.eval.audit.public, "_audit", audit)
    found = made_twice(audited, *BOTH, tmp_path)
    assert found.pure
    assert found.claimed > float(RHO) * 1.1
    assert not found.keeps(RHO)


def test_a_distance_of_another_sensitivity_is_caught(monkeypatch, tmp_path):
    """The sensitivity is equal to two if the first row is different from all of the synthetic rows."""
    monkeypatch.setattr(equistrata.eval.audit.sections, "SENSITIVITY", 1.0)
    first = CodedTable(np.zeros((0, 4), dtype=np.uint8), SCHEMA), CodedTable(ROW, SCHEMA)
    monkeypatch.setitem(globals(), "OTHERS", CodedTable(np.zeros((5, 4), dtype=np.uint8), SCHEMA))
    with pytest.raises(AssertionError, match=r"moves by"):
        made_twice(lambda rows, noise: audited(rows, noise, classifier=False), *first, tmp_path)


def test_an_exact_number_is_caught(tmp_path):
    found = made_twice(lambda rows, noise: audited(rows, noise) | {"rows": len(rows)}, *BOTH, tmp_path)
    assert found.keeps(RHO)
    assert not found.pure
