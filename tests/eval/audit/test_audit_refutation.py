"""Tests that try to refute the privacy guarantee of the whole document of a public audit.

The neighbouring tables have no row and one row, which changes each section by its full sensitivity. The test statistic
is the likelihood ratio of the noisy sums, which is the most powerful statistic because all other published numbers are
functions of the sums.
"""

from __future__ import annotations

import numpy as np
import pytest
from audit_fixtures import SCHEMA, STRATA, Fixed
from no_noise import NoNoise
from refutation import HalvedNoise, empirical_epsilon

from equistrata.data.table import CodedTable
from equistrata.eval.audit.public import SECTION_SHARES, public_audit
from equistrata.inference.ratios.design import PricedDesign
from equistrata.privacy.budget import BudgetExceeded, Rho
from equistrata.privacy.noise import SeededNoise

RUNS = 1500
DELTA = 0.05
RHO = Rho(0.5)
SYNTHETIC = CodedTable(np.array([[g, 0, 0, 0] for g in range(3)], dtype=np.uint8), SCHEMA)
NOBODY = CodedTable(np.zeros((0, 4), dtype=np.uint8), SCHEMA)
SOMEBODY = CodedTable(np.array([[1, 1, 2, 1]], dtype=np.uint8), SCHEMA)


def document(rows, noise):
    return public_audit(rows, SYNTHETIC, STRATA, budget=RHO, noise=noise, classifier=Fixed()).to_dict()


def sums(found):
    """Return the independent noisy numbers of each section and their standard deviations."""
    measured: dict[str, list[tuple[float, float]]] = {section: [] for section in SECTION_SHARES}
    for name, strata in found["measurements"].items():
        section = "means" if name.startswith("mean of") else name
        for numbers in strata.values():
            values = np.array([number["value"] for number in numbers.values()])
            spread = np.array([(n["upper"] - n["lower"]) / 2 / 1.959964 for n in numbers.values()])
            if section == "calibration":
                price = PricedDesign.of_rho(found["charges"]["calibration"], weighted=False, binary=True)
                values, spread = price.design.axes @ values, np.full(len(values), price.deviation)
            measured[section] += zip(values.tolist(), spread.tolist(), strict=True)
    return {section: np.array(pairs) for section, pairs in measured.items()}


def bound(fault=False):
    """Return the empirical ε of the document. If `fault` is True, the noise is half as large."""
    before, after = (sums(document(rows, NoNoise())) for rows in (NOBODY, SOMEBODY))
    change = {s: (after[s][:, 0] - before[s][:, 0]) / before[s][:, 1] ** 2 for s in SECTION_SHARES}
    sides = []
    for start, rows in ((0, NOBODY), (RUNS, SOMEBODY)):
        noises = (HalvedNoise(SeededNoise(i)) if fault else SeededNoise(i) for i in range(start, start + RUNS))
        found = (sums(document(rows, noise)) for noise in noises)
        sides.append(np.array([sum(change[s] @ pairs[:, 0] for s, pairs in each.items()) for each in found]))
    return empirical_epsilon(*sides, DELTA)


@pytest.mark.slow
def test_the_claim_stands_and_halved_noise_is_caught():
    assert bound() <= RHO.epsilon(DELTA) < bound(fault=True)


def test_the_row_moves_every_section_by_its_full_sensitivity():
    """The sum of (change/deviation)² must be equal to 2ρ, so that the test has the highest power.

    If a column has three values, a tenth of the value of ρ is used for the squares. The squares are not published.
    """
    before, after = (sums(document(rows, NoNoise())) for rows in (NOBODY, SOMEBODY))
    for section, share in SECTION_SHARES.items():
        moved = (after[section][:, 0] - before[section][:, 0]) / before[section][:, 1]
        part = float(RHO) * share / sum(SECTION_SHARES.values())
        assert 0.9 * part < (moved**2).sum() / 2 < 1.001 * part, section


def test_sections_that_each_take_the_whole_amount_are_refused(monkeypatch):
    """The sections use the same rows, so parallel composition is not valid and the costs must be added."""
    monkeypatch.setattr(Rho, "split", lambda self, shares: [self] * len(shares))
    with pytest.raises(BudgetExceeded):
        document(SOMEBODY, SeededNoise(0))
