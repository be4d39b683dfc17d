"""`equistrata schema draft`: a schema from a code book, or from a look at the rows."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from rich.markup import escape

from equistrata.errors import InputError
from equistrata.flows.cli.console import err, note, out
from equistrata.flows.cli.options import command
from equistrata.flows.config.settings import ByPlace, Flag, Settings, setting


class DraftSettings(Settings):
    file: ByPlace[Path] = setting(
        ..., "The table, CSV, Parquet, Stata, SPSS or Excel: its header or labels are read, and how it writes numbers."
    )
    codebook: Path | None = setting(
        None,
        "What its columns mean: CSV, JSON, YAML, Markdown, HTML, DDI, REDCap, ACS, Stata, SPSS or Excel (.xlsx).",
    )
    output: Path = setting(..., "The schema file to make.")
    look: Flag = setting(False, "Draft from the rows what no code book says: private, and to be confirmed.")
    sheet: str = setting("", "The sheet of a workbook that has the table, where several may be meant.")
    force: Flag = setting(False, "Replace an output that exists.")


@command("schema draft", DraftSettings)
def schema_draft(settings: DraftSettings) -> None:
    """Draft a schema from a code book, or from a look at the rows; what neither says is left as a question.

    A code book is public, so its draft can be used as it is. Of the rows it has how they are written, whether
    numbers have decimals, how the book's values are spelled, and whether cells are absent. What --look takes from
    rows is not: each such column is marked 'taken_from_rows', and no command uses the schema until all of these are
    listed under 'confirmed'.

    [bold]Example[/bold]: equistrata schema draft people.csv --codebook dictionary.json --output people.yaml
    """
    from equistrata.data.drafting.books import joined, read_codebook, said_in
    from equistrata.data.drafting.draft import draft, written_by_book
    from equistrata.data.drafting.entries import matched, one_line
    from equistrata.data.drafting.look import look
    from equistrata.data.drafting.structure import header_of, names_in, settled, structure_of
    from equistrata.data.drafting.tallies import tallies_of
    from equistrata.data.files.kinds import WITH_TEXTS, kind_of

    if settings.output.exists() and not settings.force:
        raise InputError(f"{str(settings.output)!r} exists; choose another --output, or replace it with --force")
    if settings.look:
        _refuse_published(settings.output, "a draft by --look")
    known = names_in(settings.file, settings.sheet)
    entries = {} if settings.codebook is None else read_codebook(settings.codebook, known)
    if settings.codebook is not None and not known:  # of several sheets, that one is meant that the book describes
        known = header_of(settings.file, {*entries}, settings.sheet)[0]
        entries = read_codebook(settings.codebook, known)
    entries = joined(entries, said_in(settings.file))
    columns, file = header_of(settings.file, {*entries}, settings.sheet)
    file |= written_by_book(columns, entries) if kind_of(settings.file) in WITH_TEXTS else {}
    written = structure_of(settings.file, columns, entries, file)
    file |= written.file
    entries = settled(entries, written)
    marks: dict[str, list[str]] = {}
    if settings.look:
        tallies, file = tallies_of(settings.file, columns, file)
        entries, marks = look(tallies, file, entries)
    numbered = [name for name, entry in matched(columns, entries).items() if entry.numbered and entry.codes]
    marks = {**marks, **{name: [*marks.get(name, []), "labels"] for name in numbered}}
    if numbered:
        _refuse_published(settings.output, f"a draft with the labels of {one_line(', '.join(numbered))}")
    made = draft(columns, entries, settings.output.stem, file, marks)
    _save(settings.output, made.text, private=bool(marks))
    out.print(f"drafted {escape(str(settings.output))}: {len(made.declared)} of {len(columns)} columns declared")
    for name, why in made.open.items():
        shown = err.is_terminal or name not in marks  # what rows say stays out of files that capture messages
        note("open:", one_line(f"{name} ({why})" if shown else name))
    if made.by_file:
        have, every = sum(made.by_file.values()), len(made.by_file)
        of_all = f"{have} of {every} column{'s' * (every != 1)} of numbers"
        note("read of the file:", f"{of_all} have decimals, which the book does not say; the draft lists them")
    if made.absent:
        note("read of the file:", f"absent cells, of which the book does not speak: {one_line(', '.join(made.absent))}")
    if made.respelled:
        spelled = one_line(", ".join(made.respelled))
        note("read of the file:", f"values as it writes them (zeros in front, letters, words for codes): {spelled}")
    if made.contrary:
        note("decimals:", f"in the file, where the book says whole numbers: {one_line(', '.join(made.contrary))}")
    if numbered:
        note(
            "labels in alphabetical order:",
            f"{one_line(', '.join(numbered))}. Programs (encode, AUTORECODE, factors, categories) number whatever rows "
            "hold, so that one row adds a value. Confirm a list that is public; else declare one that is",
        )
    if written.unread and settings.codebook is not None:
        note("cells not read:", f"{one_line(written.unread)}. Whole numbers are taken from the code book alone")
    if made.aside:
        note("declared, not released by default:", one_line(", ".join(made.aside)))
    if not made.released:
        note("nothing to release:", "no column is declared that is released by default; answer the draft's questions")
    if made.unknown:
        note("in the code book alone:", one_line(", ".join(made.unknown)))
    if any(marks[name] for name in made.declared if name in marks):
        note("[bold]private:[/]", "the draft holds what rows hold; confirm each 'taken_from_rows' under 'confirmed'")
    elif marks:
        note("[bold]private:[/]", "the draft holds what rows hold, in the reasons of its questions")
    elif settings.look:
        note("from the rows:", "nothing, or only how the file writes its cells ('file'); the code book says the rest")


def _refuse_published(path: Path, what: str) -> None:
    from equistrata.flows.release.inside import release_around

    if (around := release_around(path)) is not None:
        raise InputError(
            f"{what} is private, and {str(path)!r} is in release {str(around)!r}, which is to be published; name a "
            "file outside it"
        )


def _save(path: Path, text: str, private: bool) -> None:
    """All of a file or nothing; for its owner alone if it is private."""
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
        raise InputError(f"{str(path)!r} cannot be made ({reason}); choose another --output") from None
