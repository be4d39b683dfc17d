"""Files of the American Community Survey, in the layout of folktables.

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

_TEXTS = ("RT", "SERIALNO", "SOCP", "NAICSP")  # columns of texts, even if their cells are numbers
_FILLED = re.compile(r"^([-+]?)0+(?=[0-9])")


def is_state(state: str) -> bool:
    """Return True if a text is the postal code of a state that has files."""
    from folktables.load_acs import state_list

    return state in state_list


def code_of(state: str) -> str:
    """Return the two digits of a state.

    Raises
    ------
    InputError
        If the state is unknown.
    """
    from folktables.load_acs import _STATE_CODES

    if state not in _STATE_CODES:
        raise InputError(f"the state {state} is unknown; give a postal code such as NY")
    return str(_STATE_CODES[state])


def file_of(folder: Path, state: str, year: int) -> Path:
    """Return the path of the person file of a state."""
    named = f"psam_p{code_of(state)}.csv" if year >= 2017 else f"ss{year % 100:02d}p{state.lower()}.csv"
    return folder / named


def whole_file(folder: Path, state: str, year: int, horizon: str, download: bool) -> Path:
    """Return the path of the person file of a state, and download the file if it is missing.

    Parameters
    ----------
    folder : Path
        The folder of the files.
    state : str
        The postal code of the state.
    year : int
        The year of the survey.
    horizon : str
        The survey, either "1-Year" or "5-Year".
    download : bool
        If True, the file can be downloaded.

    Returns
    -------
    Path
        The path of the file.

    Raises
    ------
    InputError
        If the file is missing and cannot be downloaded, or if it differs from the file in its archive.
    """
    path, archive = file_of(folder, state, year), f"csv_p{state.lower()}.zip"
    if not path.is_file():
        if not download:
            raise InputError(f"folder {folder} has no ACS person file for {state}; add it, or allow the download")
        _download(path, archive, state, year, horizon)
    elif (folder / archive).is_file() and not _holds(folder / archive, path):
        raise InputError(
            f"ACS file {str(path)!r} differs from the file in {archive} in the same folder; delete it, and download it "
            "again"
        )
    return path


def refuse_cut_off(path: Path) -> None:
    """Raise an InputError if the last line of a file has no line break, because its last cell can be incomplete."""
    with path.open("rb") as file:
        file.seek(-min(path.stat().st_size, 1), os.SEEK_END)
        if file.read() not in (b"\n", b""):
            raise InputError(f"ACS file {str(path)!r} is cut off: its last line has no line break; download it again")


def _download(path: Path, archive: str, state: str, year: int, horizon: str) -> None:
    """Download a file into a temporary folder and move it to its path when it is complete.

    If a download is interrupted, folktables leaves an incomplete file and later uses it as a complete file. It deletes
    the archive only after the file was unpacked and its checksum was verified.
    """
    from folktables.load_acs import initialize_and_download

    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent, prefix=".download-") as folder:
        fetched = Path(initialize_and_download(folder, state, str(year), horizon, "person", download=True))
        if not fetched.is_file() or (Path(folder) / archive).exists():
            raise InputError(
                f"the ACS person file for {state}, {year} {horizon}, could not be downloaded completely; try again "
                f"later, or download {archive} from www2.census.gov and unpack it into {path.parent}"
            )
        fetched.replace(path)


def _holds(archive: Path, path: Path) -> bool:
    """Return True if a file has the same size and checksum as in its archive."""
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
    """Return the columns in which leading zeros have a meaning.

    These are the columns that the schema declares as texts, dates or open, and the columns that the schema does not
    declare. If there is no schema, they are the columns of texts in the survey.
    """
    if not declared:
        return {*_TEXTS}
    cells = declared_cells(declared)
    dated = {name for column in declared if column.layout or column.open for name in column.cells}
    return {name for name in columns if name not in cells or name in dated or _has_texts(cells[name])}


def _has_texts(values: Collection[object]) -> bool:
    return any(isinstance(value, str) for value in values)


def plain_cells(cells: pd.Series, zeros: bool) -> pd.Series:
    """Remove the blanks of early files from the cells, and also leading zeros if they have no meaning."""
    return with_texts(cells, str.strip if zeros else lambda text: _FILLED.sub(r"\1", text.strip(), count=1))


def as_numbers(cells: pd.Series) -> pd.Series:
    """Convert a column of texts to numbers if all texts are numbers, and return any other column unchanged."""
    places, texts = distinct_cells(cells)
    numbers, _ = numbers_of(texts)
    if cells.name in _TEXTS or not (np.abs(numbers) < EXACT).all():
        return cells
    found = pd.Series(np.append(numbers, np.nan)[places], cells.index)
    return found if (numbers % 1).any() or found.isna().any() else found.astype("int64")
