"""The commands `equistrata init`, `schema draft` and `schema confirm`, which make a schema.

The schema is based on a code book or on the rows.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from equistrata.data.files.formats import NAMES, format_of
from equistrata.errors import InputError
from equistrata.flows.cli.console import err, note, out, print_lines
from equistrata.flows.cli.options import command
from equistrata.flows.config.settings import ByPlace, Flag, Names, Settings, setting

if TYPE_CHECKING:
    from equistrata.data.drafting.draft import Draft

_MOST_NAMED = 12  # the largest number of columns that are named in a message


class DraftSettings(Settings):
    file: ByPlace[Path] = setting(..., f"Table ({NAMES}). Only its header or labels are read.")
    codebook: Path | None = setting(
        None,
        "Code book of the columns: a CSV or Excel dictionary, Table or JSON Schema, REDCap, DDI, ACS, or a file "
        "with labels.",
    )
    output: Path | None = setting(None, "Schema file to create.")
    template: Path | None = setting(None, "Write a dictionary to fill in instead, with one row per column.")
    look: Flag = setting(
        False, "Use the rows to draft what no code book describes. The draft is private until it is confirmed."
    )
    sheet: str = setting("", "Sheet of the workbook that contains the table, if this is not clear.")
    force: Flag = setting(False, "Replace the output if it exists.")


class ConfirmSettings(Settings):
    schema_: ByPlace[Path] = setting(..., "Draft with columns that are marked as taken from rows.", alias="schema")
    columns: Names = setting((), "Columns to confirm. All that is declared for them is public.")
    all_as_public: Flag = setting(False, "Confirm all columns that are marked.")


class InitSettings(Settings):
    file: ByPlace[Path] = setting(..., f"Table ({NAMES}).")
    folder: Path | None = setting(None, "Folder to create. If not given, it has the name of the table.")
    codebook: Path | None = setting(None, "Code book of the columns, as for equistrata schema draft.")
    look: Flag = setting(
        False, "Use the rows to draft what no code book describes. The draft is private until it is confirmed."
    )
    strata: Names = setting((), "Columns that define strata, such as SEX,RACE.")
    units: int | None = setting(
        None, "Rough number of people or other units, which must be public. It determines δ.", ge=1
    )


START = """\
# A release of {name}: equistrata release --config release.yaml. All settings: equistrata release --help-all
input: {file}
schema: {schema}
strata: {strata}  # columns that define groups
synthesizer: mst
epsilon: 1.0
{units}
dataset: {dataset}
ledger: ledger.db
output: releases/{{date}}
"""


@command("init", InitSettings)
def init(settings: InitSettings) -> None:
    """Make a folder with a draft of the schema, a configuration file, and a list of the next commands.

    [bold]Example[/bold]: equistrata init people.csv --codebook book.csv --strata SEX
    """
    from equistrata.data.columns.nesting import BETWEEN
    from equistrata.data.header import names_in
    from equistrata.data.texts import documents

    folder = settings.folder or Path(settings.file.stem)
    dataset = re.sub(r"[^A-Za-z0-9._-]+", "-", settings.file.stem).strip("._-") or "people"
    if folder.exists():
        raise InputError(f"{str(folder)!r} exists; name another folder to make with --folder")
    names = names_in(settings.file)
    unknown = [name for name in settings.strata if name not in names and not {*name.split(BETWEEN)} <= {*names}]
    if names and unknown:
        raise InputError(f"table {str(settings.file)!r} has no column {unknown[0]!r}; correct --strata")
    units = "# units: 20000  # rough public number of people, which determines δ (without it, δ is 1e-9)"
    config = START.format(
        name=settings.file.name,
        file=documents.flow(os.path.abspath(settings.file)),
        schema=documents.flow(f"{dataset}.yaml"),
        strata=documents.flow(settings.strata),
        units=units if settings.units is None else f"units: {settings.units}",
        dataset=documents.flow(dataset),
    )
    folder.mkdir(parents=True)
    try:
        target = folder / f"{dataset}.yaml"
        made = _drafted(
            DraftSettings(file=settings.file, codebook=settings.codebook, output=target, look=settings.look),
            target,
            may_be_empty=False,
        )
        _save(folder / "release.yaml", config, private=False)
    except BaseException:
        shutil.rmtree(folder)
        raise
    for name in settings.strata:
        if name in (*made.asked, *made.left_out):
            note("to declare:", f"column {name}, which defines strata")
    steps = [
        f"cd {shlex.quote(str(folder))}",
        *["answer the QUESTIONs in the schema, with an editor"] * bool(made.asked),
        *[f"equistrata schema confirm {target.name} --all-as-public"] * bool(made.taken),
        f"equistrata schema check {target.name} --input {shlex.quote(os.path.abspath(settings.file))}",
        "equistrata budget create --config release.yaml --epsilon 4",
        "equistrata release --config release.yaml --page",
    ]
    print_lines("next:", *(f"  {step}" for step in steps))


@command("schema draft", DraftSettings)
def schema_draft(settings: DraftSettings) -> None:
    """Draft a schema from a code book or from the rows. If something is unclear, the draft contains a question.

    A code book is public, so its draft can be used without confirmation, and no row is read. With --look, the draft is
    based on the rows and is private. Each of its columns is marked as 'taken_from_rows'. No command uses the schema
    until it is confirmed (equistrata schema confirm).

    [bold]Example[/bold]: equistrata schema draft people.csv --codebook book.csv --output people.yaml
    """
    from equistrata.data.drafting.dictionary import template
    from equistrata.data.header import header_of

    target = settings.template or settings.output
    if target is None or (settings.template and settings.output):
        raise InputError(
            "nothing to create is named; give --output for a schema, or --template for a dictionary to fill in"
        )
    if target.exists() and not settings.force:
        raise InputError(f"{str(target)!r} exists; choose another one, or replace it with --force")
    if settings.template:
        names = header_of(settings.file, sheet=settings.sheet)[0]
        _save(target, template(names), private=False)
        out.print(f"wrote {escape(str(target))}: fill in a row for each column, and draft with --codebook")
        return
    _drafted(settings, target)


def _drafted(settings: DraftSettings, target: Path, *, may_be_empty: bool = True) -> Draft:
    """Make a draft and print its open questions."""
    from equistrata.data.drafting.books import read_book
    from equistrata.data.drafting.column import CodeBook, match_entries
    from equistrata.data.drafting.draft import draft
    from equistrata.data.drafting.labelled import read_labelled
    from equistrata.data.drafting.look import look
    from equistrata.data.files.opening import file_and_format
    from equistrata.data.header import header_of, names_in

    if settings.look:
        _refuse_published(target, "a draft by --look")
    book = CodeBook()
    if settings.codebook is not None:
        book = read_book(settings.codebook, names_in(settings.file, settings.sheet))
    if (form := format_of(settings.file)).labels:
        own = read_labelled(file_and_format(settings.file, None)[0], form)
        others = {name: each for name, each in own.columns.items() if not match_entries([name], book.columns)}
        book = CodeBook(others | dict(book.columns), book.file)
    columns, file = header_of(settings.file, [*book.columns], settings.sheet)
    file |= book.file
    looked, file = look(settings.file, columns, file, book.columns) if settings.look else ({}, file)
    made = draft(columns, book.columns, target.stem, file, looked)
    if not (may_be_empty or made.declared or made.asked):
        raise InputError(
            f"the columns of {str(settings.file)!r} are not described; give their code book with --codebook, "
            "or draft from the rows with --look (the draft is private until you confirm it)"
        )
    if made.taken:
        _refuse_published(target, "a draft with values from the rows")
    _save(target, made.text, private=settings.look or bool(made.taken))
    _tell(made, target, len(columns), settings, bool(book.columns))
    return made


def _tell(made: Draft, target: Path, columns: int, settings: DraftSettings, book: bool) -> None:
    out.print(f"drafted {escape(str(target))}: {len(made.declared)} of {columns} columns declared")
    if not (book or settings.look):
        note("no code book:", "name one with --codebook, or draft from the rows with --look")
        return
    shown = err.is_terminal or not settings.look  # content of rows must not be written to files that capture messages
    for title, open_ones in (("question:", made.asked), ("left out:", made.left_out)):
        for name, why in open_ones.items():
            note(title, f"{name} ({why})" if shown else name)
    if made.asked:
        note(
            "to answer:",
            "remove '# ' from one line of each QUESTION in the draft, or delete all of its lines to leave "
            "the column out. schema check --input then counts the rows that fit",
        )
    if made.aside:
        note("declared, not released by default:", _some(made.aside))
    if made.unknown:
        note("only in the code book:", _some(made.unknown))
    if labels := [name for name, parts in made.taken.items() if "labels" in parts]:
        note(
            "labels in alphabetical order:",
            f"{', '.join(labels)}. Such labels are often made from the rows by programs (encode, AUTORECODE, "
            "factors), so only confirm a list that is public",
        )
    if made.taken:
        confirm = f"check them, and then run equistrata schema confirm {target} --all-as-public"
        note("[bold]private:[/]", escape(f"the draft contains values from the rows; {confirm}"))


def _some(names: list[str]) -> str:
    return ", ".join(names[:_MOST_NAMED]) + (f" and {len(names) - _MOST_NAMED} more" * (len(names) > _MOST_NAMED))


@command("schema confirm", ConfirmSettings)
def schema_confirm(settings: ConfirmSettings) -> None:
    """Confirm that values which were taken from rows are public, for some or all columns.

    You can confirm a column if its list of values or its bounds could have been written without the rows.

    [bold]Example[/bold]: equistrata schema confirm people.yaml --columns SEX,AGE
    """
    from equistrata.data.columns.declared import CONFIRMED, TAKEN
    from equistrata.data.texts import documents

    path = settings.schema_
    text = documents.read_text(path, f"schema file {str(path)!r}")
    document = documents.parse(text, f"schema {path}")
    declared = document.get("columns") if isinstance(document, dict) else None
    specs = declared if isinstance(declared, dict) else {}
    marked = [name for name, spec in specs.items() if isinstance(spec, dict) and spec.get(TAKEN)]
    before = [*(document.get(CONFIRMED) or [])] if isinstance(document, dict) else []
    if bool(settings.columns) == settings.all_as_public:
        raise InputError("nothing to confirm is named; give --columns, or --all-as-public for all of them")
    if unknown := [name for name in settings.columns if name not in marked]:
        raise InputError(
            f"column {unknown[0]!r} of schema {path} is not marked as {TAKEN!r}, so there is nothing to confirm"
        )
    listed = [*dict.fromkeys([*before, *(marked if settings.all_as_public else settings.columns)])]
    line = f"{CONFIRMED}: {documents.flow(listed)}\n"
    changed, times = re.subn(rf"^{CONFIRMED}: *\[[^\]]*\] *\n", lambda _: line, text, count=1, flags=re.M)
    if not times and before:
        raise InputError(
            f"schema {path} lists {CONFIRMED!r} on several lines; write it on one, or add the columns by hand"
        )
    _save(path, changed if times else line + text, private=True)
    left = [name for name in marked if name not in listed]
    out.print(f"confirmed {len(marked) - len(left)} of {len(marked)} columns that were taken from rows")
    if not left:
        note("next:", escape(f"equistrata schema check {path} --input FILE, which shows whether the rows fit"))


def _refuse_published(path: Path, what: str) -> None:
    from equistrata.flows.release.inside import enclosing_release

    if (around := enclosing_release(path)) is not None:
        raise InputError(
            f"{what} is private, and {str(path)!r} is in release {str(around)!r}, which is to be published; name a "
            "file outside it"
        )


def _save(path: Path, text: str, private: bool) -> None:
    """Write a file in one step. If it is private, only its owner can read it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(
            os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666), "w", encoding="utf-8"
        ) as file:
            file.write(text)
        beside.replace(path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        reason = os.strerror(error.errno or 0).lower()
        raise InputError(f"{str(path)!r} cannot be made ({reason}); choose another one") from None
