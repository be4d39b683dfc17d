"""The command line, `python -m paper`: `figure N` and `table ratio|experiments|proportions`."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, asdict, fields, replace
from typing import Any, get_args, get_type_hints

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from equistrata.errors import EquistrataError, InputError
from paper import federated, proportions, ratio
from paper.grid import FigureSettings

FIGURE = """Make a figure of the stratification paper: SVG and PNG with bands, its data as CSV, its tables as Markdown.
Runs are kept in the output folder and shared by the figures: a command that was stopped goes on where it was.
Scores are exact and noise is seeded, so nothing that comes out is private; ACS rows are public use."""
RATIO = "Private intervals for the ratio of two means: Tables 1 to 4 of Miao and Li (2023)."
EXPERIMENTS = """Private intervals for a difference of two arms: Tables 1 to 7 of Chen et al. (2024).
Without --variances, --arms or another change of the setting, a table is run as the paper ran it. With --variances
private it is run as equistrata would: private variances, every order, and θ up to 1/4."""
PROPORTIONS = "The talk's tables for tests of a proportion: K by both laws, and the errors of the classical test."
CHANGES = {
    "rounds": "how many experiments (10,000)",
    "arms": "people in the treated and in the control arm, as 300,700",
    "epsilons": "one ε or more, as 0.5,1,2",
    "trials": "m, one or more, as 256,1024",
    "outcomes": "gaussian or constant-effect",
    "sigma": "standard deviation of the gaussian outcomes",
    "effect": "the true difference",
    "target": "pate or sate",
    "delta": "δ",
    "level": "nominal coverage",
    "variances": "private: from noisy second moments; exact: as the paper's tables, which is not private",
}
OPTIONS = {"epsilons": "epsilon"}

out = Console()
err = Console(stderr=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; bad input ends with one sentence and exit code 2."""
    given = _parser().parse_args(arguments)
    try:
        given.run(given)
    except EquistrataError as error:
        err.print(f"error: {error}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)


def _parser() -> ArgumentParser:
    parser = ArgumentParser("python -m paper", description="The figures and tables of the papers, made again.")
    commands = parser.add_subparsers(required=True, metavar="figure|table")
    figure = commands.add_parser("figure", description=FIGURE, help="a figure of the stratification paper")
    figure.set_defaults(run=_figure)
    kinds = get_type_hints(FigureSettings)
    for field in fields(FigureSettings):
        name, kind, text = field.name, kinds[field.name], field.metadata["help"]
        if field.default is MISSING:
            figure.add_argument(name, type=kind, help=text)
        elif kind is bool:
            figure.add_argument(_flag(name), action="store_true", help=text)
        else:
            shown = f"{text} (default: {field.default})" if field.default is not None else text
            figure.add_argument(_flag(name), type=(get_args(kind) or (kind,))[0], default=field.default, help=shown)
    tables = commands.add_parser("table", description="Tables of published simulations.", help="a table of the others")
    of = tables.add_subparsers(required=True, metavar="ratio|experiments|proportions")
    for name, run, text in (("ratio", _ratio, RATIO), ("experiments", _experiments, EXPERIMENTS)):
        table = of.add_parser(name, description=text)
        table.set_defaults(run=run)
        table.add_argument("--table", type=int, default=1 if name == "ratio" else 3, help="the paper's number of it")
        table.add_argument("--seed", type=int, default=0, help="another run, of other people and noise")
        table.add_argument("--json", action="store_true", help="print JSON")
        if name == "ratio":
            table.add_argument("--repetitions", type=int, default=1000, help="how many tables of people are simulated")
            table.add_argument("--composition", default="joint", help="basic: the paper's; joint: one noise vector")
            continue
        table.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes; they change no number")
        for change, told in CHANGES.items():
            table.add_argument(_flag(OPTIONS.get(change, change)), dest=change, help=told)
    table = of.add_parser("proportions", description=PROPORTIONS)
    table.set_defaults(run=lambda given: Console(width=124).print(*proportions.tables(given.runs), sep="\n"))
    table.add_argument("--runs", type=int, default=proportions.RUNS)
    return parser


def _figure(given: Namespace) -> None:
    settings = FigureSettings(**{field.name: getattr(given, field.name) for field in fields(FigureSettings)})
    from paper.figure_runs import make_figure

    with Progress(console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task("measure")
        files = make_figure(settings, lambda done, of: progress.update(task, completed=done, total=of))
    for path in files:
        out.print(f"made {path}", soft_wrap=True, highlight=False, markup=False)
    if settings.figure != 1:
        out.print("not private: exact scores and seeded noise", highlight=False)


def _ratio(given: Namespace) -> None:
    if given.composition not in ("basic", "joint"):
        raise InputError(f"composition is {given.composition!r}; choose basic or joint")
    found = ratio.simulate_ratio(given.table, given.repetitions, given.composition, seed=_seed(given))
    cells = [asdict(cell) for cell in found]
    if given.json:
        # JSON has no NaN: a mean over no interval is null.
        print(json.dumps([{k: None if v != v else v for k, v in cell.items()} for cell in cells], indent=2))
        return
    rows = ([f"{v:.3f}" if isinstance(v, float) else str(v) for v in cell.values()] for cell in cells)
    _print(f"ratio, table {given.table}, composition {given.composition}", [*cells[0]], rows)


def _experiments(given: Namespace) -> None:
    if given.table not in federated.TABLES:
        tables = max(federated.TABLES)
        raise InputError(f"the paper has no table {given.table} of widths and coverage; choose 1 to {tables}")
    base = federated.TABLES[given.table]
    base = federated.as_users_would(base) if given.variances == "private" else base
    texts = {name: getattr(given, name) for name in CHANGES}
    setting = replace(base, **{name: _like(name, text, getattr(base, name)) for name, text in texts.items() if text})
    rows = [asdict(row) for row in federated.simulate(setting, seed=_seed(given), workers=max(given.workers, 1))]
    if given.json:
        described = asdict(setting)
        described["orders"] = None if setting.orders is None else [min(setting.orders), max(setting.orders)]
        print(json.dumps({"table": given.table, "seed": given.seed, "setting": described, "rows": rows}, indent=2))
        return
    kind = "exact variances (not private)" if setting.variances == "exact" else "private variances"
    shown = (
        [
            row["method"], str(row["trials"] or ""), f"{row['epsilon']:g}" if row["epsilon"] else "∞",
            f"{row['coverage']:.3f}", f"{row['width']:.4f}", f"{row['width_deviation']:.2e}",
        ]
        for row in rows
    )  # fmt: skip
    headings = ["method", "m", "ε", "coverage", "width", "its deviation"]
    _print(f"table {given.table}: {setting.target.upper()}, {kind}", headings, shown)


def _print(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for row in rows:
        table.add_row(*row)
    out.print(table)


def _seed(given: Namespace) -> int:
    if given.seed < 0:
        raise InputError(f"--seed is {given.seed}; give a number that is not negative")
    return int(given.seed)


def _like(name: str, text: str, default: Any) -> Any:
    """A text as what the default is: a text, a number, or numbers. Raises InputError on anything else."""
    several = isinstance(default, tuple)
    kind = type(default[0] if several else default)
    try:
        numbers = tuple(kind(part) for part in text.split(",")) if several else (kind(text),)
    except ValueError:
        numbers = ()
    count = 2 if name == "arms" else None
    if not numbers or (count is not None and len(numbers) != count):
        wanted = "a number" if not several else f"{count or 'some'} numbers with commas between them"
        raise InputError(f"{_flag(OPTIONS.get(name, name))} is {text!r}; give {wanted}")
    return numbers if several else numbers[0]


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
