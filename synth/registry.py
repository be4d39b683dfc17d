"""Mechanisms and engines by name, including the synthesizers of other projects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from importlib import import_module
from typing import Any

from equistrata.errors import InputError
from equistrata.synth.foreign.named_class import NamedClass
from equistrata.synth.foreign.smartnoise import smartnoise
from equistrata.synth.measurements import Columns
from equistrata.synth.mechanisms.aim import AIM
from equistrata.synth.mechanisms.base import Mechanism
from equistrata.synth.mechanisms.gem import GEM
from equistrata.synth.models.estimation import Estimator, MirrorDescent
from equistrata.synth.names import OURS, SNSYNTH, is_foreign

ENGINES = ("numpy", "mbi")
WEIGHED_BY = ("mst", "aim")  # the synthesizers that measure the survey weight together with each column


def estimator(engine: str) -> Estimator:
    """Return the estimation engine with the given name.

    Parameters
    ----------
    engine : {"numpy", "mbi"}
        The name of the engine.

    Returns
    -------
    Estimator
        The engine.

    Raises
    ------
    InputError
        If the engine is unknown or not installed.
    """
    if engine == "numpy":
        return MirrorDescent()
    if engine != "mbi":
        raise InputError(f"unknown engine {engine!r}; choose {' or '.join(ENGINES)}")
    try:
        from equistrata.synth.models.mbi import MbiEngine
    except ImportError:
        raise InputError("engine 'mbi' is not installed; install equistrata[reference] or use engine 'numpy'") from None
    return MbiEngine()


def mechanism(name: str, engine: str = "numpy", python: str | None = None) -> Mechanism:
    """Return the synthesizer with the given name and default settings.

    Parameters
    ----------
    name : str
        The name of one of our mechanisms, or of a synthesizer from another project: `smartnoise-mst`, `snsynth:NAME`,
        `package.module:Class` or `file.py:Class`.
    engine : {"numpy", "mbi"}, default="numpy"
        The engine that estimates the models of our mechanisms.
    python : str or None, default=None
        The path of the Python interpreter in which the synthesizer from another project is installed.

    Returns
    -------
    Mechanism
        The synthesizer.

    Raises
    ------
    InputError
        If the name is unknown, or if the environment of the synthesizer is missing.

    Examples
    --------
    >>> mechanism("mst").name
    'MST'
    """
    if is_foreign(name):
        by_smartnoise = ":" not in name or name.partition(":")[0] == SNSYNTH
        return smartnoise(name, python) if by_smartnoise else NamedClass(name, python).check()
    known = name.lower()
    if known not in OURS:
        raise InputError(
            f"unknown synthesizer {name!r}; choose {' or '.join(OURS)}, or name a class as package.module:Class"
        )
    if python is not None:
        raise InputError(f"synthesizer {name!r} runs in this Python; leave out synthesizer_python")
    made: Mechanism = _ours(known, engine)
    return made


def _ours(name: str, engine: str) -> Any:
    """Return the mechanism with the given name in `OURS`. The engine estimates the models of all of its steps."""
    module, _, called = OURS[name].partition(":")
    made = getattr(import_module(f"equistrata.synth.mechanisms.{module}"), called)()
    if engine == "numpy":
        return made
    if not isinstance(getattr(made, "engine", None), MirrorDescent):
        raise InputError(f"synthesizer {name!r} trains its own model and has no engine {engine!r}; leave out 'engine'")
    engines = [each.name for each in fields(made) if each.name in ("engine", "round_engine")]
    return replace(made, **dict.fromkeys(engines, estimator(engine)))


def serving(
    own: Mechanism,
    degree: int | None = None,
    workload: Mapping[Columns, float] | None = None,
    target: str | None = None,
) -> Mechanism:
    """Return a copy of a mechanism that uses the given workload.

    Parameters
    ----------
    own : Mechanism
        The mechanism.
    degree : int or None, default=None
        The number of columns of each set of the workload. If None, the default of the mechanism is used, which is 3.
    workload : mapping of tuple of str to float or None, default=None
        Sets of columns and their weights. If None, the workload is every set of `degree` columns.
    target : str or None, default=None
        The column that is most important. Sets with this column have half of the total weight. If None, all weights are
        equal.

    Returns
    -------
    Mechanism
        The mechanism with the workload.

    Raises
    ------
    InputError
        If the mechanism does not select by a workload, or if the workload is specified in two ways.
    """
    if degree is None and not workload and target is None:
        return own
    if isinstance(own, AIM):
        if workload and (degree is not None or target is not None):
            raise InputError(
                "a workload already lists its sets of columns; leave out degree and target, or leave out the workload"
            )
        return replace(own, degree=degree or own.degree, workload=workload or None, target=target)
    asked = {"target": target, "workload": workload or None} | ({} if isinstance(own, GEM) else {"degree": degree})
    refused = next((name for name, value in asked.items() if value is not None), None)
    if refused is not None:
        raise InputError(
            f"setting {refused!r} describes the workload of synthesizer aim (gem only has degree), and "
            f"{own.name} has no workload; choose --synthesizer aim, or leave out the setting"
        )
    assert isinstance(own, GEM)
    return replace(own, degree=degree or own.degree)


def check_weighing(name: str) -> None:
    """Check that a synthesizer supports rows with a survey weight.

    Parameters
    ----------
    name : str
        The name of the synthesizer.

    Raises
    ------
    InputError
        If the synthesizer does not support a survey weight.
    """
    if name.lower() not in WEIGHED_BY:
        raise InputError(
            f"synthesizer {name!r} cannot measure the survey weight with each column; choose {' or '.join(WEIGHED_BY)}"
        )
