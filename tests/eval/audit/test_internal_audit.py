"""Tests of the internal audit, which contains the exact scores and compares its means with published means."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from audit_fixtures import SCHEMA, STRATA, Fixed, people

from equistrata.data.strata import Strata
from equistrata.errors import InputError
from equistrata.eval.audit.internal import internal_audit
from equistrata.eval.audit.noisy_number import NoisyNumber
from equistrata.eval.audit.public import public_audit
from equistrata.eval.scores.fairness import group_fairness
from equistrata.eval.scores.parity import parity_error
from equistrata.eval.scores.scores import score
from equistrata.eval.scores.tables import Pair
from equistrata.privacy.noise import SeededNoise

STRATA_LABELS = ("G=x", "G=y", "G=z")
PRIVATE, SYNTHETIC = people((900, 300, 30), 1), people((500, 400, 100), 2)


def audit(**settings):
    return internal_audit(PRIVATE, SYNTHETIC, STRATA, classifier=Fixed(), **settings)


def test_scores_are_those_of_score():
    assert audit().scores == score(PRIVATE, SYNTHETIC, ["G"])
    parity = parity_error(Pair.of(PRIVATE, SYNTHETIC, ["G"]))
    found = audit().scores.parity_by_group
    assert tuple(found) == parity.components == tuple(name for name in SCHEMA.names if name != "G")
    for j, column in enumerate(found):
        assert found[column]["all"] == parity.population[j]
        assert parity.strata == STRATA_LABELS
        for i, label in enumerate(STRATA_LABELS):
            assert found[column][label] == parity.errors[i, j]
    assert (
        max(error for errors in found.values() for label, error in errors.items() if label != "all") == parity.maximum
    )


def test_the_classifier_by_counting():
    prediction = Fixed().predict(PRIVATE)
    truth = PRIVATE.column("Y") == 1
    labels = np.array(["G=x", "G=y", "G=z"])[PRIVATE.column("G")]
    assert audit().fairness == group_fairness(truth, prediction.selected, labels, positive=True)
    for label in ("G=x", "G=y", "G=z"):
        here = labels == label
        assert audit().calibration[label] == pytest.approx(prediction.score[here].sum() / truth[here].sum())
    assert audit().calibration["all"] == pytest.approx(prediction.score.sum() / truth.sum())
    assert dict(audit().sizes) == {"G=x": 900, "G=y": 300, "G=z": 30}


def test_means_beside_published_ones():
    published = public_audit(PRIVATE, SYNTHETIC, STRATA, budget=0.5, noise=SeededNoise(0), classifier=Fixed()).means
    found = audit(published=published).means
    rows = pd.DataFrame(PRIVATE.codes, columns=SCHEMA.names).assign(A=lambda t: t["A"] + 1)
    for column in ("A", "B", "Y"):
        assert found[column]["all"].exact == pytest.approx(rows[column].mean())
        assert found[column]["G=y"].exact == pytest.approx(rows[column][rows["G"] == 1].mean())
        assert found[column]["G=y"].value == published[column]["G=y"].value
        assert found[column]["G=y"].relative_error == pytest.approx(
            abs(published[column]["G=y"].value / found[column]["G=y"].exact - 1)
        )


def test_outcomes_that_are_not_released():
    published = {"INCOME": {label: NoisyNumber(20.0, 10.0, 30.0) for label in ("G=x", "G=y", "G=z", "all")}}
    values = {"G=x": [10.0, 20.0], "G=y": [50.0], "G=z": []}
    found = audit(published=published, outcomes={"INCOME": values}).means["INCOME"]
    assert [found[label].exact for label in ("G=x", "G=y", "G=z", "all")] == [15.0, 50.0, None, pytest.approx(80 / 3)]
    assert [found[label].covered for label in ("G=x", "G=y", "G=z")] == [True, False, False]
    assert found["G=x"].relative_error == pytest.approx(1 / 3)
    assert found["G=z"].relative_error is None


def test_it_says_that_it_is_internal_and_fits_into_json():
    document = audit().to_dict()
    assert document["warning"] == "internal: computed from private rows"
    assert document["mode"] == "internal"
    json.dumps(document, allow_nan=False)


def test_without_target_or_strata():
    schema = SCHEMA.select(["G", "A", "B"])
    tables = [table.select(["G", "A", "B"]) for table in (PRIVATE, SYNTHETIC)]
    found = internal_audit(*tables, Strata.over(schema, []))
    assert found.fairness is None
    assert not found.calibration
    assert found.sizes == {"all": 1230}
    assert set(found.scores.parity_by_group["A"]) == {"all"}


def test_a_stratum_without_positive_rows_has_no_calibration():
    codes = PRIVATE.codes.copy()
    codes[codes[:, 0] == 2, 3] = 0
    found = internal_audit(type(PRIVATE)(codes, SCHEMA), SYNTHETIC, STRATA, classifier=Fixed())
    assert found.calibration["G=z"] is None


def test_bad_tables():
    with pytest.raises(InputError, match="no rows"):
        internal_audit(PRIVATE, SYNTHETIC.take(np.zeros(0, dtype=int)), STRATA, classifier=Fixed())
