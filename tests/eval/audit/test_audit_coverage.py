"""The public audit's intervals hold the truth as often as they say: 500 audits at each ε, of strata from 12 to 10,000
rows."""

from __future__ import annotations

from collections import defaultdict

import pytest

from benchmarks.audit_coverage import SMALL, Count, simulate, size_of
from equistrata.eval.scores.tables import ALL_ROWS

AUDITS = 500
KINDS = {"mean of": "means", "calibration": "ratios"}  # all others are rates


def kind_of(name):
    return next((kind for start, kind in KINDS.items() if name.startswith(start)), "rates")


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_coverage(epsilon):
    """Means, ratios and rates: nominal where a stratum has over 200 rows, and no worse than 0.90 elsewhere.

    One interval's coverage of 500 has a standard error of 0.0097, so single ones are allowed 3.5 of these beyond the
    limits (a false alarm in 4,000); what is pooled over strata is not.
    """
    counts, pooled = simulate(epsilon, AUDITS), defaultdict(Count)
    for (name, label), count in counts.items():
        coverage = count.hit / count.made
        assert count.made == AUDITS
        large = label == ALL_ROWS or size_of(label) > SMALL
        if large:
            assert coverage > 0.93 - 0.034, (name, label)
        else:
            assert coverage > 0.90 - 0.034, (name, label)
        into = pooled[kind_of(name), large]
        into.made, into.hit = into.made + count.made, into.hit + count.hit
    for (kind, large), count in pooled.items():
        coverage = count.hit / count.made
        assert coverage >= 0.90, kind
        if large:
            assert 0.93 <= coverage <= 0.97, kind
    assert len(pooled) == 6


@pytest.mark.slow
def test_large_strata_say_something_and_tiny_ones_do_not():
    counts = simulate(1.0, 100)
    for (_, label), count in counts.items():
        if size_of(label) >= 3000:
            assert count.telling == count.made
    tiny = [count for (_, label), count in counts.items() if size_of(label) < 20]
    assert sum(count.telling for count in tiny) < 0.2 * sum(count.made for count in tiny)
