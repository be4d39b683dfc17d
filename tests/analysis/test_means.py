"""Tests of the combination of two estimates of a mean by inverse variance."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from in_process import command
from plain_release import release

from equistrata.analysis.means import COUNTED, NEITHER, PRIVATE, joined, two_means
from equistrata.analysis.release import Release
from equistrata.errors import InputError


def entry(value, arm, **more):
    return {"value": value, "lower": value - arm, "upper": value + arm / 2, "level": 0.99, "target": "rows", **more}


def document(**outcomes):
    return {"outcomes": {name: {"strat_coinpress": each} for name, each in outcomes.items()}}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a release with private means of ages, and the true mean of the ages."""
    place, rng = tmp_path_factory.mktemp("means"), np.random.default_rng(0)
    sex = rng.integers(1, 3, 5000)
    rows = pd.DataFrame({"SEX": sex, "AGE": np.clip(rng.normal(35 + 5 * sex, 15), 0, 90).round(), "JOB": sex % 2})
    age = {"lower": 0, "upper": 90, "integer": True, "sigma": 20, "missing": "own"}
    columns = {"SEX": {"values": [1, 2]}, "AGE": age, "JOB": {"values": [0, 1]}}
    columns["BIN"] = {"lower": 0, "upper": 90, "edges": [0, 30, 90], "release": "index"}
    rows.assign(BIN=rows["AGE"]).to_csv(place / "rows.csv", index=False)
    (place / "schema.yaml").write_text(json.dumps({"columns": columns}))
    settings = {"source": "csv", "input": str(place / "rows.csv"), "schema": str(place / "schema.yaml"), "seed": 1}
    release({**settings, "strata": ("SEX",), "means": ("AGE",), "evaluate": "none", "output": str(place / "out")})
    return place / "out", float(rows["AGE"].mean())


@pytest.fixture(scope="module")
def answers(made):
    return Release.open(made[0]).answers


def test_joined_by_inverse_variance_and_what_is_unknown_left_out():
    assert joined([(100.0, 3.0), (110.0, 4.0)]) == (103.6, 2.4)
    assert joined([(100.0, 3.0), (110.0, np.inf), (np.nan, 1.0)]) == (100.0, 3.0)
    value, error = joined([(np.nan, np.inf)])
    assert np.isnan(value)
    assert error == np.inf


def test_joined_means_are_nearer_and_their_intervals_cover():
    """The standard errors of the two means are 1 and 2, so the standard deviation of the combined mean is √.8. The test
    uses 4,000 draws.

    The tolerance of 1.4 % is four standard errors of the coverage.
    """
    rng = np.random.default_rng(0)
    found = [joined([(rng.normal(0, 1), 1.0), (rng.normal(0, 2), 2.0)]) for _ in range(4000)]
    values = np.array([value for value, _ in found])
    assert values.std() == pytest.approx(0.8**0.5, rel=0.05)
    assert (np.abs(values) < 1.96 * found[0][1]).mean() == pytest.approx(0.95, abs=0.014)


def test_an_error_that_both_have_does_not_average_out():
    """The test uses 4,000 draws. The tolerance of 1.4 % is four standard errors of the coverage.

    If the errors were independent, the coverage would be 83 %.
    """
    rng = np.random.default_rng(0)
    shared, noises = rng.normal(0, 1, 4000), (0.1, 0.2)
    found = [
        [joined([(both + rng.normal(0, noise), (1 + noise**2) ** 0.5) for noise in noises], of) for of in (1.0, 0.0)]
        for both in shared
    ]
    held = np.array([[abs(value) < 1.96 * error for value, error in each] for each in found])
    covered, as_if_apart = held.mean(0)
    assert covered == pytest.approx(0.95, abs=0.014)
    assert as_if_apart < 0.9


@pytest.mark.parametrize(("target", "held_out", "part"), [("population", 0.0, 1.0), ("rows", 0.2, 0.2)])
def test_sampling_is_in_both_means_and_in_the_joined_one(answers, target, held_out, part):
    """The combined mean has at least the sampling error, even if the noise of a mean is small."""
    # The standard deviation of the ages to within 5 %, and the number of measured rows.
    spread, used = 15.5, answers.evidence.model.total
    kept = type(answers)(replace(answers.evidence, held_out=held_out), count=2)
    sampling = spread * (part / used) ** 0.5
    # The interval of a mean of the population includes the sampling error.
    arm = 1e-3 if target == "rows" else 2.5758 * sampling
    (both,) = two_means(kept, document(AGE=entry(40.0, arm, target=target)))
    assert both.private_error == pytest.approx(sampling, rel=0.07)
    assert sampling * 0.93 < both.standard_error < both.counted_error


def test_a_release_joins_its_two_means(answers):
    counted = answers.estimate("mean", "AGE").iloc[0]
    (both,) = two_means(answers, document(AGE=entry(counted["estimate"] + 0.2, 0.5)))
    assert both.counted == counted["estimate"]
    assert both.private_error == pytest.approx(0.5 / 2.5758, rel=1e-4)  # the longer half of the interval is used
    assert both.counted_error == pytest.approx((counted["upper"] - counted["lower"]) / 2 / 1.96, rel=0.01)
    assert both.counted < both.estimate < both.private
    assert both.standard_error < min(both.private_error, both.counted_error)
    lower, upper = both.interval(0.95)
    assert upper - lower == pytest.approx(2 * 1.96 * both.standard_error, rel=1e-3)


def test_the_better_one_has_the_smaller_error(answers):
    near, far = (two_means(answers, document(AGE=entry(40.0, arm)))[0] for arm in (1e-3, 1e3))
    assert (near.better, far.better) == (PRIVATE, COUNTED)
    assert near.estimate == pytest.approx(40.0, abs=0.01)


def test_an_interval_ends_at_the_columns_bounds(answers):
    """Regression test: the interval of a mean of ages was −8 to 92."""
    least, most = answers.evidence.strata.schema["AGE"].bounds
    (both,) = two_means(answers, document(AGE=entry(40.0, 1.0)))
    assert least < both.interval(0.95)[0] < both.interval(0.95)[1] < most
    assert replace(both, standard_error=1e3).interval(0.95) == (least, most)


def test_an_interval_that_ends_at_the_bounds_is_no_standard_error(answers):
    """Regression test: an interval from 0 to 90 was used as a standard error of 17 in the combined mean."""
    least, most = answers.evidence.strata.schema["AGE"].bounds
    whole = {**entry(80.0, 1.0), "lower": least, "upper": most}
    (both,) = two_means(answers, document(AGE=whole))
    assert both.private_error == np.inf
    assert (both.estimate, both.better) == (pytest.approx(both.counted), COUNTED)
    # The lower half of the interval is the shorter one.
    (half,) = two_means(answers, document(AGE={**whole, "lower": 70.0}))
    assert half.private_error == pytest.approx(10 / 2.5758, rel=1e-4)
    nothing = replace(both, estimate=np.nan, standard_error=np.inf, counted_error=np.inf)
    assert (nothing.better, nothing.interval(0.95)) == (NEITHER, (least, most))


def test_counts_of_noise_alone_have_no_part_in_a_joined_mean(answers):
    """The noise of a cell is 30,000 rows, so the counts contain no information and only the private mean is used."""
    evidence, rng = answers.evidence, np.random.default_rng(0)
    noise = {
        key: [replace(each, values=each.values + rng.normal(0, 3e4, each.values.shape), sigma=3e4) for each in found]
        for key, found in evidence.measured.items()
    }
    drowned = type(answers)(replace(evidence, measured=noise), count=2)
    (both,) = two_means(drowned, document(AGE=entry(40.0, 10.0)))
    assert both.counted_error == np.inf
    assert (both.estimate, both.better) == (40.0, PRIVATE)


def test_a_private_mean_by_a_sigma_that_is_too_small_says_nothing(answers):
    (both,) = two_means(answers, document(AGE=entry(40.0, 1e-3, sigma={"too_small": True})))
    assert both.better == COUNTED
    assert both.estimate == pytest.approx(both.counted)


def test_what_has_other_people_or_no_numbers_is_left_out(answers):
    assert not two_means(answers, document(BIN=entry(2.0, 1.0), OTHER=entry(2.0, 1.0)))
    by_weights = {"pub_strat_coinpress": entry(40.0, 1.0, strata={})}
    assert not two_means(answers, {"outcomes": {"AGE": by_weights}})
    (line,) = two_means(answers, {"outcomes": {"AGE": by_weights | {"coinpress": entry(41.0, 1.0)}}})
    assert line.private == 41.0


def test_a_release_has_both(made):
    folder, true = made
    (line,) = Release.open(folder).means(0.99).to_dict("records")
    own = json.loads((folder / "means.json").read_text())["outcomes"]["AGE"]["strat_coinpress"]
    assert line["column"] == "AGE"
    assert line["private"] == own["value"]
    assert line["lower"] < true < line["upper"]
    assert line["standard_error"] < min(line["private_error"], line["counted_error"])


def test_a_release_without_private_means_says_what_to_ask(folder):
    with pytest.raises(
        InputError, match=r"no private means; compute means from its counts with estimate\('mean', column\)"
    ):
        Release.open(folder).means()


def test_the_command_says_which_is_better(made, monkeypatch, capsys):
    folder, _ = made
    (line,) = Release.open(folder).means().to_dict("records")
    said = {}
    for more in ((), ("--by", "SEX")):
        code, shown, _ = command(monkeypatch, capsys, "estimate", folder, "mean", "AGE", *more)
        assert code == 0
        said[more] = " ".join(shown.split())
    assert f"the better of the two is that of {line['better']}; combined" in said[()]
    assert f"inverse variance: {line['estimate']:.4g}"[:24] in said[()]
    assert "means.json" not in said["--by", "SEX"]
