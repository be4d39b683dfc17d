"""Errors of steps on private rows: our own sentences pass, any other exception's text is withheld."""

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
from equistrata.synth.foreign.child import ForeignFailed

P = ParamSpec("P")
Returned = TypeVar("Returned")


class StepFailed(EquistrataError, RuntimeError):
    """A step failed for a reason that is not the user's. Says where in the code, never with which value."""


def scrubbed(step: Callable[P, Returned]) -> Callable[P, Returned]:
    """Replace any exception that is not ours, since it may quote a row, by its type and place: Prefect stores texts."""

    @wraps(step)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Returned:
        try:
            return step(*args, **kwargs)
        except (InputError, BudgetExceeded, StepFailed) as error:
            replacement: Exception = type(error)(*error.args) if not isinstance(error, BudgetExceeded) else error
        except ForeignFailed as error:  # it never quotes what the other project said
            replacement = StepFailed(str(error))
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            works = [each for each in args if isinstance(each, Workspace)]
            full = disk_full(error, *(folder for work in works for folder in (work.root, work.paid)))
            replacement = full or StepFailed(
                f"{step.__name__} failed with {type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}; "
                "the original message is withheld because it may quote a row"
            )
        raise replacement from None

    return wrapper
