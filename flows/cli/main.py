"""The command line: `equistrata --help` names the commands.

Every field of `ReleaseConfig` is an option of `equistrata release`, made from the model itself.
"""

from __future__ import annotations

import errno
import inspect
import json
import os
import sys
import types
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Union, get_args, get_origin

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from equistrata.errors import InputError
from equistrata.flows.cli.audit import AUDIT_HELP, audit_command
from equistrata.flows.cli.budget import budget_app
from equistrata.flows.cli.federate import federate_answer_command, federate_command
from equistrata.flows.cli.plan import plan_command
from equistrata.flows.cli.publish import PUBLISH_HELP, publish_command
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.inside import SCORES, for_a_person, private_folder
from equistrata.flows.run.disk import disk_full
from equistrata.flows.run.foreground import foreground, progress_bars

if TYPE_CHECKING:
    from equistrata.flows.release.plan import Plan

FAILED, BAD_INPUT = 1, 2

app = typer.Typer(
    help="Private, fair releases of synthetic microdata, with an account of their price.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
schema_app = typer.Typer(help="Look at schemas.", no_args_is_help=True)
app.add_typer(schema_app, name="schema")
app.add_typer(budget_app, name="budget")

out = Console()
err = Console(stderr=True)

RELEASE_HELP = """Make a release: synthetic rows, measurements, means, a card, and (apart) internal scores.

[bold]Examples[/bold]

  equistrata release --output my-release

  equistrata release --source folktables --root-dir acs --state NY --year 2018 --strata SEX,RAC1P --output ny

  equistrata release --source csv --input people.csv --schema people.yaml --strata SEX --epsilon 0.5 --output out

  equistrata release --config monthly.yaml --output releases/2026-11

Options win over the config file; (epsilon, delta) is the price of the whole release.
"""


def main() -> None:
    """Run the command line; bad input ends with one sentence and exit code 2."""
    try:
        _check_working_folder()
        app()
    except InputError as error:
        if type(error).__name__ != "AlreadyMade":
            _fail(str(error), BAD_INPUT)
        out.print(str(error), markup=False, highlight=False, soft_wrap=True)  # what was asked for is there
    except Exception as error:
        # By name: their modules load much, and are loaded already if one of these was raised.
        if type(error).__name__ in ("StepFailed", "FlowerFailed", "RowsMissing"):
            _fail(str(error), FAILED)
        if type(error).__name__ in ("LedgerError", "BudgetExceeded"):
            _fail(str(error), BAD_INPUT)
        if isinstance(error, OSError) and (sentence := _of_the_system(error)) is not None:
            _fail(sentence, BAD_INPUT)
        if "Failed to reach API" in str(error):
            _fail(
                "no Prefect server answers at PREFECT_API_URL; start one (prefect server start) or unset it", BAD_INPUT
            )
        raise


def _check_working_folder() -> None:
    """Raise InputError if the folder that the command was started in was removed: relative paths, and more, mean nothing there."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise InputError("the working folder is not there any more; change to one that is") from None


def _of_the_system(error: OSError) -> str | None:
    """What a file system refuses whatever the file is for; None for what is no case of that."""
    if error.errno == errno.ENAMETOOLONG:
        name = str(error.filename or "")
        shown = name if len(name) <= 80 else f"{name[:40]}…{name[-39:]}"
        return f"{shown!r} is too long for a name or path on this system; give a shorter one"
    full = disk_full(error)
    return None if full is None else str(full)


def _fail(sentence: str, code: int) -> NoReturn:
    err.print(f"[bold red]error:[/] {escape(sentence)}", soft_wrap=True, highlight=False)
    sys.exit(code)


def _options_of(model: type[ReleaseConfig]) -> list[inspect.Parameter]:
    """One keyword parameter per field of the model, unset by default so that a config file can speak."""
    parameters = []
    for name, field in model.model_fields.items():
        option = (field.alias or name).replace("_", "-")
        flag = f"--{option}/--no-{option}" if field.annotation is bool else f"--{option}"
        default = field.get_default(call_default_factory=True)
        shown = ",".join(default) if isinstance(default, tuple) else default
        described = f"{field.description}" + (f" [dim]\\[default: {shown}][/dim]" if shown not in (None, "") else "")
        info = typer.Option(flag, help=described, show_default=False, metavar=_metavar(field.annotation))
        kind = _option_type(field.annotation)
        parameters.append(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, info]
            )
        )
    return parameters


def _inner(annotation: Any) -> Any:
    """The type itself, where None may stand for it, without what checks it."""
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _option_type(annotation: Any) -> Any:
    kind = _inner(annotation)
    return kind if kind in (bool, int, float) else str


def _metavar(annotation: Any) -> str | None:
    kind = _inner(annotation)
    if get_origin(kind) is tuple:
        return "A,B,…"
    if kind in (bool, int, float, str):
        return None
    return "|".join(str(choice) for choice in get_args(kind))


def _with_config_options(command: Callable[..., None]) -> Callable[..., None]:
    signature = inspect.signature(command)
    own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    command.__signature__ = signature.replace(parameters=[*own, *_options_of(ReleaseConfig)])  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in command.__signature__.parameters.values()}  # type: ignore[attr-defined]
    return command


@app.command("release", help=RELEASE_HELP)
@_with_config_options
def release_command(
    *,
    config: Annotated[Path | None, typer.Option("--config", help="YAML file with any of the settings below.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show Prefect's own log.")] = False,
    **settings: Any,
) -> None:
    """See RELEASE_HELP."""
    given = {name.rstrip("_"): value for name, value in settings.items() if value is not None}
    resolved = ReleaseConfig.load(config, **given) if config else ReleaseConfig.build(**given)
    from equistrata.flows.release.undertaking import prepare, try_place, with_release_id

    resolved = with_release_id(resolved.at(datetime.now(UTC)))
    # Everything that can be said to be wrong without the rows is said at once.
    plan, account, _ = prepare(resolved)
    try_place(resolved)
    if account is not None:
        err.print(f"release {account.release} of data set {account.dataset}", markup=False, highlight=False)
    _tell_if_long(plan)
    _run_and_report(resolved, verbose, len(plan.strata.keys))


def _tell_if_long(plan: Plan) -> None:
    from equistrata.flows.release.size import warning

    sentence = warning(plan)
    if sentence is not None:
        err.print(f"[bold yellow]note:[/] {escape(sentence)}", soft_wrap=True, highlight=False)


@app.command("resume")
def resume_command(
    release: Annotated[
        str | None,
        typer.Argument(help="The release's id, or its output folder; without one, list what can be resumed."),
    ] = None,
    give_up: Annotated[
        bool, typer.Option("--discard", help="Give it up instead: it stays charged, and the ledger has it as failed.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", help="The folder it shall become, if its own place is taken or lost.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes that fit strata, from now on.")] = None,
    ledger: Annotated[
        str | None,
        typer.Option("--ledger", help="With --discard: the ledger, if this machine kept nothing of the release."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show Prefect's own log.")] = False,
) -> None:
    """Go on with a charged release that was killed or failed, from what it has paid for.

    What was measured is used again at no cost. Noise that may have been drawn and was not saved is charged again before it is
    drawn again; the ledger and the card say so.

    [bold]Example[/bold]: equistrata resume monthly-3f08d60b7c11
    """
    from equistrata.flows.run.journal import STATE_VARIABLE, Journal, state_folder
    from equistrata.flows.run.workspace import remove_dead_workspaces

    # Even where there is nothing to resume: a run may have died with its release whole and its rows still on the disk.
    remove_dead_workspaces()
    if release is None:
        _list_resumable()
        return
    journal = Journal.find(release)
    if journal is None:
        _without_journal(release, ledger, give_up)
        return
    place = None if output is None else os.path.abspath(output)  # before the working directory changes
    os.environ[STATE_VARIABLE] = str(state_folder())  # relative, it would be another one there
    try:
        os.chdir(journal.folder)
    except OSError:
        raise InputError(
            f"release {release!r} was begun in {str(journal.folder)!r}, which is not there any more; bring it back"
        ) from None
    if give_up:
        from equistrata.flows.release.undertaking import discard

        discard(journal)
        out.print(f"given up: {journal.root.name}; its charge stays", markup=False, highlight=False)
        return
    changes = {"workers": workers, "output": place}
    config = ReleaseConfig.build(
        **journal.config.public() | {name: value for name, value in changes.items() if value is not None}
    )
    from equistrata.flows.release.undertaking import prepare, try_place

    plan, _, _ = prepare(config)
    try_place(config)
    _tell_if_long(plan)
    _run_and_report(config, verbose, len(plan.strata.keys))


app.command("audit", help=AUDIT_HELP)(audit_command)
app.command("publish", help=PUBLISH_HELP)(publish_command)
app.command("plan")(plan_command)
app.command("federate")(federate_command)
app.command("federate-answer", hidden=True)(federate_answer_command)


def _list_resumable() -> None:
    from equistrata.flows.run.journal import Journal, state_folder

    journals = Journal.all()
    for journal in journals:
        out.print(f"{journal.root.name}  →  {journal.output}", markup=False, highlight=False, soft_wrap=True)
    if not journals:
        out.print(f"nothing to resume in {state_folder()}", markup=False, highlight=False, soft_wrap=True)


def _without_journal(release: str, ledger: str | None, give_up: bool) -> None:
    """A release of which this machine keeps nothing: it is whole, or it can only be given up."""
    from equistrata.flows.run.journal import Journal, state_folder, unreadable_sentence

    unreadable = Journal.unreadable(release)
    if give_up:
        from equistrata.flows.config.places import place_of
        from equistrata.flows.release.undertaking import give_up_charges
        from equistrata.privacy.ledger.ledger import Ledger

        count = give_up_charges(Ledger(place_of(ledger).url), release)
        if unreadable is not None:
            rmtree(unreadable)
        out.print(f"given up: {release}; {count} of its charges marked failed", markup=False, highlight=False)
        return
    if unreadable is not None:
        raise InputError(unreadable_sentence(release))
    try:
        told = json.loads((Path(release) / "card.json").read_text("utf-8"))["ledger"]["release_id"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"nothing is kept of release {release!r} in {str(state_folder())!r}, so there is nothing to resume; if the ledger "
            f"has it as reserved, equistrata resume --discard {release} marks it failed"
        ) from None
    out.print(f"whole already: {told} in {release}", markup=False, highlight=False, soft_wrap=True)


def _run_and_report(config: ReleaseConfig, verbose: bool, strata: int) -> None:
    try:
        with progress_bars(err) as listener:
            folder = run_release(config, listener, verbose)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            err.print("stopped")
        _tell_what_is_kept(config)
        raise
    if folder is None:
        from equistrata.flows.release.undertaking import AlreadyMade

        raise AlreadyMade(
            f"release {config.release_id!r} was made by another run meanwhile and is whole; there is nothing to do"
        )
    if not (folder / "card.json").exists():
        out.print(f"{config.release_id} was whole and charged already, and has been moved from {folder}", markup=False)
        return
    _report(folder, strata)


def _tell_what_is_kept(config: ReleaseConfig) -> None:
    """After a failure: how to go on, if anything was charged and no other run is at it."""
    if config.release_id is None or config.dataset is None:
        return
    from equistrata.flows.run.journal import Journal

    journal = Journal.of(config.release_id)
    if journal is not None and not journal.untouched and journal.free:
        err.print(f"kept: equistrata resume {config.release_id}", markup=False, highlight=False)


def run_release(config: ReleaseConfig, listener: Callable[[str, int, int], None], verbose: bool = False) -> Path | None:
    """Run the release flow in this process, with or without a Prefect server configured.

    Returns the release's folder; None if another run had made this release meanwhile.
    """
    with foreground(listener, verbose):
        from equistrata.flows.release.flow import release

        folder = release(config)
        return None if folder is None else Path(folder)


@app.command("score")
def score_command(
    real: Annotated[Path, typer.Argument(help="The real rows that the synthetic table was made from (coded CSV).")],
    test: Annotated[Path, typer.Argument(help="Held-out real rows, for the classifiers.")],
    synthetic: Annotated[Path, typer.Argument(help="The synthetic rows.")],
    strata: Annotated[str, typer.Option(help="Columns that define strata, as SEX,RAC1P.")] = "",
    target: Annotated[str | None, typer.Option(help="The column that classifiers predict.")] = None,
    min_share: Annotated[float, typer.Option(help="Strata under this share of the real rows are left out.")] = 0.001,
    quick: Annotated[bool, typer.Option("--quick", help="No classifiers.")] = False,
    models: Annotated[
        str, typer.Option(help="Classifiers: random_forest,logistic_regression,gradient_boosting.")
    ] = "random_forest",
    baseline: Annotated[bool, typer.Option("--baseline", help="Train the classifiers on the real rows too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Score any synthetic table against real rows (exact scores: internal, not private).

    [bold]Example[/bold]: equistrata score real.csv test.csv synthetic.csv --strata SEX,RAC1P --target ESR --json
    """
    from equistrata.data.sources import read_frame
    from equistrata.eval.scores.scores import score

    tables = {name: read_frame(path) for name, path in (("real", real), ("test", test), ("synthetic", synthetic))}
    scores = score(
        tables["synthetic"],
        tables["real"],
        [name.strip() for name in strata.split(",") if name.strip()],
        held_out=None if quick else tables["test"],
        target=target,
        min_share=min_share,
        classifiers=tuple(name.strip() for name in models.split(",") if name.strip()),
        baseline=baseline,
    )
    if as_json:
        print(json.dumps(scores.to_dict(), indent=2))
    else:
        out.print(_score_table(scores.to_dict()))


@schema_app.command("check")
def schema_check(
    schema: Annotated[str, typer.Argument(help="A schema file, or the name of a built-in one.")],
    table: Annotated[Path | None, typer.Option("--input", help="A CSV or Parquet table to check against it.")] = None,
    coded: Annotated[bool, typer.Option("--coded", help="The table holds released codes.")] = False,
) -> None:
    """Check a schema file, and that a table fits it.

    [bold]Example[/bold]: equistrata schema check people.yaml --input people.csv
    """
    from equistrata.data.schema import Schema
    from equistrata.data.sources import FileSource
    from equistrata.data.table import CodedTable, numbers

    loaded = Schema.load(schema)
    if table is not None:
        used = loaded.coded() if coded else loaded
        names = used.default or used.names
        for frame in FileSource(str(table)).batches(names):
            CodedTable.encode(frame, used.select([name for name in names if used[name].discrete]))
            for name in names:
                if not used[name].discrete:
                    numbers(frame[name], used[name])
    grid = Table(title=f"schema {escape(loaded.name)}", caption=f"SHA-256 {loaded.digest[:16]}…", title_justify="left")
    for heading in ("column", "kind", "codes", "missing", "label"):
        grid.add_column(heading)
    for column in loaded.columns:
        kind = "values" if not column.numeric else f"{column.lower:g} to {column.upper:g}"
        codes = str(column.size) if column.discrete else "not binned"
        missing = "—" if column.missing is None else str(column.missing)
        grid.add_row(escape(column.name), kind, codes, escape(missing), escape(column.label))
    out.print(grid)
    out.print(f"{len(loaded.impossible)} impossible combinations declared; target: {escape(loaded.target or 'none')}.")
    if table is not None:
        out.print(f"[green]{escape(table.name)} fits the schema.[/]")


@app.command("sources")
def sources_command() -> None:
    """List where rows can come from, and the schemas that come along."""
    from equistrata.data.schema import Schema, built_in_schemas

    grid = Table(title="sources", title_justify="left", show_lines=False)
    grid.add_column("--source")
    grid.add_column("what it is")
    grid.add_column("needs")
    grid.add_row("sample", "simulated people, built in, offline (the default)", "nothing")
    grid.add_row("folktables", "US census ACS person records", "--state, --year, --root-dir or --download")
    grid.add_row("csv", "your table, one row per person", "--input, --schema")
    grid.add_row("parquet", "your table, one row per person", "--input, --schema")
    out.print(grid)
    schemas = Table(title="built-in schemas", title_justify="left")
    schemas.add_column("--schema")
    schemas.add_column("columns")
    for name in built_in_schemas():
        schemas.add_row(name, ", ".join(Schema.load(name).names))
    out.print(schemas)


def _report(folder: Path, strata: int) -> None:
    card = json.loads((folder / "card.json").read_text("utf-8"))
    guarantee = card["guarantee"]
    out.print(f"[bold green]released[/] {escape(str(folder))}", soft_wrap=True, highlight=False)
    out.print(
        f"{escape(card['name'])}: {card['rows']:,} rows, [bold]ε = {guarantee['epsilon']:g}, δ = {guarantee['delta']:g}[/] "
        f"(ρ = {guarantee['rho']:.6g}), {strata} strata",
        highlight=False,
    )
    if isinstance(card["ledger"], dict):
        charged, left = card["ledger"], card["ledger"]["left"]
        out.print(
            f"charged to {charged['dataset']} as {charged['release_id']}; left: ρ = {left['rho']:.6g} "
            f"(ε = {left['epsilon']:.4g} at δ = {left['delta']:g})",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        for charge in charged["charges"][1:]:
            out.print(
                f"[bold yellow]charged again[/]: ρ = {charge['rho']:.6g}, {escape(charge['reason'])}", highlight=False
            )
    if not card["private"]:
        out.print("[bold yellow]not private[/]: seeded noise; for tests and benchmarks only")
    means = folder / "means.json"
    if means.exists():
        out.print(_means_table(json.loads(means.read_text("utf-8"))))
    scores = private_folder(folder) / SCORES
    if not scores.exists():
        return
    if for_a_person():
        out.print(_score_table(json.loads(scores.read_text("utf-8"))))
    out.print(f"exact scores, not to be published: {scores}", markup=False, soft_wrap=True, highlight=False)


SCORE_NOTES = {
    "parity_error": "relative errors of the means of columns that define no strata, summed over strata; 0 is best",
    "maximum_disparity": "worst relative error of a mean in a stratum",
    "workload3": "3-way marginals, L1 distance; 0 is best, 2 is worst",
    "workload3_by_stratum": "the same within strata, averaged",
    "accuracy": "random forest, trained on synthetic, tested on held-out real rows",
    "dpr": "demographic parity ratio over strata; 1 is even",
    "fnr_diff": "largest gap of false-negative rates over strata; 0 is even",
}


def _score_table(scores: dict[str, Any]) -> Table:
    grid = Table(title="scores (exact: internal, not to be published)", title_justify="left")
    grid.add_column("score")
    grid.add_column("value", justify="right")
    grid.add_column("what it says")
    for name, note in SCORE_NOTES.items():
        if scores.get(name) is not None:
            grid.add_row(name, f"{scores[name]:.4f}", note)
    for model, utility in scores.get("classifiers", {}).items():
        for rows, result in utility.items():
            grid.add_row(f"accuracy: {model}", f"{result['accuracy']:.4f}", f"trained on {rows} rows")
    return grid


def _means_table(means: dict[str, Any]) -> Table:
    grid = Table(title="private means", title_justify="left")
    for heading in ("column", "estimator", "mean", "interval"):
        grid.add_column(heading, justify="left" if heading in ("column", "estimator") else "right")
    for column, estimates in means["outcomes"].items():
        for kind, e in estimates.items():
            grid.add_row(escape(column), kind, f"{e['value']:.5g}", f"{e['lower']:.5g} to {e['upper']:.5g}")
    return grid


if __name__ == "__main__":
    main()
