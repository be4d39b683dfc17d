"""`equistrata experiments figure`: what it leaves, how it goes on after an interruption, how it refuses."""

import csv
import dataclasses
import json
import os
import signal
import time

import pytest

from equistrata.errors import InputError
from paper import steps as experiment_steps
from paper.config import ExperimentConfig
from paper.figures import pictures
from paper.grid import MEANS, MIXTURE, SYNTHESIZERS, files, runs_of
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
    config = ExperimentConfig(figure=figure, quick=True)
    found = made_up(config)
    drawn = pictures(config, found, "rows")
    assert [picture.name for picture in drawn] == [f"figure-{figure}", "figure-7-groups"][: 2 if figure == 7 else 1]
    for picture in drawn:
        assert picture.note.startswith(NOT_PRIVATE)
        assert all(panel.curves for panel in picture.panels)
        assert all(len(curve.x) > 0 for panel in picture.panels for curve in panel.curves)


def test_figure_5_is_the_mean_over_seeds_of_each_variant():
    config = ExperimentConfig(figure=5, quick=True)
    found = made_up(config)
    (picture,) = pictures(config, found, "rows")
    lines = found[SYNTHESIZERS].values()
    for panel in picture.panels:
        ours = {curve.name: curve for curve in panel.curves if curve.style == "line"}
        default = {"SEX_RAC1P (default)"} if panel.title != "GEM" else set()
        assert set(ours) == {"vanilla", "SEX_RAC1P"} | default
        told = {curve.name: curve for curve in panel.curves if curve.style == "dotted"}
        assert set(told) == {"vanilla, published", "SEX_RAC1P, published"}
        if not default:
            continue
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
    (picture,) = pictures(ExperimentConfig(figure=1), {}, "")
    (panel,) = picture.panels
    theorem, fitted = panel.curves
    levels = dict(panel.levels)
    assert max(theorem.value) < levels["k ln(n/k), Proposition 9"] == pytest.approx(89.9, abs=0.1)
    assert list(theorem.value) == sorted(theorem.value)
    assert fitted.x == pytest.approx([0.1301, 0.2566], abs=1e-4)
    assert fitted.value[1] == pytest.approx(levels["New York 2018 itself"])  # at the likeliest α, exactly


def test_a_figure_of_simulated_rows_needs_no_files(served):
    result = served("experiments", "figure", "3", "--quick", "--seeds", "1", "--workers", "1", "--output", "made")
    assert result.returncode == 0, result.stderr
    made = served.home / "made"
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
    again = served("experiments", "figure", "3", "--quick", "--seeds", "1", "--workers", "1", "--output", "made")
    assert again.returncode == 0, again.stderr
    assert {path: path.read_bytes() for path in made.rglob("*.csv")} == before
    assert not list(served.tmp.glob("equistrata-*"))


@pytest.mark.slow
def test_an_interrupted_figure_goes_on_where_it_was(served):
    """Killed in the middle, with half a line written: what was whole stays as it was, and the rest is made."""
    arguments = ("experiments", "figure", "2", "--quick", "--seeds", "2", "--workers", "1", "--source", "sample")
    lines = served.home / "made" / "runs" / "means.csv"
    process = served.start(*arguments, "--output", "made")
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
    assert not (served.home / "made" / "figure-2.svg").exists()
    result = served(*arguments, "--output", "made")
    assert result.returncode == 0, result.stderr
    assert lines.read_bytes().startswith(whole)
    config = ExperimentConfig(figure=2, quick=True, seeds=2)
    (file,) = [file for kind, file in files(str(served.home / "made")).items() if kind == MEANS]
    assert set(file.read()) == set(runs_of(config).cells[MEANS])
    text = lines.read_text("utf-8").splitlines()
    assert len(text) == 1 + len(set(text[1:]))  # nothing was made twice
    assert (served.home / "made" / "figure-2.svg").exists()
    # No row and no private folder is left, of either run, once a run has ended.
    assert not list(served.tmp.glob("equistrata-*"))
    assert json.loads((lines.parent / "rows.json").read_text("utf-8")) == {"rows": "embedded simulated sample"}


@pytest.mark.slow
def test_a_small_grid_on_the_sample(tmp_path):
    """Steps of the flow, without Prefect, on two variants of the grid: measured, kept, drawn."""
    from equistrata.flows.run.workspace import private_workspace

    config = ExperimentConfig(figure=5, quick=True, seeds=1, source="sample", output=str(tmp_path / "made"))
    cells = [c for c in runs_of(config).cells[SYNTHESIZERS] if c.mechanism == "mst" and c.epsilon == 1.0]
    experiment_steps.check(config)
    with private_workspace() as work:
        experiment_steps.load(config, work)
        units = [u for u in experiment_steps.missing(config, runs_of(config)) if u.cells[0] in cells]
        assert len(units) == 3
        for unit in units:
            experiment_steps.keep(config, unit, experiment_steps.measure(unit, work))
    found = files(config.output)[SYNTHESIZERS].read()
    assert set(found) == set(cells)
    assert all(0 < line.parity_means_sex_rac1p < 10 for line in found.values())
    assert not {unit.cells[0] for unit in experiment_steps.missing(config, runs_of(config))} & set(cells)


def test_without_acs_files_it_says_so_and_offers_the_sample(equistrata):
    result = equistrata("experiments", "figure", "5", "--quick", "--root-dir", "nowhere")
    assert result.returncode == 2
    assert "no ACS files in nowhere/2024/1-Year" in result.stderr
    assert "--source sample" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""
    assert not (equistrata.home / "experiments").exists()


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
        ExperimentConfig.build(**{"figure": 5} | settings)


def test_bad_settings_end_the_command(equistrata):
    for arguments, sentence in ((["10"], "setting 'figure' is 10"), (["5", "--state", "XX"], "unknown state XX")):
        result = equistrata("experiments", "figure", *arguments)
        assert result.returncode == 2
        assert sentence in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1
        assert {path.name for path in equistrata.home.iterdir()} <= {"tmp"}  # nothing is left behind


def test_runs_on_other_rows_are_not_mixed(tmp_path):
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "rows.json").write_text(json.dumps({"rows": "ACS 2018 1-Year person records of NY (folktables)"}))
    config = ExperimentConfig(figure=5, quick=True, source="sample", output=str(tmp_path))
    with pytest.raises(InputError, match=r"holds runs on ACS 2018 .* not on embedded simulated sample"):
        experiment_steps.check(config)
    experiment_steps.check(config.model_copy(update={"figure": 3}))  # its rows are simulated
    (runs / "rows.json").write_text("{")
    with pytest.raises(InputError, match="does not say of which rows"):
        experiment_steps.check(config)


def test_an_output_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        experiment_steps.check(ExperimentConfig(figure=3, output=str(tmp_path / "file")))
