"""How many replicates an answer takes."""

import numpy as np
import pytest
from known_relations import SCHEMA, people
from scipy.stats import t

from equistrata.analysis.answers import Answers
from equistrata.analysis.bases import implied
from equistrata.analysis.bases.grounds import FEW_REPLICATES, REPLICATES
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.data.strata import Strata
from equistrata.synth.measurements import Measurement
from equistrata.synth.registry import mechanism


def answers_of(sigma, pairs):
    """Of a table of which all columns were measured, and these pairs."""
    table = people(20_000)
    rng = np.random.default_rng(3)
    counts = {each: table.marginal(each) for each in [*((name,) for name in SCHEMA.names), *pairs]}
    found = [Measurement(each, of + rng.normal(0, sigma, of.shape), sigma) for each, of in counts.items()]
    return Answers(Evidence.of(Strata.over(SCHEMA, []), {(): found}, mechanism("mst")))


def test_few_replicates_do_where_what_was_not_measured_is_most_of_the_error():
    """Y and Z were measured with X alone, with little noise: how far the model is off them hardly depends on it."""
    answers = answers_of(20.0, [("X", "Y"), ("X", "Z"), ("X", "W")])
    found = answers.estimate("proportion", "Y", ("Z",))
    assert (found["basis"] == "implied").all()
    assert len(answers._replicated) == FEW_REPLICATES
    # The same replicates, however many there are
    again = answers_of(20.0, [("X", "Y"), ("X", "Z"), ("X", "W")])
    assert len(again.replicated()) == REPLICATES
    assert again.estimate("proportion", "Y", ("Z",)).equals(found)


def test_all_replicates_are_made_where_noise_is_most_of_the_error():
    """All of one another's cells are noise: ten draws of it would make intervals a tenth wider."""
    answers = answers_of(20.0, [("X", "Y"), ("X", "Z"), ("Y", "Z")])
    asked = answers.asked("proportion", "Y", ("Z",), None)
    moved = implied.errors(answers, asked, 0.95, 0.0)[1]
    assert len(moved) == len(answers._replicated) == REPLICATES


@pytest.mark.parametrize(("noise", "known"), [(1.0, 0.0), (1.0, 3.0), (4.0, 1.0)])
def test_an_interval_has_students_quantile_for_as_much_as_few_replicates_say(noise, known):
    """Satterthwaite (1946): n·(variance/noise)², of 200,000 draws; covered in .95 to within .004."""
    rng, draws = np.random.default_rng(0), 200_000
    off = rng.normal(0, np.sqrt(noise + known), draws)
    seen = noise * rng.chisquare(FEW_REPLICATES, draws) / FEW_REPLICATES
    far = t.ppf(0.975, implied._freedom(FEW_REPLICATES, seen, seen + known)) * np.sqrt(seen + known)
    assert np.mean(np.abs(off) <= far) == pytest.approx(0.95, abs=0.004)
