"""Tests of the answers of a holder, which are compared with a slow count, and of its errors."""

import math
import os

import numpy as np
import pandas as pd
import pytest
from holders import plan, tables
from no_noise import ForbiddenNoise

from equistrata.data.schema import Schema
from equistrata.errors import InputError
from equistrata.inference.federated.aggregation import SumQuestion
from equistrata.inference.federated.holder import TableHolder
from equistrata.inference.federated.protocol import FederatedPlan
from equistrata.privacy.noise import SeededNoise

SIZES = [900, 900, 900, 900]


class Means:
    """A source that returns the rounded mean of each report, so that the reports have no noise."""

    def spawn(self, stream):
        return self

    def binomial(self, trials, probabilities):
        return np.rint(trials * probabilities).astype(np.int64)


def holder(frame, noise=None, state=None, **changes):
    return TableHolder(plan(**changes), frame, noise or ForbiddenNoise(), state)


def people(frame, sex, new):
    return frame[(frame["SEX"] == sex) & (frame["NEW"] == new) & frame["DAYS"].notna()]["DAYS"].tolist()


def cells(frame):
    return [people(frame, sex, new) for sex in (1, 2) for new in (0, 1)]


@pytest.fixture
def frame():
    """Return a table with missing outcomes, a third arm and values at both ends of the range."""
    found = tables(1, 700)[0]
    found.loc[::7, "DAYS"] = np.nan
    found.loc[1::11, "NEW"] = 9
    found.loc[2, "DAYS"], found.loc[3, "DAYS"] = 0, 10
    return found


def test_sizes_are_its_rows_in_each_cell(frame):
    agreed = plan()
    counted = holder(frame).answer(agreed.sizes())
    assert counted.tolist() == [len(values) for values in cells(frame)]
    assert counted.sum() < 600


def test_sums_are_the_reports_of_each_cell_s_people(frame):
    """Without noise, the sums are given by θ and the values. The last part is the number of reports."""
    agreed = plan(trials=2**20)
    answer = holder(frame, Means(), trials=2**20).answer(agreed.sums(SIZES)).reshape(3, 4)
    for place, (settings, values) in enumerate(zip(agreed.arm_settings(SIZES), cells(frame), strict=True)):
        x = [(value - 5) / 5 for value in values]
        m, theta, theta_squares = settings.mean.trials, settings.mean.theta, settings.squares.theta
        means = sum(m * (0.5 + theta * value) for value in x)
        squares = sum(m * (0.5 + theta_squares * (2 * value**2 - 1)) for value in x)
        assert answer[0, place] == pytest.approx(means, abs=len(x))
        assert answer[1, place] == pytest.approx(squares, abs=len(x))
        assert answer[2, place] == len(values)
    assert (answer >= 0).all()
    assert (answer.ravel() < agreed.sums(SIZES).moduli).all()


def test_coins_are_fresh_in_every_cell_and_follow_the_source(frame):
    agreed = plan()
    first = holder(frame, SeededNoise(1)).answer(agreed.sums(SIZES))
    assert first.tolist() == holder(frame, SeededNoise(1)).answer(agreed.sums(SIZES)).tolist()
    assert first.tolist() != holder(frame, SeededNoise(2)).answer(agreed.sums(SIZES)).tolist()
    same = pd.DataFrame({"SEX": [1, 2] * 200, "NEW": 0, "DAYS": 4.0})
    coins = holder(same, SeededNoise(3)).answer(agreed.sums(SIZES)).reshape(3, 4)
    # The people of two strata are equal, so equal sums would mean the same random numbers.
    assert coins[0, 0] != coins[0, 2]


def test_values_are_clipped_as_agreed_and_others_stay_as_they_were(frame):
    before = frame.copy()
    narrow = plan(clip=(4.0, 4.5), trials=2**20)
    answer = holder(frame, Means(), clip=(4.0, 4.5), trials=2**20).answer(narrow.sums(SIZES)).reshape(3, 4)
    settings, values = narrow.arm_settings(SIZES)[0], cells(frame)[0]
    expected = np.mean([(min(max(value, 4.0), 4.5)) for value in values]) - 4.25
    assert float(settings.mean.mean(answer[0, 0], len(values))) == pytest.approx(expected, abs=1e-3)
    pd.testing.assert_frame_equal(frame, before)


def test_an_outcome_with_declared_numbers():
    frame = pd.DataFrame({"SEX": [1, 1, 2, 2, 2], "GRADE": [1, 3, 2, np.nan, 3]})
    settings = {"outcome": "GRADE", "arm": None, "treated": None, "control": None}
    agreed = plan(**settings)
    assert holder(frame, **settings).answer(agreed.sizes()).tolist() == [2, 2]
    chosen = agreed.arm_settings([50, 50])[1]
    answer = holder(frame, Means(), **settings).answer(agreed.sums([50, 50])).reshape(3, 2)
    lean = chosen.mean.theta * np.array([0.0, 1.0])  # GRADE 2 is the centre
    assert answer[0, 1] == np.rint(64 * (0.5 + lean)).sum()


def test_files_and_frames_answer_alike(frame, tmp_path):
    agreed = plan()
    frame.assign(NAME="x").to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    expected = holder(frame, SeededNoise(1)).answer(agreed.sums(SIZES)).tolist()
    for name in ("a.csv", "a.parquet"):
        assert TableHolder(agreed, tmp_path / name, SeededNoise(1)).answer(agreed.sums(SIZES)).tolist() == expected


def test_text_codes_that_look_like_numbers_are_matched_as_text(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("AREA;DAYS\n01;1,5\n02;2\n01;3\n")
    columns = {"AREA": {"values": ["01", "02"]}, "DAYS": {"lower": 0, "upper": 10}}
    schema = Schema.from_dict({"columns": columns, "file": {"delimiter": ";", "decimal": ","}})
    agreed = FederatedPlan(schema, "DAYS", 3, strata=("AREA",), epsilon=1.0, delta=1e-6)
    assert TableHolder(agreed, path, ForbiddenNoise()).answer(agreed.sizes()).tolist() == [2, 1]


def question(kind="sums", **changes):
    agreed = plan()
    given = {"plan": agreed.digest, "sizes": SIZES} | changes
    return SumQuestion(kind, agreed.sums(SIZES).moduli, {k: v for k, v in given.items() if v is not None})


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (question(plan="0" * 64), "has not agreed to"),
        (question(plan=None), "has not agreed to"),
        (question(kind="rows"), "a plan only asks for"),
        (question(sizes=None), "without the sizes"),
        (question(sizes=[900, 900, 900, -1]), "without the sizes"),
        (question(sizes=[900.0] * 4), "without the sizes"),
        (question(sizes=[True, 900, 900, 900]), "without the sizes"),
        (question(sizes=[900, 900, 900]), "4 cells"),
        (question(sizes=[900, 900, 900, 1]), "fewer than two rows"),
        (question(sizes=[90_000, 900, 900, 900]), "do not follow from the plan"),
    ],
)
def test_questions_that_do_not_follow_from_the_plan_draw_no_coin(frame, asked, sentence):
    with pytest.raises(InputError, match=sentence):
        holder(frame).answer(asked)


def test_a_server_that_claims_too_few_people_is_caught_where_it_shows(frame):
    """The claim is refused if it is smaller than the number of rows of this holder.

    If the number is too large, the value of θ is not correct. This cannot be detected by a holder. See the docs.
    """
    agreed = plan()
    with pytest.raises(InputError, match="SEX=1, control than the announced total"):
        holder(frame).answer(agreed.sums([len(cells(frame)[0]) - 1, 900, 900, 900]))


def test_more_than_the_largest_share_stops_it(frame):
    settings = {"holders": 4, "missing": 1, "largest_share": 0.3}
    own = len(cells(frame)[1])
    fits, too_many = math.ceil(own / 0.3), math.floor(own / 0.3) - 4
    agreed = plan(**settings)
    assert holder(frame, SeededNoise(1), **settings).answer(agreed.sums([900, fits, 900, 900])).any()
    with pytest.raises(InputError, match="SEX=1, treated than the plan's largest share allows"):
        holder(frame, **settings).answer(agreed.sums([900, too_many, 900, 900]))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"DAYS": 10.01}, "outside its declared bounds"),
        ({"DAYS": -0.01}, "outside its declared bounds"),
        ({"SEX": 3}, "SEX"),
        ({"NEW": 7}, "NEW"),
    ],
)
@pytest.mark.parametrize("kind", ["sizes", "sums"])
def test_rows_that_do_not_fit_are_refused_without_a_coin_or_a_quote(frame, change, sentence, kind):
    for name, value in change.items():
        frame.loc[5, name] = value
    agreed = plan()
    with pytest.raises(InputError, match=sentence) as caught:
        holder(frame).answer(agreed.sizes() if kind == "sizes" else agreed.sums(SIZES))
    assert not any(str(value) in str(caught.value) for value in change.values())


# --- The state folder


def test_each_question_is_answered_once_and_no_number_is_kept(frame, tmp_path):
    agreed, state = plan(), tmp_path / "state"
    own = holder(frame, SeededNoise(1), state)
    own.answer(agreed.sizes())
    own.answer(agreed.sums(SIZES))
    for asked in (agreed.sizes(), agreed.sums(SIZES), agreed.sums([800, 900, 900, 900])):
        with pytest.raises(InputError, match=f"already answered the question for {asked.kind}"):
            holder(frame, state=state).answer(asked)
    notes = list(state.iterdir())
    assert len(notes) == 2
    assert [note.read_bytes() for note in notes] == [b"", b""]
    assert (os.stat(state).st_mode & 0o777, os.stat(notes[0]).st_mode & 0o777) == (0o700, 0o600)
    holder(frame, SeededNoise(1), state, epsilon=0.5).answer(plan(epsilon=0.5).sizes())  # this is another plan


def test_of_two_at_once_one_is_refused(frame, tmp_path, monkeypatch):
    """The file must be created exclusively, so that the question is not answered by two processes at the same time."""
    own = holder(frame, state=tmp_path / "state")
    own.answer(plan().sizes())
    real = TableHolder._check_once
    passed = []

    def late(self, kind):
        if not passed:
            passed.append(kind)  # the check was before the file of the other process
            return
        real(self, kind)

    monkeypatch.setattr(TableHolder, "_check_once", late)
    with pytest.raises(InputError, match="already"):
        own.answer(plan().sizes())


def test_a_refusal_leaves_the_question_open(frame, tmp_path):
    bad = frame.copy()
    bad.loc[5, "DAYS"] = 11
    with pytest.raises(InputError, match="bounds"):
        holder(bad, state=tmp_path / "state").answer(plan().sizes())
    assert holder(frame, state=tmp_path / "state").answer(plan().sizes()).sum() > 0
