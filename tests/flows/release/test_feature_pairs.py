"""Tests of the privacy cost of each pair of features, where some of the pairs are refused before the charge.

Each pair of values of `feature_release.FACTORS` is in at least one configuration of a covering array. The releases and
the audit of a configuration are run again on neighbours that differ in a single unit. The true cost in ρ and δ must not
be larger than the charge. The files must only depend on the answers of the noise source, and `verify` must not find any
faults.
"""

import re

import pytest
from covering_array import all_pairs, is_refused, pairs_of
from feature_accounting import ARRAY, REFUSED, assert_accounted_for
from feature_release import FACTORS, made, tables_of

from equistrata.errors import InputError
from equistrata.privacy.ledger.ledger import Ledger


def test_every_pair_of_features_is_in_the_array_or_is_refused():
    covered = set().union(*map(pairs_of, ARRAY))
    refused = {frozenset(combination.items()) for combination, _ in REFUSED if len(combination) == 2}
    assert covered | refused == all_pairs(FACTORS)
    assert covered & refused == set()
    assert not any(is_refused(each, [combination for combination, _ in REFUSED]) for each in ARRAY)


@pytest.mark.parametrize("number", range(len(ARRAY)))
def test_features_that_meet_cost_at_most_what_is_charged_and_tell_nothing_else(tmp_path, number):
    assert_accounted_for(tmp_path, ARRAY[number])


@pytest.mark.parametrize(
    ("combination", "says"), REFUSED, ids=lambda each: "-".join(each) if isinstance(each, dict) else ""
)
def test_what_is_refused_is_refused_before_anything_is_charged(tmp_path, combination, says):
    chosen = {name: values[0] for name, values in FACTORS.items()} | {"strata": "flat"} | combination
    with pytest.raises(InputError, match=re.escape(says)):
        made(tmp_path, "table", tables_of(None, chosen), chosen)
    assert not (tmp_path / "table" / "m1").exists()
    assert Ledger(tmp_path / "table" / "ledger.db").charges("people") == []
