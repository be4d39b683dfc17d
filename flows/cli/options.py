"""Creation of commands from settings models.

The fields define the names, types, defaults and help texts of the options.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import typer
from pydantic import BeforeValidator
from pydantic.fields import FieldInfo
from rich.markup import escape

from equistrata.errors import InputError
from equistrata.flows.config.settings import Given, OptionName, Settings, group_of

Run = TypeVar("Run", bound=Callable[..., None])

app = typer.Typer(
    help="Private, fair releases of synthetic microdata, with an account of their privacy cost.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
LONGEST_METAVAR = 16  # characters; longer lists of choices are part of the help text, so that its column is not narrow
HELP_ALL = "help_all"  # the key of the option --help-all
COMMAND_GROUPS = {
    "schema": typer.Typer(help="Draft, confirm and check schemas.", no_args_is_help=True),
    "budget": typer.Typer(
        help="Manage the lifetime budget of each data set, and show what each release has cost.", no_args_is_help=True
    ),
    "series": typer.Typer(
        help="Show and check a series of releases, which share a budget and learn from each other.",
        no_args_is_help=True,
    ),
    "setup": typer.Typer(help="Create environments for the packages of other projects.", no_args_is_help=True),
}
for _group in COMMAND_GROUPS:
    app.add_typer(COMMAND_GROUPS[_group], name=_group)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"equistrata {version('equistrata')}")
        raise typer.Exit


@app.callback()
def _options_of_all(
    _: Annotated[
        bool,
        typer.Option(
            "--version", "-V", help="Show the version and exit.", callback=_print_version, is_eager=True, metavar=" "
        ),
    ] = False,
) -> None: ...


def command(
    name: str,
    model: type[Settings],
    rest: type[Settings] | None = None,
    *,
    hidden: bool = False,
    panels: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[Run], Run]:
    """Register a function as a command. Its docstring is the help text.

    Parameters
    ----------
    name : str
        The name of the command, including the name of its group.
    model : type of Settings
        The settings model. The function receives a validated instance of it.
    rest : type of Settings or None, default=None
        A model with further options. The function receives the given options as a dict, so that a configuration file
        can provide the others.
    hidden : bool, default=False
        If True, the command is not listed in the help text.
    panels : mapping of str to str, default={}
        The help panel of each option, by its key. Options in a panel are only shown by --help-all. All other options
        are also shown by --help.

    Returns
    -------
    callable
        The decorator.
    """
    models = [model] if rest is None else [model, rest]

    def register(run: Run) -> Run:
        def invoke(**values: Any) -> None:
            values.pop(HELP_ALL, None)
            run(model.build(**_given(model, values)), *(_given(each, values) for each in models[1:]))

        parameters = [_parameter(key, field, panels.get(key)) for each in models for key, field in _options(each)]
        order = [None, *dict.fromkeys(panels.values())]
        parameters.sort(key=lambda parameter: order.index(panels.get(parameter.name)))
        if panels:
            by_name = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(HELP_ALL, by_name, default=False, annotation=_HELP_ALL))
        invoke.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        invoke.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        # Lines are joined, because they are wrapped again to the width of the terminal.
        paragraphs = re.sub(r"(?<=\S)\n(?=\S)", " ", inspect.getdoc(run) or "")
        group, _, last = name.rpartition(" ")
        COMMAND_GROUPS.get(group, app).command(last, help=paragraphs, hidden=hidden)(invoke)
        return run

    return register


def _show_all(context: typer.Context, wanted: bool) -> None:
    if wanted:
        for parameter in context.command.params:
            if hasattr(parameter, "hidden"):
                parameter.hidden = False
        print(context.get_help())
        raise typer.Exit


_HELP_ALL = Annotated[
    bool, typer.Option("--help-all", help="Show all options and exit.", callback=_show_all, is_eager=True, metavar=" ")
]


def _options(model: type[Settings]) -> Iterator[tuple[str, FieldInfo]]:
    """Yield the name and the field of each option.

    For a group of settings, the name starts with the name of the group.
    """
    for key, field in model.model_fields.items():
        inner = group_of(field)
        yield from [(key, field)] if inner is None else [(f"{key}_{name}", each) for name, each in _options(inner)]


def _parameter(key: str, field: FieldInfo, panel: str | None) -> inspect.Parameter:
    """Return the keyword parameter for typer.

    It is None if it is not given, so that a configuration file can set it.
    """
    kind, checks = _kind(field)
    by_flag, choices = Given.BY_FLAG in checks, get_args(kind) if get_origin(kind) is Literal else ()
    taken, metavar, flag = kind, None, f"--{_called(key, field, checks)}"
    if kind is bool:
        flag += "" if by_flag else flag.replace("--", "/--no-", 1)
    elif choices:
        listed = "|".join(map(str, choices))
        taken, metavar = (bool, None) if by_flag else (str, listed if len(listed) <= LONGEST_METAVAR else "<choice>")
        flag = "/".join(f"--{choice}" for choice in choices) if by_flag else flag
    elif get_origin(kind) is tuple:
        several = _several(kind, checks)
        taken, metavar = (list[get_args(kind)[0]], None) if several else (str, "A,B,…")  # type: ignore[misc]
    elif kind not in (int, float, Path):
        taken = str
    if Given.BY_PLACE not in checks and taken is not bool and get_origin(taken) is not list:
        metavar = metavar or f"<{taken.__name__.lower()}>"
        taken = list[taken]  # type: ignore[valid-type] # click ignores an option that is repeated, but `_once` reports it
    described = escape(str(field.description))
    if metavar == "<choice>":
        described += f" [dim]\\[choices: {', '.join(map(str, choices))}][/dim]"
    described += "" if kind is bool and by_flag else _default(field)
    if Given.BY_PLACE in checks and field.alias:
        metavar = field.alias  # the key of the field can end with an underscore
    if taken is bool:
        metavar = " "  # otherwise typer shows <bool>, although a flag does not have a value
    shown: dict[str, Any] = {
        "help": described, "show_default": False, "metavar": metavar, "rich_help_panel": panel,
        "hidden": panel is not None,
    }  # fmt: skip
    info = typer.Argument(**shown) if Given.BY_PLACE in checks else typer.Option(flag, **shown)
    needed = field.is_required() or (Given.BY_PLACE in checks and get_origin(kind) is tuple)
    return inspect.Parameter(
        key,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if needed else None,
        annotation=Annotated[taken if needed else taken | None, info],
    )


def _kind(field: FieldInfo) -> tuple[Any, list[Any]]:
    """Return the type of a field without None, and its validators."""
    kind, checks = field.annotation, list(field.metadata)
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(part for part in get_args(kind) if part is not type(None))
    if get_origin(kind) is Annotated:
        kind, *more = get_args(kind)
        checks += more
    return kind, checks


def _given(model: type[Settings], values: dict[str, Any], group_name: str = "") -> dict[str, Any]:
    """Return the settings of a model that were given on the command line.

    For two flags, the value is the selected choice.
    """
    given: dict[str, Any] = {}
    for key, field in model.model_fields.items():
        inner = group_of(field)
        if inner is not None:
            group = _given(inner, {name: values[f"{key}_{name}"] for name, _ in _options(inner)}, f"{key}_")
            given |= {key: group} if group else {}
            continue
        kind, checks = _kind(field)
        if values[key] not in (None, []):
            if isinstance(values[key], list) and get_origin(kind) is not list and not _several(kind, checks):
                values[key] = _once(
                    f"--{_called(group_name + key, field, checks)}", values[key], get_origin(kind) is tuple
                )
            chosen = get_origin(kind) is Literal and Given.BY_FLAG in checks
            given[field.alias or key] = get_args(kind)[not values[key]] if chosen else values[key]
    return given


def _several(kind: Any, checks: list[Any]) -> bool:
    """Return True if the values of a setting are given separately, as arguments or as repeated options."""
    split = any(isinstance(check, BeforeValidator) for check in checks) and Given.BY_PLACE not in checks
    return get_origin(kind) is tuple and not split


def _called(key: str, field: FieldInfo, checks: list[Any]) -> str:
    """Return the name of an option without the leading dashes."""
    called = next((check.option for check in checks if isinstance(check, OptionName)), field.alias or key)
    return str(called).replace("_", "-")


def _once(option: str, given: list[Any], listed: bool) -> Any:
    """Raise an InputError if an option was given more than once."""
    if len(given) > 1:
        way = f"give all names at once, as {option} A,B" if listed else "give it once"
        raise InputError(f"{option} is given {len(given)} times, but only one of them would be used; {way}")
    return given[0]


def _default(field: FieldInfo) -> str:
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    shown = ",".join(default) if isinstance(default, tuple) else default
    return "" if shown in (None, "") else f" [dim]\\[default: {escape(str(shown))}][/dim]"
