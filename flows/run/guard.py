"""Errors that may leave a step on private rows: our own sentences, and nothing of any other exception's text."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from equistrata.errors import EquistrataError, InputError
from equistrata.flows.run.disk import disk_full
from equistrata.flows.run.workspace import Workspace
from equistrata.privacy.budget import BudgetExceeded

P = ParamSpec("P")
R = TypeVar("R")


class StepFailed(EquistrataError, RuntimeError):
    """A step failed for a reason that is not the user's. Says where in the code, never with which value."""


def _folders(argument: object) -> tuple[Path, ...]:
    """Where a step that is given this writes."""
    return (argument.root, argument.paid) if isinstance(argument, Workspace) else ()


def scrubbed(step: Callable[P, R]) -> Callable[P, R]:
    """Let input errors pass as they are; replace any other exception, whose text may quote a row, by its type and place.

    The orchestrator stores exception texts in its database and logs, so the original is dropped here.
    """

    @wraps(step)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return step(*args, **kwargs)
        except (InputError, BudgetExceeded, StepFailed) as error:
            replacement: Exception = type(error)(*error.args) if not isinstance(error, BudgetExceeded) else error
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            full = disk_full(error, *(folder for each in args for folder in _folders(each)))
            replacement = full or StepFailed(
                f"{step.__name__} failed with {type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}; "
                "the original message is withheld because it may quote a row"
            )
        raise replacement from None

    return wrapper
