"""The grid's command: which places its options name."""

import argparse

import pandas as pd
import pytest

from benchmarks.paper_grid import main, places, rows_of


def options(**changes):
    given = {
        "mechanisms": "mst", "strata": "vanilla,SEX,RAC1P,SEX_RAC1P", "forms": "per-stratum",
        "epsilons": "0.01,0.05,0.1,0.5,1,5", "seeds": 5,
    }  # fmt: skip
    return argparse.Namespace(**given | changes)


def test_the_papers_grid():
    found = places(options())
    assert len(found) == len(set(found)) == 5 * 4 * 6
    assert {cell.form for cell in found} == {"vanilla", "per-stratum"}
    assert [cell.seed for cell in found] == sorted(cell.seed for cell in found)


def test_forms():
    found = places(options(mechanisms="mst,aim", strata="vanilla,SEX", forms="default", epsilons="1", seeds=1))
    assert [cell.name for cell in found] == ["MST_vanilla", "MST_SEX (default)", "AIM_vanilla", "AIM_SEX (default)"]


class _Rows:
    """A source with a PUMA as folktables reads it: a number, its leading zero lost."""

    def read(self, columns):
        return pd.DataFrame({name: [1, 2, 3] for name in columns} | {"PUMA": [4201, 4110, 42000]})


def test_rows_of_some_pumas_only():
    assert rows_of(_Rows(), ("042",))["SEX"].tolist() == [1]
    assert rows_of(_Rows(), ("041", "420"))["SEX"].tolist() == [2, 3]
    assert len(rows_of(_Rows(), ())) == 3


def test_help_says_what_it_is(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["grid", "--help"])
    with pytest.raises(SystemExit):
        main()
    assert "grid" in capsys.readouterr().out
