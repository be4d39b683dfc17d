"""The experiment "never worse": its places, its parts of a table, and a run that is started twice."""

import sys
from argparse import Namespace

import numpy as np
import pytest
from small_tables import table_of

from benchmarks.grid import FORMS, Place, main, part_of, places


def test_places_go_seed_by_seed_and_what_a_table_lacks_is_asked_once():
    options = Namespace(seeds=2, strata="A,A+B", columns="2,3,99", rows="10,50,60", epsilons="1", mechanisms="mst")
    found = list(places(options, table_of(50, (2, 3, 4))))
    assert len(found) == len(set(found)) == 2 * 2 * 2 * 2 * len(FORMS)
    assert [place.seed for place in found] == sorted(place.seed for place in found)
    assert {place.rows for place in found} == {10, 50}
    assert {place.columns for place in found} == {2, 3}


def test_a_part_keeps_the_strata_and_its_rows_are_the_same_for_all_seeds():
    table = table_of(50, (2, 3, 4, 5))
    first, second = (part_of(table, Place("mst", "A+D", 3, 20, 1.0, "default", seed)) for seed in (0, 1))
    assert first.schema.names == ("A", "B", "D")
    assert len(first) == 20
    assert np.array_equal(first.codes, second.codes)


def test_a_run_that_is_started_again_only_makes_what_is_missing(tmp_path, monkeypatch, capsys):
    arguments = ["grid", "--mechanisms", "mst", "--strata", "SEX", "--columns", "4", "--rows", "500", "--epsilons", "1"]
    for seeds, fits in ((1, "3 fits, 0 of them"), (2, "6 fits, 3 of them")):
        output = tmp_path / "grid.csv"
        monkeypatch.setattr(sys, "argv", [*arguments, "--seeds", str(seeds), "--output", str(output)])
        main()
        assert fits in capsys.readouterr().out
    assert len(output.read_text().splitlines()) == 1 + 6
    page = (tmp_path / "grid.md").read_text().splitlines()
    assert len(page) == 3
    assert page[2].startswith("| mst | SEX | 4 | 500 | 1 |")


def test_a_file_needs_its_schema(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["grid", "--input", str(tmp_path / "rows.csv")])
    with pytest.raises(SystemExit):
        main()
    assert "--schema" in capsys.readouterr().err
