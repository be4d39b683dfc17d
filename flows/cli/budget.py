"""The command line of the ledger: `equistrata budget create | show | history | verify | forecast | upgrade`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from equistrata.errors import InputError

if TYPE_CHECKING:
    from equistrata.privacy.budget import Rho
    from equistrata.privacy.ledger.ledger import Charge, Entry, Head, Ledger, SamePeople

budget_app = typer.Typer(help="Lifetime budgets, and what every release has cost.", no_args_is_help=True)
out = Console()

LedgerOption = Annotated[
    str | None,
    typer.Option("--ledger", help="Path, URL without password, or block:NAME \\[default: $EQUISTRATA_LEDGER_URL]."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DatasetArgument = Annotated[str, typer.Argument(help="The data set's name in the ledger.")]
AnyDatasetArgument = Annotated[str | None, typer.Argument(help="The data set's name; all if none is given.")]


@budget_app.command("create")
def create(
    dataset: DatasetArgument,
    epsilon: Annotated[float, typer.Option(help="ε that all releases together must keep.")],
    delta: Annotated[float, typer.Option(help="δ that all releases together must keep.")],
    same_people_as: Annotated[
        list[str] | None,
        typer.Option("--same-people-as", help="An account whose rows are the same people's; may be repeated."),
    ] = None,
    ledger: LedgerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a data set its lifetime budget; make the ledger if it is not there.

    A budget belongs to people, not to a name: rows of another account are refused under this one, unless you say
    --same-people-as. Then the prices of both add up for them, which show and verify tell.

    [bold]Example[/bold]: equistrata budget create census --epsilon 4 --delta 1e-9 --ledger ledger.db
    """
    books = _open(ledger)
    try:
        rho = books.create(dataset, epsilon, delta, same_people_as=tuple(dict.fromkeys(same_people_as or ())))
    except ValueError as error:
        raise InputError(str(error)) from None
    if as_json:
        _print({"dataset": dataset, "epsilon": epsilon, "delta": delta} | _amount("rho", rho) | _ends(books.head))
        return
    out.print(
        f"{dataset}: ε = {epsilon:g}, δ = {delta:g}, which is ρ = {float(rho):.6g}", markup=False, highlight=False
    )
    _tell_people(books, dataset)
    _tell_head(books.head)


@budget_app.command("show")
def show(dataset: AnyDatasetArgument = None, ledger: LedgerOption = None, as_json: JsonOption = False) -> None:
    """What each data set may spend, has spent, and has left; and the ledger's head, to be kept elsewhere.

    [bold]Example[/bold]: equistrata budget show --ledger ledger.db
    """
    books = _open(ledger)
    accounts = books.accounts() if dataset is None else [books.account(dataset)]
    summaries = [_summary(books, account) for account in accounts]
    if as_json:
        _print({"datasets": summaries, "same_people": _plain_people(books, dataset)} | _ends(books.head))
        return
    grid = _grid("budgets", "data set", "budget", ">ρ", ">spent", ">left", ">left as ε", ">charges")
    for each in summaries:
        grid.add_row(
            _plain(each["dataset"]), f"ε {each['epsilon']:g}, δ {each['delta']:g}", f"{each['rho']:.4g}", f"{each['spent']:.4g}",
            f"{each['left']:.4g}", f"{each['left_epsilon']:.4g}", str(each["charges"]),
        )  # fmt: skip
    out.print(grid)
    pending = sum(each["reserved"] for each in summaries)
    if pending:
        out.print(f"{pending} of the charges neither committed nor failed yet: under way, or to be resumed.")
    _tell_people(books, dataset)
    _tell_head(books.head)


@budget_app.command("history")
def history(dataset: AnyDatasetArgument = None, ledger: LedgerOption = None, as_json: JsonOption = False) -> None:
    """Every charge, what became of it, and why it was made. With --json, every entry with all its fields.

    [bold]Example[/bold]: equistrata budget history census --ledger ledger.db
    """
    books = _open(ledger)
    if as_json:
        _print({"entries": [_plain_entry(entry) for entry in books.history(dataset)]} | _ends(books.head))
        return
    names = [dataset] if dataset is not None else [account.dataset for account in books.accounts()]
    for name in names:
        grid = _grid(_plain(f"charges of {name}"), ">entry", "when (UTC)", "release", ">ρ", "outcome")
        for charge in books.charges(name):
            grid.add_row(*map(_plain, _charge_row(charge)))
        out.print(grid)
    _tell_head(books.head)


@budget_app.command("verify")
def verify(
    ledger: LedgerOption = None,
    anchor: Annotated[
        list[str] | None, typer.Option("--anchor", help="ENTRIES:HASH printed earlier; may be repeated.")
    ] = None,
    card: Annotated[
        list[Path] | None, typer.Option("--card", help="A release's card.json; its head is an anchor.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check every hash and sum of history, and that it passes through heads that were printed earlier.

    Without an anchor, nobody can tell a ledger from a whole one that was made anew; see docs/ledger.md.

    [bold]Example[/bold]: equistrata budget verify --ledger ledger.db --card releases/2026-10/card.json
    """
    from equistrata.privacy.ledger.ledger import Head

    anchors = [Head.parse(text) for text in anchor or []] + [_head_on(path) for path in card or []]
    books = _open(ledger)
    head = books.verify(anchors)
    if as_json:
        _print({"whole": True, "anchors": len(anchors), "same_people": _plain_people(books)} | _ends(head))
        return
    checked = f", through {len(anchors)} anchor{'s' * (len(anchors) != 1)}" if anchors else ""
    out.print(f"[green]whole[/]: {head.entries} entries{checked}")
    _tell_people(books)
    _tell_head(head)


@budget_app.command("upgrade")
def upgrade(ledger: LedgerOption = None) -> None:
    """Bring a ledger that an earlier version made to this one, as its steward. Its history stays as it is.

    [bold]Example[/bold]: equistrata budget upgrade
    """
    books = _open(ledger)
    books.upgrade()
    out.print("[green]up to date[/]")
    _tell_head(books.head)


@budget_app.command("forecast")
def forecast(
    dataset: Annotated[str | None, typer.Argument(help="The data set's name (or from --config).")] = None,
    epsilon: Annotated[float | None, typer.Option(help="ε of each release.")] = None,
    delta: Annotated[float | None, typer.Option(help="δ of each release \\[default: the data set's].")] = None,
    config: Annotated[Path | None, typer.Option("--config", help="A release's YAML file, for all of these.")] = None,
    releases: Annotated[int, typer.Option(min=1, help="A horizon: how many releases are still to come.")] = 12,
    ledger: LedgerOption = None,
    as_json: JsonOption = False,
) -> None:
    """How many releases the budget still allows, and which ε each may have over a horizon.

    Prices add up in zCDP (ρ), which is kinder than adding up ε: half of ε costs about a quarter of ρ.

    [bold]Example[/bold]: equistrata budget forecast census --epsilon 1 --releases 24 --ledger ledger.db
    """
    from equistrata.privacy.budget import Rho
    from equistrata.privacy.forecast import epsilon_within, releases_left

    if config is not None:
        from equistrata.flows.config.release import ReleaseConfig

        settings = ReleaseConfig.load(config)
        epsilon, delta = epsilon or settings.epsilon, delta or settings.delta
        dataset, ledger = dataset or settings.dataset, ledger or settings.ledger
    if dataset is None:
        raise InputError("name the data set to forecast, or give a --config that names one")
    books = _open(ledger)
    left = books.remaining(dataset)
    account = books.account(dataset)
    delta = delta or account.delta
    assert delta is not None
    try:
        price = None if epsilon is None else Rho.from_epsilon_delta(epsilon, delta)
        each = epsilon_within(left, releases, delta)
    except ValueError as error:
        raise InputError(str(error)) from None
    count = None if price is None else releases_left(left, price)
    if as_json:
        found = {"dataset": dataset, "delta": delta, "horizon": releases, "epsilon_each": each} | _amount("left", left)
        asked = {} if price is None else {"epsilon": epsilon, "releases_left": count} | _amount("price", price)
        _print(found | asked | _ends(books.head))
        return
    lines = [f"{dataset}: ρ = {float(left):.6g} left of {float(account.rho):.6g}."]
    if price is not None:
        lines.append(
            f"At ε = {epsilon:g}, δ = {delta:g} (ρ = {float(price):.6g}) it allows {count} more "
            f"release{'s' * (count != 1)}."
        )
    lines.append(f"For {releases} more at δ = {delta:g}, each may have ε = {each:g}.")
    out.print("\n".join(lines), markup=False, highlight=False)


def _open(named: str | None) -> Ledger:
    from equistrata.flows.config.places import place_of
    from equistrata.privacy.ledger.ledger import Ledger

    return Ledger(place_of(named).url)


def _summary(books: Ledger, account: Entry) -> dict[str, Any]:
    charges = books.charges(account.dataset)
    spent = books.spent(account.dataset)
    left = account.rho - spent
    assert account.delta is not None
    return {
        "dataset": account.dataset,
        "epsilon": account.epsilon,
        "delta": account.delta,
        "relation": account.relation,
        **_amount("rho", account.rho),
        **_amount("spent", spent),
        **_amount("left", left),
        "left_epsilon": left.epsilon(account.delta),
        "charges": len(charges),
        "reserved": sum(charge.outcome == "reserved" for charge in charges),
        "failed": sum(charge.outcome == "failed" for charge in charges),
    }


def _people(books: Ledger, dataset: str | None = None) -> list[SamePeople]:
    return [group for group in books.same_people() if dataset is None or dataset in group.datasets]


def _tell_people(books: Ledger, dataset: str | None = None) -> None:
    for group in _people(books, dataset):
        out.print(f"{group}.", markup=False, highlight=False)


def _plain_people(books: Ledger, dataset: str | None = None) -> list[dict[str, Any]]:
    return [
        {"datasets": list(group.datasets), "epsilon": group.epsilon, "delta": group.delta} | _amount("rho", group.rho)
        for group in _people(books, dataset)
    ]


def _charge_row(charge: Charge) -> list[str]:
    entry = charge.entry
    outcome = charge.outcome + (f"; {entry.reason}" if entry.reason else "")
    when = entry.at[:16].replace("T", " ")
    return [str(entry.entry), when, entry.release_id or "", f"{float(entry.rho):.4g}", outcome]


def _plain_entry(entry: Entry) -> dict[str, Any]:
    plain = asdict(entry)
    del plain["rho"], plain["spent"]
    return plain | _amount("rho", entry.rho) | _amount("spent", entry.spent) | {"parts": list(entry.parts)}


def _amount(name: str, rho: Rho) -> dict[str, Any]:
    return {name: float(rho), f"{name}_exact": str(rho.exact)}


def _ends(head: Head) -> dict[str, Any]:
    return {"head": str(head)}


def _head_on(card: Path) -> Head:
    from equistrata.privacy.ledger.ledger import Head

    try:
        return Head.parse(json.loads(card.read_text("utf-8"))["ledger"]["head"])
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{str(card)!r} is no card.json of a release that a ledger was charged for") from None


def _plain(words: str) -> Text:
    """Words of the ledger as they stand there: neither markup nor commands to the terminal."""
    return Text("".join(each if each.isprintable() else " " for each in words))


def _grid(title: str | Text, *headings: str) -> Table:
    grid = Table(title=title, title_justify="left", box=SIMPLE_HEAD)  # narrow: it must fit 80 columns
    for heading in headings:
        grid.add_column(
            heading.removeprefix(">"), justify="right" if heading.startswith(">") else "left", overflow="fold",
            no_wrap=heading.startswith("when"), min_width=24 if heading == "release" else None,
        )  # fmt: skip
    return grid


def _tell_head(head: Head) -> None:
    # Not wrapped: it is copied and compared.
    out.print(f"head {head}", markup=False, highlight=False, soft_wrap=True)


def _print(document: dict[str, Any]) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False))
