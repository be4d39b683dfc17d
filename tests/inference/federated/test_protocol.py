"""Tests of the plan of the holders: cells, moduli, the value of θ and errors."""

import json
import math

import pytest
import yaml
from estimators import settle
from holders import SCHEMA_FILE, plan

from equistrata.data.schema import Schema
from equistrata.errors import InputError
from equistrata.inference.federated.protocol import SIZE_MODULUS, Cell, FederatedPlan
from equistrata.inference.federated.renyi import epsilon_spent

SIZES = [400, 300, 0, 500]


def test_cells_are_the_declared_strata_and_arms_in_order():
    assert plan().cells == (
        Cell((1,), "control"), Cell((1,), "treated"), Cell((2,), "control"), Cell((2,), "treated"),
    )  # fmt: skip
    assert plan(arm=None, treated=None, control=None).cells == (Cell((1,), "all"), Cell((2,), "all"))
    assert plan(strata=(), arm=None, treated=None, control=None).cells == (Cell((), "all"),)
    assert [plan().label(cell) for cell in plan().cells][1] == "SEX=1, treated"


def test_questions_are_what_the_plan_and_the_sizes_say():
    agreed = plan()
    first = agreed.sizes()
    assert (first.kind, first.moduli, first.settings) == ("sizes", (SIZE_MODULUS,) * 4, {"plan": agreed.digest})
    second = agreed.sums(SIZES)
    coins = tuple(max(2, size * 64 + 1) for size in SIZES)
    assert second.moduli == (*coins, *coins, 401, 301, 2, 501)
    assert second.settings == {"plan": agreed.digest, "sizes": SIZES}
    assert json.loads(json.dumps(dict(second.settings))) == second.settings


def test_each_cell_gets_the_theta_of_its_own_size():
    chosen = plan(clip=(2, 6)).arm_settings(SIZES)
    assert chosen[2] is None
    for settings, size in zip(chosen, SIZES, strict=True):
        if settings is not None:
            assert settings == settle(size, radius=2.0, epsilon=1.0, delta=1e-6, trials=64)
            assert settings.epsilon(1e-6) <= 1


@pytest.mark.parametrize(("missing", "share"), [(1, 0.4), (2, 0.3)])
def test_theta_is_for_those_who_stay(missing, share):
    """The privacy cost must be ε if the declared number of holders is missing. It is larger if θ is computed for all
    holders.
    """
    agreed = plan(holders=4, missing=missing, largest_share=share)
    settings = agreed.arm_settings([1000, 0, 0, 0])[0]
    left = 1000 - missing * math.floor(1000 * share)
    assert settings.rows == left == agreed.rows_left(1000)
    assert epsilon_spent([(left, 64, settings.mean.theta), (left, 64, settings.squares.theta)], 1e-6) == pytest.approx(
        1, rel=1e-5
    )
    careless = plan(holders=4).arm_settings([1000, 0, 0, 0])[0]
    assert epsilon_spent([(left, 64, careless.mean.theta)], 1e-6) > 1.1


def test_one_row_stops_the_plan_unless_small_cells_are_left_out():
    with pytest.raises(InputError, match=r"cell SEX=1, treated has fewer than two rows"):
        plan().arm_settings([400, 1, 400, 400])
    chosen = plan(smallest=50).arm_settings([400, 1, 49, 50])
    assert [settings is None for settings in chosen] == [False, True, True, False]
    with pytest.raises(InputError, match="if holders are missing"):
        plan(missing=1, largest_share=0.9).arm_settings([5, 400, 400, 400])
    with pytest.raises(InputError, match="4 cells"):
        plan().arm_settings([400])


def test_the_digest_says_whether_plans_are_the_same():
    same = plan()
    assert same.digest == plan().digest
    changes = [
        {"epsilon": 1.1}, {"delta": 1e-7}, {"trials": 63}, {"clip": (0, 9)}, {"strata": ()}, {"holders": 4},
        {"treated": 9}, {"mean_share": 0.9}, {"smallest": 2}, {"missing": 1, "largest_share": 0.5}, {"level": 0.9},
    ]  # fmt: skip
    digests = {plan(**change).digest for change in changes}
    assert len(digests | {same.digest}) == len(changes) + 1


def test_a_plan_survives_json(tmp_path):
    path = tmp_path / "visits.yaml"
    path.write_text(SCHEMA_FILE)
    agreed = plan(clip=(1, 9), missing=1, largest_share=0.5)
    document = json.loads(json.dumps(agreed.to_dict(str(path))))
    assert FederatedPlan.from_dict(document) == agreed
    assert FederatedPlan.from_dict(document).digest == agreed.digest


def test_a_plan_is_refused_under_another_schema(tmp_path):
    path = tmp_path / "visits.yaml"
    path.write_text(SCHEMA_FILE.replace("upper: 10", "upper: 20"))
    with pytest.raises(InputError, match="not the one that the plan was made with"):
        FederatedPlan.from_dict(plan().to_dict(str(path)))
    path.write_text(SCHEMA_FILE)
    document = plan().to_dict(str(path))
    with pytest.raises(InputError, match="unknown key 'thetas'"):
        FederatedPlan.from_dict(document | {"thetas": [0.25]})
    with pytest.raises(InputError, match=r"needs the keys 'schema', 'outcome' and 'holders'$"):
        FederatedPlan.from_dict({key: value for key, value in document.items() if key != "outcome"})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"outcome": "JOB"}, "numbers"),
        ({"outcome": "SEX"}, "used twice"),
        ({"strata": ("SEX", "SEX")}, "used twice"),
        ({"strata": ("DAYS",), "outcome": "GRADE"}, "DAYS"),
        ({"arm": None}, "all three of them, or none"),
        ({"treated": None}, "all three of them, or none"),
        ({"treated": 5}, "treated arm is 5"),
        ({"control": 1}, "different values"),
        ({"clip": (3, 3)}, "ascending"),
        ({"clip": (0, math.inf)}, "ascending"),
        ({"holders": 1}, "at least two holders"),
        ({"missing": 2, "largest_share": 0.3}, "0 to 1 may be missing"),
        ({"missing": -1}, "may be missing"),
        ({"missing": 1}, "'largest_share' is needed"),
        ({"missing": 1, "largest_share": 1.0}, "must be below 1"),
        ({"largest_share": 0.0}, "largest share"),
        ({"largest_share": 1.5}, "largest share"),
        ({"smallest": 1}, "at least 2 rows"),
        ({"mean_share": 1.0}, "share of the budget"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"trials": 0}, "number of trials"),
        ({"level": 1.0}, "level"),
        ({"target": "late"}, "target"),
    ],
)
def test_what_is_refused(change, sentence):
    with pytest.raises(InputError, match=sentence):
        plan(**change)


def test_a_schema_with_a_survey_weight_is_refused():
    weighted = Schema.from_dict(yaml.safe_load(SCHEMA_FILE) | {"survey_weight": {"column": "W", "upper": 9}})
    with pytest.raises(InputError, match="federated means count each row once"):
        FederatedPlan(weighted, "DAYS", holders=3)
