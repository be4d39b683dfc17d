"""`python -m paper figure`: what it leaves, how it goes on after an interruption, how it refuses."""

import csv
import dataclasses
import fcntl
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from equistrata.errors import InputError
from paper import figure_runs
from paper.figures import pictures
from paper.grid import MEANS, MIXTURE, SYNTHESIZERS, FigureSettings, files, runs_of
from paper.means import MeanLine
from paper.mixture import MixtureLine
from paper.synthesizers import Line

TYPES = {SYNTHESIZERS: Line, MEANS: MeanLine, MIXTURE: MixtureLine}
NOT_PRIVATE = ("Not private", "Simulated rows", "Theory")


def made_up(config):
    """Lines at every place that a figure needs, with numbers that tell from which place they are."""
    found = {kind: {} for kind in TYPES}
    for kind, cells in runs_of(config).cells.items():
        for number, cell in enumerate(cells):
            names = [field.name for field in dataclasses.fields(TYPES[kind])]
            place = dataclasses.asdict(cell)
            scores = {name: (number + 1) / 1000 for name in names if name not in place}
            if kind == MEANS:
                scores |= {"declared": 2 ** len(cell.strata.split("_")), "kept": 2}
            found[kind][cell] = TYPES[kind](**place, **scores)
    return found


@pytest.mark.parametrize("figure", range(1, 10))
def test_every_figure_shows_what_was_measured(figure):
    config = FigureSettings(figure=figure, quick=True)
    found = made_up(config)
    drawn = pictures(config, found, "rows")
    assert [picture.name for picture in drawn] == [f"figure-{figure}", "figure-7-groups"][: 2 if figure == 7 else 1]
    for picture in drawn:
        assert picture.description.startswith(NOT_PRIVATE)
        assert all(panel.curves for panel in picture.panels)
        assert all(len(curve.x) > 0 for panel in picture.panels for curve in panel.curves)


def test_figure_5_is_the_mean_over_seeds_of_each_variant():
    config = FigureSettings(figure=5, quick=True)
    found = made_up(config)
    (picture,) = pictures(config, found, "rows")
    lines = found[SYNTHESIZERS].values()
    for panel in picture.panels:
        ours = {curve.name: curve for curve in panel.curves if curve.style == "line"}
        assert set(ours) == {"vanilla", "SEX_RAC1P", "SEX_RAC1P (default)"}
        told = {curve.name: curve for curve in panel.curves if curve.style == "dotted"}
        assert set(told) == {"vanilla, published", "SEX_RAC1P, published"}
        two = [
            line.parity_means_sex_rac1p
            for line in lines
            if (line.mechanism.upper(), line.form, line.epsilon) == (panel.title, "default", 0.1)
        ]
        assert len(two) == 2
        curve = ours["SEX_RAC1P (default)"]
        assert curve.value[curve.x.index(0.1)] == pytest.approx(sum(two) / 2)
        assert curve.runs == 2
    aim = next(panel for panel in picture.panels if panel.title == "AIM")
    published = next(curve for curve in aim.curves if curve.name == "SEX_RAC1P, published")
    assert dict(zip(published.x, published.value, strict=True)) == {0.01: 6.398, 0.1: 2.302, 1.0: 0.391}


def test_figure_1_is_theorem_10_between_its_bounds():
    (picture,) = pictures(FigureSettings(figure=1), {}, "")
    (panel,) = picture.panels
    theorem, fitted = panel.curves
    levels = dict(panel.levels)
    assert max(theorem.value) < levels["k ln(n/k), Proposition 9"] == pytest.approx(89.9, abs=0.1)
    assert list(theorem.value) == sorted(theorem.value)
    assert fitted.x == pytest.approx([0.1301, 0.2566], abs=1e-4)
    assert fitted.value[1] == pytest.approx(levels["New York 2018 itself"])  # at the likeliest α, exactly


def test_a_figure_of_simulated_rows_needs_no_files(paper, home):
    result = paper("figure", "3", "--quick", "--seeds", "1", "--workers", "1", "--output", "made")
    assert result.returncode == 0, result.stderr
    made = home / "made"
    assert {path.name for path in made.iterdir()} == {
        "runs",
        *(f"figure-3.{end}" for end in ("svg", "png", "csv", "md")),
    }
    assert "not private" in result.stdout
    rows = list(csv.DictReader((made / "figure-3.csv").read_text("utf-8").splitlines()))
    assert len(rows) == 2 * 3 * 3 * 3
    assert {row["runs"] for row in rows} == {"10"}
    assert all(0 <= float(row["lower"]) <= float(row["upper"]) for row in rows)
    before = {path: path.read_bytes() for path in made.rglob("*.csv")}
    again = paper("figure", "3", "--quick", "--seeds", "1", "--workers", "1", "--output", "made")
    assert again.returncode == 0, again.stderr
    assert {path: path.read_bytes() for path in made.rglob("*.csv")} == before
    assert [path.name for path in home.iterdir()] == ["made"]


@pytest.mark.slow
def test_an_interrupted_figure_goes_on_where_it_was(paper, start, home):
    """Killed in the middle, with half a line written: what was whole stays as it was, and the rest is made."""
    arguments = ("figure", "2", "--quick", "--seeds", "2", "--workers", "1", "--source", "sample")
    lines = home / "made" / "runs" / "means.csv"
    process = start(*arguments, "--output", "made")
    deadline = time.monotonic() + 200
    while not (lines.exists() and lines.read_bytes().count(b"\n") > 1):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    first = lines.read_bytes()
    whole = first[: first.rindex(b"\n") + 1]
    lines.write_bytes(whole + b"WKHP,SEX,Coinp")
    assert not (home / "made" / "figure-2.svg").exists()
    result = paper(*arguments, "--output", "made")
    assert result.returncode == 0, result.stderr
    assert lines.read_bytes().startswith(whole)
    config = FigureSettings(figure=2, quick=True, seeds=2)
    (file,) = [file for kind, file in files(str(home / "made")).items() if kind == MEANS]
    assert set(file.read()) == set(runs_of(config).cells[MEANS])
    text = lines.read_text("utf-8").splitlines()
    assert len(text) == 1 + len(set(text[1:]))  # nothing was made twice
    assert (home / "made" / "figure-2.svg").exists()
    # Nothing is left elsewhere, of either run.
    assert [path.name for path in home.iterdir()] == ["made"]
    assert json.loads((lines.parent / "rows.json").read_text("utf-8")) == {"rows": "embedded simulated sample"}


@pytest.mark.slow
def test_a_small_grid_on_the_sample(tmp_path, monkeypatch):
    """Two variants of the grid, by two workers: measured, kept, drawn."""
    settings = FigureSettings(5, True, seeds=1, workers=2, source="sample", output=str(tmp_path / "made"))
    every = runs_of(settings)
    cells = [c for c in every.cells[SYNTHESIZERS] if c.mechanism == "mst" and c.epsilon == 1.0]
    some = dataclasses.replace(every, cells={SYNTHESIZERS: cells})
    assert len(some.missing({SYNTHESIZERS: {}})) == 3
    monkeypatch.setattr(figure_runs, "runs_of", lambda settings: some)
    monkeypatch.setattr(figure_runs, "pictures", lambda settings, found, rows: [])
    calls = []
    assert figure_runs.make_figure(settings, lambda done, of: calls.append((done, of))) == []
    assert calls == [(0, 3), (1, 3), (2, 3), (3, 3)]
    found = files(settings.output)[SYNTHESIZERS].read()
    assert set(found) == set(cells)
    assert all(0 < line.parity_means_sex_rac1p < 10 for line in found.values())
    figure_runs.make_figure(settings, lambda done, of: calls.append((done, of)))
    assert calls[4:] == [(0, 0)]  # all of it is there


def test_two_runs_do_not_write_to_one_folder(tmp_path):
    settings = FigureSettings(3, output=str(tmp_path))
    figure_runs.check(settings)
    with (tmp_path / "runs" / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another run is writing to"):
            figure_runs.make_figure(settings)


def test_prefect_is_not_needed(repo_root, tmp_path):
    """A figure is made where Prefect, its client and the rooms that use it cannot be imported."""
    program = """
import sys
from importlib.abc import MetaPathFinder
class Refuse(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "prefect" or name.startswith("equistrata.flows"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
from paper.program import main
main(["figure", "1", "--output", sys.argv[1]])
"""
    command = [sys.executable, "-c", program, str(tmp_path / "made")]
    done = subprocess.run(command, cwd=repo_root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "made" / "figure-1.svg").exists()


def test_without_acs_files_it_says_so_and_offers_the_sample(paper, home):
    result = paper("figure", "5", "--quick", "--root-dir", "nowhere")
    assert result.returncode == 2
    assert "no ACS files in nowhere/2024/1-Year" in result.stderr
    assert "--source sample" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""
    assert not (home / "experiments").exists()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"figure": 10}, "setting 'figure' is 10"),
        ({"figure": 0}, "setting 'figure' is 0"),
        ({"seeds": 0}, "setting 'seeds' is 0"),
        ({"workers": 0}, "setting 'workers' is 0"),
        ({"source": "census"}, "setting 'source' is 'census'"),
        ({"year": 1990}, "setting 'year' is 1990"),
    ],
)
def test_bad_settings_are_refused(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        FigureSettings(**{"figure": 5} | settings)


def test_bad_settings_end_the_command(paper, home):
    for arguments, sentence in ((["10"], "setting 'figure' is 10"), (["5", "--state", "XX"], "unknown state XX")):
        result = paper("figure", *arguments)
        assert result.returncode == 2
        assert sentence in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1
        assert not list(home.iterdir())  # nothing is left behind


def test_runs_on_other_rows_are_not_mixed(tmp_path):
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "rows.json").write_text(json.dumps({"rows": "ACS 2018 1-Year person records of NY (folktables)"}))
    config = FigureSettings(figure=5, quick=True, source="sample", output=str(tmp_path))
    with pytest.raises(InputError, match=r"holds runs on ACS 2018 .* not on embedded simulated sample"):
        figure_runs.check(config)
    figure_runs.check(dataclasses.replace(config, figure=3))  # its rows are simulated
    (runs / "rows.json").write_text("{")
    with pytest.raises(InputError, match="does not say of which rows"):
        figure_runs.check(config)


def test_an_output_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        figure_runs.check(FigureSettings(figure=3, output=str(tmp_path / "file")))
