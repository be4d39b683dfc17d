"""Rows of a column with bounds alone have round numbers as often as its noisy counts say, and not where they do not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.stats.heaps import Rounding
from equistrata.synth.measurements import Measurement
from equistrata.synth.strata.heaps import heaps_of, rounded_shares
from equistrata.synth.synthesizer import StratifiedSynthesizer

SPEC = {"lower": 0, "upper": 500_000, "integer": True, "missing": "own", "codes": {-9: "refused"}}
SCHEMA = Schema.from_dict({"columns": {"SEX": {"values": [1, 2]}, "PAY": SPEC, "AGE": {"lower": 0, "upper": 99}}}, "p")


def people(rows: int, seed: int, heaped: bool) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    pay = rng.lognormal(10.4, 0.7, rows).round().clip(100, 499_999)
    if heaped:
        unit = np.where(rng.random(rows) < 0.5, 5_000, 1_000)
        pay = np.where(rng.random(rows) < 0.7, (pay / unit).round().clip(1) * unit, pay)
    return pd.DataFrame({"SEX": rng.integers(1, 3, rows), "PAY": pay, "AGE": rng.integers(0, 100, rows)})


def share(numbers: pd.Series, unit: int) -> float:
    plain = numbers.dropna()
    return float((plain[plain >= 10_000] % unit == 0).mean())


def released(rows: pd.DataFrame, strata: list[str], **how: object) -> pd.Series:
    made = StratifiedSynthesizer("mst", strata, epsilon=1.0, delta=1e-9, seed=3, **how).fit(rows, SCHEMA)  # type: ignore[arg-type]
    return pd.to_numeric(made.sample()["PAY"])


@pytest.mark.parametrize("how", [{}, {"selection": "per-stratum"}])
def test_round_thousands_come_out_about_as_often_as_they_went_in(how: dict[str, object]) -> None:
    rows = people(20_000, 1, heaped=True)
    drawn = released(rows, ["SEX"], **how)
    assert share(rows["PAY"], 5_000) == pytest.approx(0.42, abs=0.02)
    assert share(drawn, 5_000) == pytest.approx(share(rows["PAY"], 5_000), abs=0.15)
    assert share(drawn, 1_000) > 0.4


def test_rows_that_do_not_round_are_not_rounded() -> None:
    assert share(released(people(20_000, 2, heaped=False), ["SEX"]), 1_000) < 0.01


def test_what_was_not_measured_bin_by_bin_has_no_heaps() -> None:
    column = SCHEMA["PAY"]
    merged = tuple(min(code // 2, column.size // 2) for code in range(column.size))
    heaps = np.where(np.arange(column.size) % 2, 500.0, 10.0)
    half = Measurement(("PAY",), np.bincount(merged, heaps), 1.0, (merged,))
    assert heaps_of(SCHEMA, {(): [half]}) == {}
    inside = Measurement(("PAY",), heaps, 1.0, where=(("SEX", 0),))
    assert heaps_of(SCHEMA, {(): [inside]}) == {}
    assert heaps_of(SCHEMA, {(1,): [Measurement(("PAY",), heaps, 1.0)], (2,): []}) == {}


def test_decoded_rows_are_in_their_bins_and_codes_stay() -> None:
    column = SCHEMA["PAY"]
    shares = rounded_shares(SCHEMA, {"PAY": Rounding(0.5, 0.5), "GONE": Rounding(0.5, 0.5)})
    codes = np.zeros((column.size * 50, 3), dtype=np.uint16)
    codes[:, 1] = np.repeat(np.arange(column.size), 50)
    frame = CodedTable(codes, SCHEMA).decode(np.random.default_rng(0), shares)
    assert (CodedTable.encode(frame, SCHEMA).codes == codes).all()
    plain = CodedTable(codes, SCHEMA).decode(np.random.default_rng(0))
    assert share(frame["PAY"], 1_000) > 0.3 > 0.02 > share(plain["PAY"], 1_000)
