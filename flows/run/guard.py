"""Error messages of the steps that read private rows.

The errors of equistrata are passed on. For all other exceptions, the text of the message is withheld.
"""

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
    """Error that is raised if a step fails for a reason that is not caused by the user.

    The message gives the place in the code. It does not contain any value.
    """


def scrub_errors(step: Callable[P, Returned]) -> Callable[P, Returned]:
    """Replace the exceptions of other packages in a step by their type and place.

    This is necessary because a message may quote a row, and all messages are stored by Prefect.
    """

    @wraps(step)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Returned:
        try:
            return step(*args, **kwargs)
        except (InputError, BudgetExceeded, StepFailed) as error:
            replacement: Exception = type(error)(*error.args) if not isinstance(error, BudgetExceeded) else error
        except ForeignFailed as error:  # its message never quotes the output of the other project
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
