"""Tests of the files that contain the measurements. A line that is not complete must be ignored."""

from dataclasses import dataclass

import pytest

from equistrata.errors import InputError
from paper.lines import LineFile


@dataclass(frozen=True)
class Place:
    name: str
    epsilon: float
    seed: int


@dataclass(frozen=True)
class Found(Place):
    score: float
    accuracy: float | None


@pytest.fixture
def file(tmp_path):
    return LineFile(tmp_path / "runs" / "found.csv", Place, Found)


def test_what_is_written_is_read(file):
    assert file.read() == {}
    lines = [Found("aim", 0.1, 0, 1 / 3, None), Found("real", float("inf"), 4, 2.0, 0.5)]
    file.append(lines[:1])
    file.append(lines[1:])
    assert file.read() == {Place("aim", 0.1, 0): lines[0], Place("real", float("inf"), 4): lines[1]}


def test_a_later_line_replaces_an_earlier_one(file):
    file.append([Found("aim", 0.1, 0, 0.5, None)])
    file.append([Found("aim", 0.1, 0, 0.5, 0.75)])
    assert file.read()[Place("aim", 0.1, 0)].accuracy == 0.75


@pytest.mark.parametrize("cut", range(1, 20))
def test_a_line_that_was_cut_off_counts_as_not_written(file, cut):
    """A number must not be read if the last digits are missing."""
    first, second = Found("aim", 0.1, 0, 0.125, 0.25), Found("aim", 0.1, 1, 0.375, 0.875)
    file.append([first, second])
    whole = file.path.read_bytes()
    file.path.write_bytes(whole[:-cut])
    assert file.read() == {Place("aim", 0.1, 0): first}
    file.append([second])
    assert file.path.read_bytes() == whole
    assert file.read() == {Place("aim", 0.1, 0): first, Place("aim", 0.1, 1): second}


def test_a_header_that_was_cut_off(file):
    file.path.parent.mkdir()
    file.path.write_text("name,eps")
    assert file.read() == {}
    file.append([Found("aim", 0.1, 0, 0.5, None)])
    assert len(file.read()) == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name,seed\naim,1\n", "other columns"),
        ("name,epsilon,seed,score,accuracy\naim,much,0,0.5,\n", "not one of its own"),
    ],
)
def test_files_of_others_are_refused(file, text, sentence):
    file.path.parent.mkdir()
    file.path.write_text(text)
    with pytest.raises(InputError, match=sentence):
        file.read()
