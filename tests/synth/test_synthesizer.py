"""Tests of the scikit-learn interface of the synthesizer: parameters, clones, data frames and labels."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from equistrata.data.schema import Schema
from equistrata.data.units.unit import Unit
from equistrata.data.weights import PublicWeights
from equistrata.errors import InputError
from equistrata.synth.mechanisms.mst import MST
from equistrata.synth.synthesizer import StratifiedSynthesizer

SCHEMA = Schema.load("acs_employment").select(["SEX", "AGEP", "MAR", "ESR"])
SETTINGS = {
    "mechanism": MST(trees=2),
    "strata": ["SEX"],
    "epsilon": 2.0,
    "delta": 1e-6,
    "weights": PublicWeights({(1,): 0.5, (2,): 0.5}, "test"),
    "combine_weights": True,
    "count_share": 0.1,
    "engine": "numpy",
    "shrinkage": False,
    "selection": "per-stratum",
    "levels": "strata",
    "workers": 2,
    "seed": 3,
    "random_state": None,
    "schema": None,
}


def people(rows=3000):
    rng = np.random.default_rng(0)
    frame = {"SEX": rng.integers(1, 3, rows), "AGEP": rng.integers(20, 90, rows), "MAR": rng.integers(1, 6, rows)}
    return pd.DataFrame(frame | {"ESR": 1})


def test_every_setting_is_an_attribute_and_comes_back():
    made = StratifiedSynthesizer(**SETTINGS)
    assert made.get_params() == made.get_params(deep=False) == SETTINGS
    assert all(getattr(made, name) is value for name, value in SETTINGS.items())
    assert StratifiedSynthesizer().set_params(**SETTINGS).get_params() == SETTINGS


def test_a_clone_has_the_settings_and_is_not_fitted():
    made = StratifiedSynthesizer(strata=["SEX"], epsilon=3, seed=0).fit(people(), SCHEMA)
    copy = clone(made)
    assert copy.get_params() == made.get_params()
    with pytest.raises(InputError, match="not fitted"):
        copy.sample(1)
    again = copy.fit(people(), SCHEMA)
    pd.testing.assert_frame_equal(again.sample(100), made.sample(100))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"epsilon": -1}, "'epsilon' and 'delta' give no usable budget"),
        ({"epsilon": math.nan}, "'epsilon' and 'delta'"),
        ({"epsilon": "much"}, "'epsilon' and 'delta'"),
        ({"delta": 0}, "'epsilon' and 'delta'"),
        ({"delta": 1.5}, "'epsilon' and 'delta'"),
        ({"mechanism": "nothing"}, "unknown synthesizer 'nothing'"),
        ({"mechanism": 3}, "mechanism is of type int"),
        ({"engine": "steam"}, "unknown engine 'steam'"),
        ({"strata": "SEX"}, "give a list of column names"),
        ({"strata": [1]}, "give a list of column names"),
        ({"weights": "nosiy"}, "unknown weights"),
        ({"combine_weights": True}, "needs public weights to combine"),
        ({"count_share": 1.0}, "count_share is 1.0"),
        ({"workers": 0}, "workers is 0"),
        ({"workers": 1.5}, "workers is 1.5"),
        ({"selection": "both"}, "selection is .both."),
        ({"levels": "fine"}, "levels is .fine."),
    ],
)
def test_a_bad_setting_is_refused_when_made_and_when_set(setting, message):
    with pytest.raises(InputError, match=message):
        StratifiedSynthesizer(**setting)
    made = StratifiedSynthesizer()
    before = made.get_params()
    with pytest.raises(InputError, match=message):
        made.set_params(seed=5, **setting)
    assert made.get_params() == before


def test_an_unknown_setting_is_refused():
    with pytest.raises(InputError, match="unknown setting 'eps'; choose among mechanism, strata, epsilon"):
        StratifiedSynthesizer().set_params(eps=1)


def test_a_declared_unit_is_not_passed_over():
    """The noise would be for a single row, although the schema protects several rows together."""
    declared = replace(SCHEMA, unit=Unit("HOME", 3))
    with pytest.raises(InputError, match=r"declares a unit .all rows with one HOME, .* but fit only protects one row"):
        StratifiedSynthesizer(seed=0).fit(people(), declared)


def test_gem_is_refused_where_rows_stand_for_people():
    weighted = Schema.from_dict({"columns": {"A": {"values": [1]}}, "survey_weight": {"column": "W", "upper": 9}})
    with pytest.raises(InputError, match="cannot measure the survey weight with each column; choose mst or aim"):
        StratifiedSynthesizer("GEM", seed=0).fit(pd.DataFrame({"A": [1, 1], "W": [2.0, 3.0]}), weighted)


def test_labels_and_values_name_the_same_people():
    made = StratifiedSynthesizer(strata=["SEX"], seed=0).fit(people(), SCHEMA)
    for one, other in (({"SEX": "Female"}, {"SEX": 2}), ({"SEX": ["Male", 2]}, {"SEX": [1, 2]}),
                       ({"AGEP": "over 19 to 38"}, {"AGEP": 1})):  # fmt: skip
        pd.testing.assert_frame_equal(made.sample(50, where=one), made.sample(50, where=other))
    assert set(made.sample(50, where={"SEX": "Female"})["SEX"]) == {2}
    with pytest.raises(InputError, match=r"no value 'female'; choose among 1 \(Male\), 2 \(Female\)"):
        made.sample(5, where={"SEX": "female"})


def test_a_frame_comes_out_as_it_went_in():
    drawn = StratifiedSynthesizer(strata=["SEX"], seed=0).fit(people(), SCHEMA).sample(40)
    assert isinstance(drawn, pd.DataFrame)
    assert list(drawn.columns) == list(SCHEMA.names)
    assert set(drawn["MAR"]) <= set(range(1, 6))
