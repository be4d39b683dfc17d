"""Tests of the iterator that makes the next item while the current item is used."""

import threading

import pytest

from equistrata.data.sources import ahead


def test_the_next_item_is_made_while_the_caller_works():
    made = threading.Semaphore(0)

    def items():
        for item in range(5):
            made.release()
            yield item

    for item in ahead(items()):
        if item < 4:
            assert made.acquire(timeout=5)  # the current item
            assert made.acquire(timeout=5)  # the next item, which was not requested
            made.release()


@pytest.mark.parametrize("items", [[], [None, 0, ""], list(range(100))])
def test_the_order_and_falsy_items_stay(items):
    assert list(ahead(iter(items))) == items


def test_an_error_comes_out_at_its_place():
    def items():
        yield 1
        raise KeyError("later")

    following = ahead(items())
    assert next(following) == 1
    with pytest.raises(KeyError, match="later"):
        next(following)


def test_a_caller_may_stop_early():
    given = []

    def endless():
        while True:
            given.append(1)
            yield 1

    for _ in ahead(endless()):
        break
    assert len(given) <= 2
    assert threading.active_count() < 20
