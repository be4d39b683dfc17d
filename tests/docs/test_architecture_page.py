"""Tests of the table of rooms in docs/architecture.md against the folders and the contracts of import-linter."""

import re
import tomllib

import pytest
from pages import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]


def names(cell):
    return [name.rstrip("/") for name in re.findall(r"`([\w/.]+)`", cell)]


def table_of_rooms():
    """Return the inner rooms that the page lists for each room, from the lowest floor to the highest."""
    lines = PAGE.partition("\n| room |")[2].partition("\n\n")[0].splitlines()[2:]
    rows = [line.strip("|").split("|") for line in lines]
    return {names(room)[0]: names(inner) for room, _, inner in rows if ".py" not in room}


def layers(container):
    """Return the floor of each module in the contract for a package. The highest floor is 0."""
    found = [each for each in CONTRACTS if each["type"] == "layers" and each.get("containers") == container]
    return {
        name.strip().removeprefix("equistrata."): floor
        for each in found
        for floor, layer in enumerate(each["layers"])
        for name in layer.split("|")
    }


def floors(listed, contract):
    return [contract[name] for name in listed if name in contract]


ROOMS = table_of_rooms()


def test_the_rooms_are_the_folders():
    linked = {path.name for path in (ROOT / "equistrata").iterdir() if path.is_symlink()}
    assert {*ROOMS} == linked | {"paper"}
    assert all((ROOT / room / "__init__.py").is_file() for room in ROOMS)


def test_the_rooms_are_in_the_order_of_their_floors():
    found = floors([room for room in ROOMS if room != "paper"], layers(None))
    assert len(found) == len(ROOMS) - 1
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("room", ROOMS)
def test_the_inner_rooms_are_there_and_the_lowest_is_first(room):
    for inner in ROOMS[room]:
        assert (ROOT / room / inner / "__init__.py").is_file() or (ROOT / room / f"{inner}.py").is_file(), inner
    found = floors(ROOMS[room], layers([f"equistrata.{room}"]))
    assert found == sorted(found, reverse=True)
