"""Tests that the errors of a step with private rows do not contain any values of the rows."""

import traceback

import pytest

from equistrata.errors import InputError
from equistrata.flows.run.guard import StepFailed, scrub_errors
from equistrata.privacy.budget import Budget, BudgetExceeded, Rho

CANARY = "canary-5417"


def test_a_foreign_exceptions_text_is_dropped():
    @scrub_errors
    def step():
        raise KeyError(CANARY)

    with pytest.raises(StepFailed, match=r"step failed with KeyError at test_guard\.py") as caught:
        step()
    assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_our_own_sentences_pass():
    @scrub_errors
    def step():
        raise InputError("column 'X' is wrong; mend it")

    with pytest.raises(InputError, match="column 'X' is wrong"):
        step()


def test_a_refused_budget_passes_as_it_is():
    @scrub_errors
    def step():
        Budget(Rho(1)).spend(Rho(2), "too much")

    with pytest.raises(BudgetExceeded):
        step()


def test_an_input_error_keeps_no_link_to_what_caused_it():
    @scrub_errors
    def step():
        try:
            raise ValueError(CANARY)
        except ValueError as error:
            raise InputError("told in our words") from error

    with pytest.raises(InputError) as caught:
        step()
    assert caught.value.__cause__ is None
    assert CANARY not in "".join(traceback.format_exception(caught.value))
