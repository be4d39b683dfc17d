"""How numbers are written, told from their form: any dialect is found again, and no cell's text is told."""

from __future__ import annotations

import numpy as np
import pytest

from equistrata.data.files.dialect import Dialect
from equistrata.data.files.spelling import grouped, share_read, spelled

NUMBERS = [float(x) for x in np.random.default_rng(1).normal(0, 5000, 80).round(2)]


def written(number: float, decimal: str, thousands: str, sign: str, negative: str) -> str:
    text = f"{abs(number):,.2f}".replace(",", "T").replace(".", decimal).replace("T", thousands) + sign
    if number >= 0:
        return text
    return {"": f"-{text}", "parentheses": f"({text})", "trailing": f"{text}-"}[negative]


@pytest.mark.parametrize(("decimal", "thousands"), [(",", "."), (".", ","), (",", " "), (",", "\u202f"), (".", "'")])
@pytest.mark.parametrize("sign", ["", " %", " €", " EUR"])
@pytest.mark.parametrize("negative", ["", "parentheses", "trailing"])
def test_any_way_of_writing_is_found_again(decimal: str, thousands: str, sign: str, negative: str) -> None:
    cells = [written(number, decimal, thousands, sign, negative) for number in NUMBERS]
    found = spelled({"A": cells}, Dialect(delimiter=";"))
    signs = (sign.strip(),) if sign else ()
    assert found == Dialect(";", decimal=decimal, thousands=thousands, signs=signs, negative=negative)
    assert [float(found.number(cell)) for cell in cells] == NUMBERS


def test_one_way_for_all_columns_and_nothing_where_none_reads() -> None:
    short, long = [f"{i},5" for i in range(50)], [f"{i}.{i:03},25" for i in range(1, 50)]
    assert spelled({"A": short, "B": long}, Dialect()) == Dialect(decimal=",", thousands=".")
    assert spelled({"A": short}, Dialect()) == Dialect(decimal=",")
    assert spelled({"A": ["nurse", "pilot"]}, Dialect()) is None
    assert spelled({}, Dialect()) is None


def test_commas_between_thousands_are_no_decimal_commas() -> None:
    pay = [f"{i},{500 - i:03}" for i in range(1, 50)]
    assert spelled({"PAY": pay}, Dialect()) == Dialect(thousands=",")
    assert spelled({"PAY": [*pay, "0,500"]}, Dialect()) == Dialect(decimal=",")
    assert spelled({"PAY": [*pay, "1,5"]}, Dialect()) == Dialect(decimal=",")


def test_only_signs_that_are_known_are_named() -> None:
    """A text around a number is somebody's cell: "5 Zebedee" is no way to write a number."""
    found = spelled({"A": ["5,5 Zebedee", "6,5", "7,5", "8,5 kg"]}, Dialect())
    assert found == Dialect(decimal=",", signs=("kg",))
    assert share_read(["5,5 Zebedee", "6,5", "7,5", "8,5 kg"], found) == 0.75


def test_groups_of_three() -> None:
    assert grouped(["1.234", "12.345.678"])
    assert not grouped(["1.234", "1.5"])
    assert not grouped([])
