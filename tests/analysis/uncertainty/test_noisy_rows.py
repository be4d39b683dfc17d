"""A number of rows that is noise is told, with what the table may have; one that is well known is not."""

import numpy as np
import pandas as pd
import pytest
from plain_release import release

from equistrata.analysis.checks.companions import companion_faults
from equistrata.analysis.release import Release
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.noisy_rows import noisy_rows
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.flows.audit.expected import rows_are_noise
from equistrata.flows.release.card.notes import noisy_rows_notes
from equistrata.synth.measurements import Measurement
from equistrata.synth.registry import mechanism

SCHEMA = Schema.from_dict({"columns": {"S": {"values": [1, 2]}, "J": {"values": [0, 1]}}})
STRATA = Strata.over(SCHEMA, ("S",))


def evidence(rows, sigma, apart=False, held_out=0.0):
    """Two cells of noise σ, so that the sum has √2·σ: of S over all rows, or a number of rows of each stratum."""
    one = {(): [Measurement(("S",), np.full(2, rows / 2), sigma)]}
    each = {key: [Measurement((), np.array(rows / 2), sigma)] for key in STRATA.keys}
    return Evidence.of(STRATA, each if apart else one, mechanism("mst"), held_out=held_out)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(("rows", "sigma", "told"), [(1000, 179, False), (1000, 182, True), (-5, 3, True)])
def test_it_is_noise_where_its_interval_holds_half_of_it(rows, sigma, told, apart):
    """1.96·√2·180.4 = 500."""
    found = noisy_rows(evidence(rows, sigma, apart))
    assert (found is not None) == told
    if found is not None:
        half = 1.959964 * 2**0.5 * sigma
        assert (found["lower"], found["upper"]) == (round(max(rows - half, 0)), round(max(rows + half, 0)))


def test_rows_that_were_held_out_are_in_the_numbers():
    assert noisy_rows(evidence(1000, 1000, held_out=0.2))["estimate"] == 1250


def test_a_public_number_is_none():
    assert noisy_rows(evidence(1000, 0)) is None


def test_card_terminal_and_page_say_what_the_table_may_have():
    found = noisy_rows(evidence(1000, 1000))
    (note,) = noisy_rows_notes(found, 1003)
    for said in (note, rows_are_noise(found)):
        assert "noise" in said
        assert "between 0 and 3,772" in said
    assert "1,003" in note
    assert noisy_rows_notes(None, 1003) == []
    assert rows_are_noise(None) == ""


@pytest.mark.parametrize(("epsilon", "rows", "told"), [(1e-4, None, True), (1e-4, 50, False), (1.0, None, False)])
def test_a_release_says_it_and_verify_checks_it(epsilon, rows, told, tmp_path):
    """A number that was given is none of noise. ε = 1e-4 and 300 rows: a deviation of about 30,000."""
    pd.DataFrame({"J": [0, 1, 1] * 100}).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "t.yaml").write_text("name: t\ncolumns: {J: {values: [0, 1]}}\n", "utf-8")
    settings = {"input": tmp_path / "t.csv", "schema": tmp_path / "t.yaml", "output": tmp_path / "out"}
    given = {} if rows is None else {"rows": rows}
    release({name: str(path) for name, path in settings.items()} | given | {"epsilon": epsilon, "delta": 1e-9})
    found = Release.open(tmp_path / "out")
    page = (tmp_path / "out" / "card.md").read_text("utf-8")
    assert ("The number of rows is noise" in page) == told
    assert "0 of 0 pairs" not in page  # of one column
    assert (found.card["noisy_rows"] is not None) == told
    assert list(companion_faults(found)) == []
    found.card["noisy_rows"] = None if told else {"estimate": 1, "lower": 0, "upper": 2, "level": 0.95}
    (fault,) = companion_faults(found)
    assert "how far the number of rows is noise" in fault
