"""The commands `equistrata budget create | show | history | verify | forecast | key | upgrade`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from equistrata.data.texts.documents import read_bytes
from equistrata.data.texts.json_documents import MOST_BYTES
from equistrata.data.units.unit import Neighbours
from equistrata.errors import InputError
from equistrata.flows.cli.console import out, print_json, print_lines, table
from equistrata.flows.cli.options import command
from equistrata.flows.config.places import LedgerPlace
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.config.settings import ByPlace, Flag, Settings, UnitColumn, setting

if TYPE_CHECKING:
    from equistrata.privacy.budget import Rho
    from equistrata.privacy.ledger.ledger import Entry, Head, Ledger, SamePeople


class LedgerSettings(Settings):
    ledger: LedgerPlace | None = setting(
        None, "Path of the ledger, its URL without a password, or block:NAME. If not given, $EQUISTRATA_LEDGER_URL."
    )

    def open(self) -> Ledger:
        """Return the ledger.

        Raises
        ------
        InputError
            If no ledger is named.
        LedgerError
            If the ledger cannot be opened.
        """
        return self.opened()[0]

    def opened(self) -> tuple[Ledger, str | None]:
        """Return the ledger and the key for fingerprints, if it is given with the place of the ledger."""
        from equistrata.flows.config.places import place_of
        from equistrata.flows.run.ledgers import open_ledger

        place = place_of(self.ledger)
        return open_ledger(place), place.key


class QuerySettings(LedgerSettings):
    as_json: Flag = setting(False, "Print JSON.", alias="json")


class AccountSettings(QuerySettings):
    dataset: ByPlace[str | None] = setting(None, "Name of the data set in the ledger. If not given, all data sets.")


class CreateSettings(QuerySettings):
    dataset: ByPlace[str | None] = setting(
        None, "Name of the data set in the ledger. If not given, the one in --config."
    )
    epsilon: float = setting(..., "ε of all releases together.")
    delta: float | None = setting(None, "δ of all releases together. If not given, the one in --config.")
    config: Path | None = setting(
        None, "Configuration file of a release, with its data set, ledger, δ, unit and relation."
    )
    schema_: str | None = setting(None, "Schema of the rows, which declares the unit.", alias="schema")
    unit: UnitColumn = setting(
        None,
        "Column that identifies the unit of privacy of every release, such as the id of a person or household. If "
        "not given, the unit of --schema or --config, or else one row.",
    )
    relation: Neighbours | None = setting(
        None,
        "Neighbouring tables of every release: one unit is added or removed, or one unit is replaced by another. "
        "If not given, the one in --config, or else add-remove.",
    )
    same_people_as: tuple[str, ...] = setting((), "Account with rows of the same people. Can be repeated.")


class VerifySettings(QuerySettings):
    anchor: tuple[str, ...] = setting((), "ENTRIES:HASH that was printed earlier. Can be repeated.")
    card: tuple[Path, ...] = setting(
        (), "card.json of a release. The head in it is used as an anchor. Can be repeated."
    )


class ForecastSettings(QuerySettings):
    dataset: ByPlace[str | None] = setting(None, "Name of the data set. If not given, the one in --config.")
    epsilon: float | None = setting(None, "ε of each release.")
    delta: float | None = setting(
        None, "δ of each release. If not given, the one in --config, or else that of the data set."
    )
    config: Path | None = setting(None, "Configuration file of a release, for all of these.")
    releases: int = setting(12, "Number of releases that are still to come.", ge=1)


@command("budget create", CreateSettings)
def create_budget(settings: CreateSettings) -> None:
    """Create the lifetime budget of a data set. If the ledger does not exist, it is created as well.

    A budget belongs to people and not to a name. The rows of another account are refused unless this account is given
    by --same-people-as. In this case, the charges of both accounts are added for these people, as shown by the commands
    show and verify.

    [bold]Example[/bold]: equistrata budget create --config release.yaml --epsilon 4
    """
    from equistrata.privacy.budget import relation_of

    file = None if settings.config is None else ReleaseConfig.load(settings.config)
    if file is not None:
        names = ("delta", "dataset", "ledger", "relation")
        settings = settings.model_copy(update={name: getattr(settings, name) or getattr(file, name) for name in names})
    dataset, epsilon, delta = settings.dataset, settings.epsilon, settings.delta
    if dataset is None or delta is None:
        lacking = "the name of the data set" if dataset is None else "δ (--delta)"
        raise InputError(f"{lacking} is missing; give it, or a configuration file with --config")
    relation = relation_of(_unit_column(settings, file), settings.relation or "add-remove")
    same_people = tuple(dict.fromkeys(settings.same_people_as))
    books, key = settings.opened()
    rho = books.create(dataset, epsilon, delta, relation=relation, same_people_as=same_people, key=key)
    document = {"dataset": dataset, "epsilon": epsilon, "delta": delta, "relation": relation} | _amount("rho", rho)
    words = f"{dataset}: ε = {epsilon:g}, δ = {delta:g}, which is ρ = {float(rho):.6g}; {relation}"
    _answer(settings, books.head, document, Text(words), people=_people(books, dataset))


def _unit_column(settings: CreateSettings, file: ReleaseConfig | None) -> str | None:
    """Return the column of the unit from the settings, the configuration file or the schema, in this order."""
    if settings.unit is not None:
        return settings.unit
    if file is not None and file.unit is not None:
        return file.unit
    if settings.schema_ is not None:
        from equistrata.data.schema import Schema

        return Schema.load(settings.schema_).unit.column
    if file is None:
        return None
    from equistrata.flows.release.inputs import schema_of

    return schema_of(file).unit.column


@command("budget show", AccountSettings)
def show(settings: AccountSettings) -> None:
    """Show the budget of each data set, the spent and the remaining amount, and the head of the ledger.

    Keep a copy of the head in another place.

    [bold]Example[/bold]: equistrata budget show --ledger ledger.db
    """
    books, dataset = settings.open(), settings.dataset
    accounts = books.accounts() if dataset is None else [books.account(dataset)]
    summaries, people = [_summary(books, account) for account in accounts], _people(books, dataset)
    grid = _grid("budgets", "data set", "budget", ">ρ", ">spent", ">left", ">left as ε", ">charges")
    for each in summaries:
        amounts = (f"{each[name]:.4g}" for name in ("rho", "spent", "left", "left_epsilon"))
        budget = f"ε {each['epsilon']:g}, δ {each['delta']:g}"
        grid.add_row(Text(each["dataset"]), budget, *amounts, str(each["charges"]))
    pending = sum(each["reserved"] for each in summaries)
    under_way = (
        f"{pending} of the charges are neither committed nor failed, because their runs are under way or were killed. "
        "equistrata resume lists the releases that can be continued; equistrata resume --discard ID marks another "
        "charge as failed, such as that of a killed audit."
    )
    document = {"datasets": summaries, "same_people": _plain_people(people)}
    _answer(settings, books.head, document, grid, *[under_way][: bool(pending)], people=people)


@command("budget history", AccountSettings)
def history(settings: AccountSettings) -> None:
    """Show every charge with its outcome and its reason.

    If --json is given, every entry is shown with all of its fields.

    [bold]Example[/bold]: equistrata budget history census --ledger ledger.db
    """
    books, dataset = settings.open(), settings.dataset
    if settings.as_json:
        return _answer(settings, books.head, {"entries": [_plain_entry(entry) for entry in books.history(dataset)]})
    grids: list[Table | Text] = []
    if dataset is None:
        keys = (entry for entry in books.history() if entry.kind == "key")
        grids += [Text(f"entry {each.entry}, {each.at[:16]}, {each.who}: {each.reason}") for each in keys]
    for name in [dataset] if dataset is not None else [account.dataset for account in books.accounts()]:
        grid = _grid(Text(f"charges of {name}"), ">entry", "when (UTC)", "release", ">ρ", "outcome")
        for charge in books.charges(name):
            entry, outcome = charge.entry, charge.outcome + (f"; {charge.entry.reason}" if charge.entry.reason else "")
            when = entry.at[:16].replace("T", " ")
            row = (str(entry.entry), when, entry.release_id or "", f"{float(entry.rho):.4g}", outcome)
            grid.add_row(*map(Text, row))
        grids.append(grid)
    return _answer(settings, books.head, {}, *grids)


@command("budget verify", VerifySettings)
def verify(settings: VerifySettings) -> None:
    """Check every hash and sum of the history, and that it contains the heads that were printed earlier.

    If no anchor is given, a ledger that was replaced by a new one cannot be detected (see docs/ledger.md).

    [bold]Example[/bold]: equistrata budget verify --ledger ledger.db --card releases/2026-10/card.json
    """
    from equistrata.privacy.ledger.ledger import Head

    anchors = [Head.parse(text) for text in settings.anchor] + [_head_on(path) for path in settings.card]
    books = settings.open()
    head, people = books.verify(anchors), _people(books)
    counted = f"{head.entries} {'entry' if head.entries == 1 else 'entries'}"
    checked = f", through {len(anchors)} anchor{'s' * (len(anchors) != 1)}" if anchors else ""
    document = {"whole": True, "anchors": len(anchors), "same_people": _plain_people(people)}
    _answer(
        settings,
        head,
        document,
        f"[green]whole[/]: {counted}{checked}",
        people=people,
    )


@command("budget upgrade", LedgerSettings)
def upgrade(settings: LedgerSettings) -> None:
    """Upgrade a ledger that was created by an earlier version. The history does not change.

    This command must be run by the steward of the ledger.

    [bold]Example[/bold]: equistrata budget upgrade
    """
    books = settings.open()
    books.upgrade()
    out.print("[green]up to date[/]")
    print_lines(f"head {books.head}")


@command("budget key", LedgerSettings)
def set_key(settings: LedgerSettings) -> None:
    """Set the key for fingerprints, if the old key was lost or was not the key of the ledger.

    This command must be run by the steward of the ledger. The change is recorded in the history. Charges with
    fingerprints of another key are not compared with later ones.

    [bold]Example[/bold]: equistrata budget key --ledger ledger.db
    """
    books, key = settings.opened()
    if not books.set_key(key):
        out.print("[green]unchanged[/]: the ledger already has this key")
        return print_lines(f"head {books.head}")
    prints = (entry.fingerprint or "" for entry in books.history() if entry.kind == "reserve")
    others = sum(not each.startswith(f"key={books.key_name} ") for each in prints if each)
    out.print(f"[green]set[/]; {others} charge{'s' * (others != 1)} with another key will not be compared")
    return print_lines(f"head {books.head}")


@command("budget forecast", ForecastSettings)
def forecast(settings: ForecastSettings) -> None:
    """Show how many releases fit into the remaining budget, and the ε of each release for a given number of releases.

    Costs are added in zCDP (ρ). This is tighter than adding values of ε, because half of ε costs about a quarter of ρ.

    [bold]Example[/bold]: equistrata budget forecast census --epsilon 1 --releases 24 --ledger ledger.db
    """
    from equistrata.flows.release.series import series_named
    from equistrata.privacy.budget import Rho
    from equistrata.privacy.forecast import epsilon_within, releases_left

    series = None
    if settings.config is not None:
        file = ReleaseConfig.load(settings.config)
        series = None if settings.epsilon else series_named(file.at(datetime.now(UTC)))
        names = ("epsilon", "delta", "dataset", "ledger")
        settings = settings.model_copy(update={name: getattr(settings, name) or getattr(file, name) for name in names})
    dataset, epsilon, releases = settings.dataset, settings.epsilon, settings.releases
    if dataset is None:
        raise InputError("name the data set to forecast, or give a --config that names one")
    books = settings.open()
    left, account = books.remaining(dataset), books.account(dataset)
    delta = settings.delta or account.delta
    assert delta is not None
    each = epsilon_within(left, releases, delta)
    found = {"dataset": dataset, "delta": delta, "horizon": releases, "epsilon_each": each} | _amount("left", left)
    lines = [f"{dataset}: ρ = {float(left):.6g} left of {float(account.rho):.6g}."]
    if series is not None:
        standing = series.standing([charge.entry for charge in books.charges(dataset)])
        months = series.horizon - standing.number + 1
        count = min(releases_left(left, standing.price), months)
        found |= {"series": series.name, "month": standing.number, "months": months, "months_left": count}
        found |= _amount("price", standing.price)
        lines.append(
            f"Month {standing.number} of {series.horizon} of series {series.name} costs "
            f"ρ = {float(standing.price):.6g}; the budget pays for {count} of the {months} months that are left."
        )
    elif epsilon is not None:
        price = Rho.from_epsilon_delta(epsilon, delta)
        count = releases_left(left, price)
        found |= {"epsilon": epsilon, "releases_left": count} | _amount("price", price)
        asked = f"At ε = {epsilon:g}, δ = {delta:g} (ρ = {float(price):.6g})"
        lines.append(f"{asked} the budget pays for {count} more release{'s' * (count != 1)}.")
    lines.append(f"For {releases} more releases at δ = {delta:g}, each can have ε = {each:g}.")
    _answer(settings, books.head, found, *map(Text, lines))


def _summary(books: Ledger, account: Entry) -> dict[str, Any]:
    charges, spent = books.charges(account.dataset), books.spent(account.dataset)
    left = account.rho - spent
    assert account.delta is not None
    return {
        **{name: getattr(account, name) for name in ("dataset", "epsilon", "delta", "relation")},
        **_amount("rho", account.rho),
        **_amount("spent", spent),
        **_amount("left", left),
        "left_epsilon": left.epsilon(account.delta),
        "charges": len(charges),
        **{kind: sum(charge.outcome == kind for charge in charges) for kind in ("reserved", "failed")},
    }


def _people(books: Ledger, dataset: str | None = None) -> list[SamePeople]:
    return [group for group in books.same_people() if dataset is None or dataset in group.datasets]


def _plain_people(people: Iterable[SamePeople]) -> list[dict[str, Any]]:
    return [
        {"datasets": list(group.datasets), "epsilon": group.epsilon, "delta": group.delta} | _amount("rho", group.rho)
        for group in people
    ]


def _plain_entry(entry: Entry) -> dict[str, Any]:
    plain = asdict(entry)
    del plain["rho"], plain["spent"]
    return plain | _amount("rho", entry.rho) | _amount("spent", entry.spent) | {"parts": list(entry.parts)}


def _amount(name: str, rho: Rho) -> dict[str, Any]:
    return {name: float(rho), f"{name}_exact": str(rho.exact)}


def _head_on(card: Path) -> Head:
    from equistrata.analysis.contents.card import ledger_of, parse_card  # pandas
    from equistrata.privacy.ledger.ledger import Head

    ledger = ledger_of(parse_card(read_bytes(card, f"card {str(card)!r}", MOST_BYTES), f"folder {str(card.parent)!r}"))
    if ledger is None:
        raise InputError(
            f"{str(card)!r} is not the card.json of a release that was charged to a ledger; give that of "
            "another release"
        )
    return Head.parse(ledger["head"])


def _grid(title: str | Text, *headings: str) -> Table:
    """Return a table that fits into 80 columns."""
    grid = table(title, *headings, box=SIMPLE_HEAD)
    for column in grid.columns:
        column.overflow = "fold"
        column.no_wrap = str(column.header).startswith("when")
        column.min_width = 24 if column.header == "release" else None
    return grid


def _answer(
    settings: QuerySettings,
    head: Head,
    document: dict[str, Any],
    *shown: Table | Text | str,
    people: Iterable[SamePeople] = (),
) -> None:
    """Print JSON for programs.

    Otherwise print the tables, the accounts that share a budget, and the head of the ledger.
    """
    if settings.as_json:
        return print_json(document | {"head": str(head)})
    for each in shown:
        out.print(each, soft_wrap=not isinstance(each, Table))
    for group in people:
        out.print(f"{group}.", markup=False, highlight=False)
    return print_lines(f"head {head}")
