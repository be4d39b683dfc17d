"""Tests of the exchange of codes between sampled rows that violate a rule, which preserves the
margins of each stratum.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import wasserstein_distance

from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.synth.strata.exchange import RuleChanges, enforce_rules
from equistrata.synth.synthesizer import StratifiedSynthesizer

WHOLE = {"lower": 0, "upper": 199, "integer": True}


def drawn(schema, rows, seed=0):
    rng = np.random.default_rng(seed)
    return CodedTable(np.column_stack([rng.integers(0, c.size, rows) for c in schema.columns]).astype(np.uint8), schema)


def no_more(rows):
    raise AssertionError


def test_the_counts_of_every_column_stay_where_exchanges_suffice():
    schema = Schema.from_dict({"columns": {"A": WHOLE, "B": WHOLE, "C": WHOLE}, "rules": ["A <= B", "A <= C"]})
    rng = np.random.default_rng(1)
    table = drawn(schema, 5000)
    # So that C and B are larger.
    table = CodedTable(np.column_stack([table.column("A") // 2, *table.codes[:, 1:].T]), schema)
    found, changed = enforce_rules(table, rng, no_more)
    assert changed.moved == changed.replaced == 0
    assert 0 < changed.exchanged < 4000
    for name in schema.names:
        assert found.marginal([name]).tolist() == table.marginal([name]).tolist()
    assert (found.column("A") == table.column("A")).all()
    assert (found.column("A") <= np.minimum(found.column("B"), found.column("C"))).all()


def test_rows_that_obey_are_not_touched_and_those_that_cannot_exchange_get_the_nearest_code():
    schema = Schema.from_dict({"columns": {"A": WHOLE, "B": WHOLE}, "rules": ["A < B"]})
    fine = CodedTable(np.array([[3, 4], [0, 199], [7, 9]], dtype=np.uint8), schema)
    found, changed = enforce_rules(fine, np.random.default_rng(0), no_more)
    assert (found.codes == fine.codes).all()
    assert changed == RuleChanges()
    short = CodedTable(np.array([[5, 5], [3, 1]], dtype=np.uint8), schema)
    found, changed = enforce_rules(short, np.random.default_rng(0), no_more)
    assert found.codes.tolist() == [[5, 6], [3, 5]] or found.codes.tolist() == [[5, 6], [3, 4]]
    assert changed.moved >= 1


def test_exchanges_keep_structural_zeros_and_what_frees_a_row():
    """JOB is yes only from the age of 15, and the rule does not apply to S = 2. An exchange of ages must not give a
    child a job.
    """
    columns = {"YEARS": WHOLE, "AGE": WHOLE, "JOB": {"values": ["no", "yes"]}, "S": {"values": [1, 2]}}
    rules = ["YEARS <= AGE or S == 2", "AGE >= 15 or JOB == 'no'", "AGE < 150 or S == 1"]
    schema = Schema.from_dict({"columns": columns, "rules": rules})
    table = drawn(schema, 4000)
    possible = ~np.any([schema.zero_mask(z).ravel()[table.index_of(z.columns)] for z in schema.impossible], axis=0)
    found, changed = enforce_rules(table.take(possible), np.random.default_rng(3), no_more)
    # This raises an error if a row violates a rule.
    CodedTable.encode(found.decode(np.random.default_rng(4)), schema.coded())
    assert changed.exchanged > 100
    assert found.marginal(["JOB", "S"]).sum() == possible.sum()
    free = table.take(possible).column("S") == 1  # the second value of S
    assert (found.column("YEARS")[free] > found.column("AGE")[free]).any()


def test_a_row_that_nothing_mends_becomes_a_copy_of_another_one_or_of_one_drawn_anew():
    """If JOB is no, AGE must be less than 15. The value of YEARS is larger, so that there is no possible exchange and
    no similar code.
    """
    columns = {"YEARS": WHOLE, "AGE": WHOLE, "JOB": {"values": ["no", "yes"]}}
    schema = Schema.from_dict({"columns": columns, "rules": ["YEARS <= AGE", "AGE < 15 or JOB == 'yes'"]})
    stuck, fine = [20, 3, 0], [2, 9, 1]
    table = CodedTable(np.array([stuck, fine], dtype=np.uint8), schema)
    found, changed = enforce_rules(table, np.random.default_rng(0), no_more)
    assert found.codes.tolist() == [fine, fine]
    assert changed == RuleChanges(replaced=1)
    alone = CodedTable(np.array([stuck, stuck], dtype=np.uint8), schema)
    found, _ = enforce_rules(alone, np.random.default_rng(0), lambda rows: table)
    assert found.codes.tolist() == [fine, fine]
    with pytest.raises(InputError, match="none of 2 drawn rows of a stratum satisfies the rules YEARS <= AGE; remove"):
        enforce_rules(alone, np.random.default_rng(0), lambda rows: alone)


def stays(rows, rng):
    """Return dates of the beginning and the end of a stay. Most stays are a few days in ten years."""
    group = rng.integers(0, 4, rows)
    start = rng.integers(0, 1800, rows)
    stay = np.floor(rng.lognormal(np.array([1, 2, 3, 5])[group], 1.0)).clip(0, 1500).astype(int)
    days = [np.datetime64("2015-01-01") + each for each in (start, start + stay)]
    return pd.DataFrame({"SEX": rng.integers(0, 2, rows), "GROUP": group, "IN": days[0], "OUT": days[1]})


@pytest.mark.parametrize("seed", [1, 2])
def test_released_rows_obey_and_are_nearer_to_the_real_ones_than_without_the_rule(seed):
    """The error of each column must not increase, and the error of the length of a stay must decrease."""
    dates = {"type": "date", "lower": "2015-01-01", "upper": "2024-12-31"}
    columns = {"SEX": {"values": [0, 1]}, "GROUP": {"values": [0, 1, 2, 3]}, "IN": dates, "OUT": dates}
    real = stays(3000, np.random.default_rng(seed))
    days, off, apart = (real["OUT"] - real["IN"]).dt.days, {}, {}
    for rules in ((), ("IN <= OUT",)):
        schema = Schema.from_dict({"columns": columns, "rules": list(rules)})
        synthesizer = StratifiedSynthesizer("mst", strata=["SEX"], epsilon=1.0, delta=1e-9, seed=seed)
        rows = synthesizer.fit(real, schema).sample(3000, seed=seed)
        out, start = (pd.to_datetime(rows[name]) for name in ("OUT", "IN"))
        assert ((out < start).mean() > 0.2) != bool(rules)
        assert ((out < start).sum() == 0) == bool(rules)
        off[rules] = wasserstein_distance((out - start).dt.days, days)
        apart[rules] = wasserstein_distance(out.astype("int64") / 8.64e13, real["OUT"].astype("int64") / 8.64e13)
    assert off["IN <= OUT",] < 0.75 * off[()]
    assert apart["IN <= OUT",] < 1.2 * apart[()]


def test_strata_by_columns_at_the_ends_of_a_chain():
    """The current age of a person cannot be less than the age at the first job. The stratum is impossible although
    there is no rule for the two columns.

    The rows must not be moved to another stratum.
    """
    bins, wide = {"lower": 0, "upper": 90, "integer": True, "edges": [0, 20, 40, 60, 90]}, [0, 30, 90]
    columns = {"AGE": bins, "FIRST": bins, "LAST": bins | {"edges": wide}, "SEX": {"values": [1, 2]}}
    schema = Schema.from_dict({"columns": columns, "rules": ["FIRST <= LAST", "LAST <= AGE"]})
    both = Strata.over(schema, ["FIRST", "AGE"]).keys
    assert (2, 0) not in both
    assert (0, 2) in both
    rng = np.random.default_rng(0)
    ages = pd.DataFrame(np.sort(rng.integers(0, 91, (400, 3)), axis=1), columns=["FIRST", "LAST", "AGE"])
    synthesizer = StratifiedSynthesizer("mst", strata=["AGE"], epsilon=0.1, delta=1e-9, seed=0)
    model = synthesizer.fit(ages.assign(SEX=1), schema).model_
    table = model.sample(2000, rng)
    again = CodedTable.encode(table.decode(rng), schema.coded())
    assert (again.column("AGE") == table.column("AGE")).all()
