"""Checks of settings. The message of each error contains the name and the value of the setting, and its valid range.

They must not be used for values of private rows, because the message contains the value.

>>> share("alpha", 0.05)
0.05
>>> share("alpha", 5)
Traceback (most recent call last):
equistrata.errors.InputError: alpha is 5, but must lie strictly between 0 and 1; choose another
"""

from __future__ import annotations

import math
from numbers import Real
from operator import index
from typing import Any

from equistrata.errors import InputError

LEAST_LEVEL = 1e-6


def number(name: str, value: Any) -> float:
    """Check that a setting is a finite real number.

    Parameters
    ----------
    name : str
        The name of the setting.
    value : object
        The value.

    Returns
    -------
    float
        The value.

    Raises
    ------
    InputError
        If the value is not a finite real number.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise InputError(f"{name} is {value!r}, but must be a finite number; give one")
    return float(value)


def positive(name: str, value: Any) -> float:
    """Check that a setting is a finite positive number.

    Parameters
    ----------
    name : str
        The name of the setting.
    value : object
        The value.

    Returns
    -------
    float
        The value.

    Raises
    ------
    InputError
        If the value is not a finite positive number.
    """
    found = number(name, value)
    if not found > 0:
        raise InputError(f"{name} is {found:g}, but must be positive; choose a larger one")
    return found


def share(name: str, value: Any) -> float:
    """Check that a setting is strictly between 0 and 1.

    Parameters
    ----------
    name : str
        The name of the setting.
    value : object
        The value.

    Returns
    -------
    float
        The value.

    Raises
    ------
    InputError
        If the value is not a number in (0, 1).
    """
    found = number(name, value)
    if not 0 < found < 1:
        raise InputError(f"{name} is {found:g}, but must lie strictly between 0 and 1; choose another")
    return found


def confidence(level: Any) -> float:
    """Check the level of an interval.

    For levels below LEAST_LEVEL, the interval is so narrow that its width does not determine a standard error.

    Parameters
    ----------
    level : object
        The level.

    Returns
    -------
    float
        The level.

    Raises
    ------
    InputError
        If the level is not a number in [LEAST_LEVEL, 1).
    """
    found = share("level", level)
    if found < LEAST_LEVEL:
        raise InputError(f"level is {found:g}, but must be at least {LEAST_LEVEL:g}; choose a larger one")
    return found


def closed_share(name: str, value: Any) -> float:
    """Check that a setting is between 0 and 1, both included.

    Parameters
    ----------
    name : str
        The name of the setting.
    value : object
        The value.

    Returns
    -------
    float
        The value.

    Raises
    ------
    InputError
        If the value is not a number in [0, 1].
    """
    found = number(name, value)
    if not 0 <= found <= 1:
        raise InputError(f"{name} is {found:g}, but must lie between 0 and 1; choose another")
    return found


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise InputError unless a setting is one of the given choices.

    Parameters
    ----------
    name : str
        The name of the setting.
    value : object
        The value.
    choices : tuple of str
        The valid values.
    """
    if value not in choices:
        raise InputError(f"{name} is {value!r}, but must be {' or '.join(map(repr, choices))}; choose one")


def whole(name: str, value: Any, least: int) -> int:
    """Check that a setting is a whole number.

    Parameters
    ----------
    name : str
        The name of the setting.
    value : object
        The value.
    least : int
        The smallest valid value.

    Returns
    -------
    int
        The value.

    Raises
    ------
    InputError
        If the value is not a whole number, or if it is less than `least`.
    """
    try:
        found = index(value)
    except TypeError:
        raise InputError(f"{name} is {value!r}, but must be a whole number; give one") from None
    if isinstance(value, bool) or found < least:
        raise InputError(f"{name} is {value!r}, but must be a whole number of at least {least}; choose a larger one")
    return found
