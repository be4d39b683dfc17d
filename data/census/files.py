"""Files of the American Community Survey, as folktables lays them out and downloads them, and their cells.

>>> plain_cells(pd.Series(["05", " 17", "6722Z", "0", "42800", "-0030"], dtype="category"), zeros=False).tolist()
['5', '17', '6722Z', '0', '42800', '-30']
"""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from equistrata.data.columns.column import Column
from equistrata.data.columns.raw import EXACT, distinct_cells, numbers_of
from equistrata.data.files.dialect import with_texts
from equistrata.data.files.labelled import declared_cells
from equistrata.errors import InputError

_TEXTS = ("RT", "SERIALNO", "SOCP", "NAICSP")  # columns of texts, whatever their cells look like
_FILLED = re.compile(r"^([-+]?)0+(?=[0-9])")


def is_state(state: str) -> bool:
    """Whether it is a postal code of a state that has files."""
    from folktables.load_acs import state_list

    return state in state_list


def code_of(state: str) -> str:
    """The two digits of a state. Raises InputError if it is none."""
    from folktables.load_acs import _STATE_CODES

    if state not in _STATE_CODES:
        raise InputError(f"unknown state {state}; give postal codes such as NY")
    return str(_STATE_CODES[state])


def file_of(folder: Path, state: str, year: int) -> Path:
    """The file of a state's person records."""
    named = f"psam_p{code_of(state)}.csv" if year >= 2017 else f"ss{year % 100:02d}p{state.lower()}.csv"
    return folder / named


def whole_file(folder: Path, state: str, year: int, horizon: str, download: bool) -> Path:
    """The file of a state's person records, downloaded if it may be and is not there.

    Raises InputError where it is not there, or is not what its archive holds.
    """
    path, archive = file_of(folder, state, year), f"csv_p{state.lower()}.zip"
    if not path.is_file():
        if not download:
            raise InputError(f"no ACS person file for {state} in {folder}; add it, or allow the download")
        _download(path, archive, state, year, horizon)
    elif (folder / archive).is_file() and not _holds(folder / archive, path):
        raise InputError(f"ACS file {str(path)!r} is not the one in {archive} beside it; delete it, and fetch it again")
    return path


def refuse_cut_off(path: Path) -> None:
    """Raise InputError if the last line of a file has no end: its last cell may be a part of one."""
    with path.open("rb") as file:
        file.seek(-min(path.stat().st_size, 1), os.SEEK_END)
        if file.read() not in (b"\n", b""):
            raise InputError(f"the last line of ACS file {str(path)!r} has no end, so it is cut off; fetch it again")


def _download(path: Path, archive: str, state: str, year: int, horizon: str) -> None:
    """Fetch a file into a folder of its own first: folktables leaves parts of files behind, and takes them for whole.
    It deletes an archive of which it unpacked the whole file, by its checksum."""
    from folktables.load_acs import initialize_and_download

    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent, prefix=".download-") as folder:
        fetched = Path(initialize_and_download(folder, state, str(year), horizon, "person", download=True))
        if not fetched.is_file() or (Path(folder) / archive).exists():
            raise InputError(
                f"the ACS person file for {state}, {year} {horizon}, could not be downloaded whole; try again later, "
                f"or unpack {archive} of www2.census.gov into {path.parent}"
            )
        fetched.replace(path)


def _holds(archive: Path, path: Path) -> bool:
    """Whether an archive holds a file as it is, by its size and checksum."""
    try:
        with zipfile.ZipFile(archive) as packed:
            known = packed.getinfo(path.name)
    except (zipfile.BadZipFile, KeyError):
        return False
    found = 0
    with path.open("rb") as file:
        for block in iter(partial(file.read, 1 << 20), b""):
            found = zlib.crc32(block, found)
    return (known.file_size, known.CRC) == (path.stat().st_size, found)


def columns_of_texts(columns: Sequence[str], declared: Sequence[Column]) -> set[str]:
    """The columns in which zeros in front mean something: a schema has texts for them, or it is not about them."""
    if not declared:
        return {*_TEXTS}
    cells = declared_cells(declared)
    dated = {name for column in declared if column.layout or column.open for name in column.cells}
    return {name for name in columns if name not in cells or name in dated or _has_texts(cells[name])}


def _has_texts(values: Collection[object]) -> bool:
    return any(isinstance(value, str) for value in values)


def plain_cells(cells: pd.Series, zeros: bool) -> pd.Series:
    """Cells without the blanks of early files, and without zeros in front unless these mean something."""
    return with_texts(cells, str.strip if zeros else lambda text: _FILLED.sub(r"\1", text.strip(), count=1))


def as_numbers(cells: pd.Series) -> pd.Series:
    """A column of texts that are all numbers as these; else as it is."""
    places, texts = distinct_cells(cells)
    numbers, _ = numbers_of(texts)
    if cells.name in _TEXTS or not (np.abs(numbers) < EXACT).all():
        return cells
    found = pd.Series(np.append(numbers, np.nan)[places], cells.index)
    return found if (numbers % 1).any() or found.isna().any() else found.astype("int64")
