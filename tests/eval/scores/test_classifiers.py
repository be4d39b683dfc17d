"""Tests of the classifiers, which are compared with a direct use of scikit-learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.eval.scores.classifiers import MODELS, classifier_utility, train_classifier, truth_of

NEW_YORK = ["AGEP", "SCHL", "MAR", "DIS", "NATIVITY", "MIL", "DREM", "SEX", "RAC1P", "ESR"]
ACS = Path(__file__).resolve().parents[3] / "shared" / "acs"


def random_table(seed, rows=600):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"S": rng.integers(1, 3, rows), "R": rng.integers(1, 4, rows), "A": rng.integers(0, 5, rows)})
    table["Y"] = (table["A"] + table["S"] + rng.normal(0, 1.5, rows) > 3.5).astype(int)
    return table


def slow_scores(predicted, test):
    rows = test.assign(p=predicted)
    selection, misses = [], []
    for _, group in rows.groupby(["S", "R"]):
        if len(group) >= 20:
            selection.append(group["p"].mean())
            misses.append(1 - group.loc[group["Y"] == 1, "p"].mean())
    accuracy = (rows["p"] == rows["Y"]).mean()
    return accuracy, min(selection) / max(selection), max(misses) - min(misses)


@pytest.mark.parametrize("model", ["random_forest", "gradient_boosting", "logistic_regression"])
def test_agrees_with_scikit_learn_row_by_row(model):
    train, test = random_table(0), random_table(1)
    features = ["S", "R", "A"]
    x, x_test = train[features].to_numpy(float), test[features].to_numpy(float)
    if model == "random_forest":
        plain = RandomForestClassifier(n_estimators=100, random_state=42)
    elif model == "gradient_boosting":
        plain = HistGradientBoostingClassifier(random_state=42)
    else:
        plain = LogisticRegression(max_iter=1000, tol=1e-8)
        x, x_test = (pd.get_dummies(t[features], columns=features).to_numpy(float) for t in (train, test))
    with threadpool_limits(1):
        expected = slow_scores(plain.fit(x, train["Y"]).predict(x_test), test)
    found = classifier_utility(train, test, "Y", ["S", "R"], models=[model])[model]
    assert (found.accuracy, found.dpr, found.fnr_diff) == pytest.approx(expected)


def test_columns_are_matched_by_name_and_labels_do_not_matter():
    train, test = random_table(0), random_table(1)
    plain = classifier_utility(train, test, "Y", ["S"])
    shuffled = classifier_utility(train[["Y", "A", "S", "R"]], test, "Y", ["S"])
    named = classifier_utility(
        train.assign(Y=train["Y"].map({0: "no", 1: "yes"})),
        test.assign(Y=test["Y"].map({0: "no", 1: "yes"})),
        "Y",
        ["S"],
    )
    assert plain == shuffled == named
    assert list(plain) == list(MODELS)


def test_a_target_of_one_class_gives_the_constant_prediction():
    train, test = random_table(0), random_table(1)
    for value, rate in [(0, 0.0), (1, 1.0)]:
        for utility in classifier_utility(train.assign(Y=value), test, "Y", ["S"]).values():
            assert utility.accuracy == (test["Y"] == value).mean()
            assert utility.dpr == 1.0
            assert utility.fnr_diff == 0.0
            assert set(utility.selection_rate.values()) == {rate}


def test_text_wide_and_absent_columns_are_learnt_from():
    rng = np.random.default_rng(0)
    tables = []
    for seed in (0, 1):
        table = random_table(seed).assign(W=rng.normal(0, 1, 600), T=lambda t: np.where(t["A"] > 2, "hi", "lo"))
        table["W"] = table["W"].mask(rng.random(600) < 0.2)
        table["T"] = table["T"].mask(rng.random(600) < 0.1)
        tables.append(table.drop(columns="A"))
    tables[1].loc[0, "T"] = "never seen in training"
    guess = max(tables[1]["Y"].mean(), 1 - tables[1]["Y"].mean())
    for utility in classifier_utility(*tables, "Y", ["S"]).values():
        assert utility.accuracy > guess + 0.1


def test_without_strata_there_is_nothing_to_compare():
    utility = classifier_utility(random_table(0), random_table(1), "Y", [], models=["random_forest"])["random_forest"]
    assert (utility.dpr, utility.fnr_diff, list(utility.selection_rate)) == (1.0, 0.0, ["all"])


def test_positive_may_be_chosen():
    train, test = random_table(0), random_table(1)
    one = classifier_utility(train, test, "Y", ["S"], models=["random_forest"])["random_forest"]
    nought = classifier_utility(train, test, "Y", ["S"], models=["random_forest"], positive=0)["random_forest"]
    assert nought.selection_rate == pytest.approx({key: 1 - rate for key, rate in one.selection_rate.items()})


def test_what_the_schema_calls_positive_is_predicted():
    """The values above the limit are the positive class, and all other values and missing cells are
    the negative class.
    """
    train, test = random_table(0), random_table(1)
    values = "S: {values: [1, 2]}, R: {values: [1, 2, 3]}, A: {values: [0, 1, 2, 3, 4]}, Y: {values: [0, 1]}"
    numbers = "PAY: {lower: 0, upper: 90000, integer: true, missing: own, positive: '>50000'}"
    schema = Schema.from_dict(yaml.safe_load(f"columns: {{{values}, {numbers}}}"))
    rng = np.random.default_rng(0)
    pay = [rng.choice([0, 49_999, 50_000, 50_001, 50_400, 80_000, np.nan], len(each)) for each in (train, test)]
    tables = [
        CodedTable.encode(each.assign(PAY=values), schema) for each, values in zip((train, test), pay, strict=True)
    ]
    forest = train_classifier(tables[0], "PAY")
    assert forest.positive == ">50000"
    assert truth_of(tables[1], forest).tolist() == (pay[1] > 50_000).tolist()
    ours = classifier_utility(*tables, "PAY", ["S"])
    binary = [each.assign(PAY=(values > 50_000) * 1) for each, values in zip((train, test), pay, strict=True)]
    theirs = classifier_utility(*binary, "PAY", ["S"])
    assert {name: each.accuracy for name, each in ours.items()} == {
        name: each.accuracy for name, each in theirs.items()
    }


def test_bad_input_is_refused():
    train, test = random_table(0), random_table(1)
    cases = [
        ((train, test, "X", []), {}, "no column 'X'"),
        ((train, test, "Y", ["Q"]), {}, "no column 'Q'"),
        ((train, test, "Y", []), {"models": ["tarot"]}, "unknown classifier 'tarot'"),
        ((train, test, "Y", []), {"positive": 7}, "not a value of target 'Y'"),
        ((train.assign(Y=np.nan), test, "Y", []), {}, "absent cells"),
        ((train[["Y"]], test[["Y"]], "Y", []), {}, "only column"),
        ((train.iloc[:0], test, "Y", []), {}, "train table holds no rows"),
    ]
    for arguments, settings, message in cases:
        with pytest.raises(InputError, match=message):
            classifier_utility(*arguments, **settings)


@pytest.mark.slow
@pytest.mark.skipif(
    not (ACS / "2024" / "1-Year" / "psam_p36.csv").is_file(), reason="needs the ACS files in shared/acs"
)
def test_a_forest_on_real_new_york_rows_reaches_the_known_accuracy():
    from equistrata.data.schema import Schema
    from equistrata.data.sources import FolktablesSource
    from equistrata.data.table import CodedTable

    schema = Schema.load("acs_employment").select(NEW_YORK)
    raw = FolktablesSource(("NY",), 2024, root_dir=str(ACS)).read(schema.names)
    rows = CodedTable.encode(raw, schema).decode(np.random.default_rng(0)).sample(frac=1, random_state=0)
    cut = round(0.8 * len(rows))
    found = classifier_utility(rows.iloc[:cut], rows.iloc[cut:], "ESR", ["SEX", "RAC1P"], models=["random_forest"])[
        "random_forest"
    ]
    assert 0.78 <= found.accuracy < 0.81
