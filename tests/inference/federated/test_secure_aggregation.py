"""Tests of sums modulo M with missing holders and invalid answers."""

import numpy as np
import pytest

from equistrata.errors import InputError
from equistrata.inference.federated.aggregation import InProcessAggregator, SumQuestion, TooFewHolders, add_modulo


class Fixed:
    def __init__(self, *numbers):
        self.numbers = numbers
        self.asked = []

    def answer(self, question):
        self.asked.append(question.kind)
        return np.array(self.numbers, dtype=np.int64)


QUESTION = SumQuestion("test", (10, 1000))


def test_sums_wrap_at_the_modulus():
    assert add_modulo([np.array([7, 7]), np.array([7, 7])], (10, 1000)).tolist() == [4, 14]
    assert add_modulo([], (10, 1000)).tolist() == [0, 0]


@pytest.mark.parametrize("numbers", [(10, 0), (-1, 0), (0,), (0, 0, 0)])
def test_answers_that_do_not_fit_are_refused(numbers):
    with pytest.raises(InputError, match="holder's answer"):
        InProcessAggregator([Fixed(*numbers)]).total(QUESTION)


def test_holders_that_drop_out_are_left_out_and_not_asked():
    holders = [Fixed(1, 10), Fixed(2, 20), Fixed(3, 30), Fixed(4, 40)]
    aggregator = InProcessAggregator(holders, needed=3, dropped=frozenset({1}))
    total = aggregator.total(QUESTION)
    assert total.sums.tolist() == [8, 80]
    assert total.holders == 3
    assert [len(holder.asked) for holder in holders] == [1, 0, 1, 1]
    assert aggregator.holders == 4
    assert aggregator.simulated
    assert "simulation" in aggregator.name


def test_too_many_drop_outs_stop_it_before_anybody_answers():
    holders = [Fixed(1, 1), Fixed(2, 2), Fixed(3, 3)]
    with pytest.raises(TooFewHolders, match="only 1 holders stayed, but 2") as caught:
        InProcessAggregator(holders, needed=2, dropped=frozenset({0, 2})).total(QUESTION)
    assert (caught.value.stayed, caught.value.needed) == (1, 2)
    assert not any(holder.asked for holder in holders)
    with pytest.raises(TooFewHolders):
        InProcessAggregator([]).total(QUESTION)
