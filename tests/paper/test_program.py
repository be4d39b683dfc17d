"""Tests of small runs of `python -m paper`: the files, resumed runs and errors."""

import csv
import json
import math
from dataclasses import asdict, fields

import pytest
from matplotlib import rc_context

from equistrata.data.sources import SampleSource
from paper import means, mixture, stratification, synthesizers
from paper.comparison import STYLE, Comparison, Settings, compare
from paper.synthesizers import Line


def numbers(path):
    """Return the rows of a CSV file that was written by the command."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def published(path):
    """Return a dictionary from (panel, arm, x) to our value and the published value."""
    return {
        (row["panel"], row["arm"], float(row["x"])): (float(row["ours"]), float(row["published"]))
        for row in numbers(path)
        if row["published"]
    }


@pytest.fixture
def made_up(monkeypatch):
    """Replace the fit of the synthesizers with lines that depend only on ε and the seed.

    Return the list of the cells that were computed.
    """
    made = []

    def measure(cell, source, eighth):
        made.append(cell)
        scores = [field.name for field in fields(Line) if field.name not in asdict(cell)]
        value = (0 if math.isinf(cell.epsilon) else cell.epsilon) + cell.seed
        # There is a single stratum, so the error is twice the difference from 1.
        sums = {
            name: json.dumps([[1, *[1 + each / 14] * 8]])
            for name, each in (("real_sums", 0), ("synthetic_sums", value))
        }
        return Line(**asdict(cell), **dict.fromkeys(scores, value) | sums | {"eighth": eighth})

    monkeypatch.setattr(synthesizers, "measure", measure)
    return made


def test_the_talks_numbers_are_ours(paper, home):
    """The tolerance is 0.01 for the values of K. For the published levels and powers, which are based on 10,000 runs,
    it is three standard errors.
    """
    result = paper("proportions", 1)
    assert result.returncode == 0, result.stderr
    found = published(home / "experiments" / "proportions.csv")
    assert len(found) == 20 + 30
    for (panel, *_), (ours, theirs) in found.items():
        error = 0.01 if panel.startswith("K") else 3 * math.sqrt(ours * (1 - ours) / 10_000)
        assert abs(ours - theirs) <= error
    assert "2.64 (2.64)" in result.stdout


def test_logarithmic_axes_have_plain_numbers():
    """Regression test: matplotlib writes the numbers of a logarithmic axis as formulas, and the style shows formulas as
    text.
    """
    numbers = compare([("panel", "arm", x, 10 * x) for x in (0.01, 0.1, 1.0, 10.0)], {})
    with rc_context(STYLE):
        canvas = Comparison("name", "title", "ε", "note", numbers).draw()
        canvas.draw_without_rendering()
    (axes,) = canvas.axes
    for axis in (axes.xaxis, axes.yaxis):
        shown = {label.get_text() for label in axis.get_ticklabels(which="both")}
        assert {"0.1", "1", "10"} <= shown
        assert not any("$" in text for text in shown)


def test_the_talks_figures(paper, home):
    """The error is the mean of 400 squares. The standard deviation of a square is at most √5 times the mean.

    Five standard errors are 0.56 times the mean. The probability of a false alarm in 30 cases is about 10⁻⁵.
    """
    assert paper("proportions", 2, 3, "--runs", 400).returncode == 0
    folder = home / "experiments"
    for name in ("epsilon", "rows"):
        found = {(row["panel"], row["arm"], row["x"]): row for row in numbers(folder / f"proportions-error-{name}.csv")}
        for (panel, arm, x), row in found.items():
            if arm == "simulated":
                exact = float(found[panel, "exact", x]["ours"])
                assert float(row["ours"]) == pytest.approx(exact, rel=0.56)
    exact = {row["panel"]: float(row["ours"]) for row in numbers(folder / "proportions-power.csv") if (
        row["arm"], row["x"]) == ("exact", "0.25")}  # fmt: skip
    assert exact == pytest.approx({"N = 100": 0.05, "N = 376": 0.05})  # the power at the null hypothesis is the level


@pytest.mark.parametrize(("name", "number", "runs"), [("federated", 4, 30), ("ratio", 3, 4)])
def test_the_same_seed_gives_the_same_table(paper, home, name, number, runs):
    for output in ("one", "two"):
        result = paper(name, number, "--runs", runs, "--output", output)
        assert result.returncode == 0, result.stderr
    one, two = (home / output / f"{name}-{number}.csv" for output in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    assert one.with_suffix(".png").stat().st_size > 10_000
    assert len(published(one)) == {"federated": 2 * (1 + 4 * 7), "ratio": 3 * 64}[name]


def test_figure_1_is_theorem_10_between_its_bounds(paper, home):
    assert paper("stratification", 1).returncode == 0
    arms = {}
    for row in numbers(home / "experiments" / "figure-1.csv"):
        arms.setdefault(row["arm"], {})[float(row["x"])] = float(row["ours"])
    theorem, above = arms["Theorem 10"], arms["k ln(n/k), Proposition 9"]
    assert max(theorem.values()) < above[1.0] == pytest.approx(89.9, abs=0.1)
    moments, likelihood = sorted(x for x in theorem if abs(10 * x - round(10 * x)) > 1e-9)
    assert [moments, likelihood] == pytest.approx([0.1301, 0.2566], abs=1e-4)
    # The bound is exact at the α of the maximum likelihood.
    assert theorem[likelihood] == pytest.approx(arms["New York 2018 itself"][likelihood])


def test_figures_of_means_are_continued(paper, home):
    """A line that is not complete is computed again. The other lines are not changed."""
    given = ("stratification", 2, "--quick", "--runs", 1, "--source", "sample")
    result = paper(*given)
    assert result.returncode == 0, result.stderr
    assert "Not private" in result.stdout
    folder = home / "experiments"
    (runs,) = (folder / "runs").iterdir()
    before, whole = runs.read_bytes(), (folder / "figure-2.csv").read_bytes()
    runs.write_bytes(before[:-9])
    assert paper(*given).returncode == 0
    assert runs.read_bytes() == before
    assert (folder / "figure-2.csv").read_bytes() == whole
    assert len(published(folder / "figure-2.csv")) == 2 * 2 * 2 * 5  # outcomes, errors, estimators and strata


def test_a_figure_of_simulated_rows_reads_no_files(paper, home):
    """The result must not depend on the number of workers."""
    for output, workers in (("one", 1), ("two", 2)):
        settings = Settings(SampleSource(), home / output, runs=1, workers=workers, quick=True)
        (found,) = stratification.compare_figure(3, settings)
        found.write(home / output)
    one, two = (home / output / "figure-3.csv" for output in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    assert {row["runs"] for row in numbers(one)} == {"10"}
    assert all(0 <= float(row["low"]) <= float(row["ours"]) for row in numbers(one))


@pytest.mark.parametrize(("figure", "printed"), [(4, 24), pytest.param(5, 24, marks=pytest.mark.slow), (7, 72), (9, 0)])
def test_figures_of_synthesizers_are_means_over_seeds(paper, home, made_up, figure, printed):
    given = ("stratification", figure, "--quick", "--source", "sample")
    assert paper(*given).returncode == 0
    rows = numbers(home / "experiments" / f"figure-{figure}.csv")
    for row in rows:
        epsilon = 0 if row["arm"] in stratification.REAL_ARMS else float(row["x"])
        share = 1 / 14 if row["panel"].startswith("(a)") else 1
        assert float(row["ours"]) == pytest.approx((epsilon + 0.5) * share)  # the mean over the seeds 0 and 1
        assert row["runs"] == "2"
    assert {"vanilla", "SEX_RAC1P", "SEX_RAC1P (default)"} <= {row["arm"] for row in rows}
    assert len(published(home / "experiments" / f"figure-{figure}.csv")) >= printed
    assert len(made_up) == len(set(made_up))
    made_up.clear()
    assert paper(*given).returncode == 0
    assert made_up == []


def test_published_numbers_stand_at_their_place(paper, home, made_up):
    paper("stratification", 5, "--quick", "--source", "sample")
    found = published(home / "experiments" / "figure-5.csv")
    aim = {x: theirs for (panel, arm, x), (_, theirs) in found.items() if (panel[-3:], arm) == ("AIM", "SEX_RAC1P")}
    # The sum over all columns except ESP in the file of the authors.
    seven = {0.01: 24.131, 0.1: 9.09, 1.0: 1.912, 5.0: 0.773}
    assert aim == pytest.approx(seven, abs=0.001)


@pytest.mark.slow
def test_one_call_is_of_several_states(paper, home, made_up):
    """Each state has its own files. The sum over the eight columns is used only if ESP is one of the columns."""
    for year, state in (("2018", 50), ("2024", 36)):
        folder = home / "acs" / year / "1-Year"
        folder.mkdir(parents=True)
        (folder / f"psam_p{state}.csv").write_text("AGEP\n")
    result = paper("stratification", 5, 1, "--quick", "--runs", 1, "--rows", "NY-2024", "VT-2018-ESP")
    assert result.returncode == 0, result.stderr
    folder = home / "experiments"
    eight = {place: [row for row in numbers(folder / f"figure-5-{place}.csv") if "eight" in row["panel"]] for place in (
        "NY-2024", "VT-2018-ESP")}  # fmt: skip
    assert not eight["NY-2024"]
    vanilla = [float(row["published"]) for row in eight["VT-2018-ESP"] if (row["arm"], row["x"]) == ("vanilla", "1.0")]
    assert vanilla == pytest.approx(
        [8.215, 3.113, 7.432], abs=0.002
    )  # the values of MST, AIM and GEM in the plot of the paper
    by_column = {row["panel"] for row in numbers(folder / "figure-5-columns-VT-2018-ESP.csv")}
    assert {"ESP, MST", "AGEP, GEM"} <= by_column
    assert len(by_column) == 8 * 3
    assert result.stdout.count("figure-1.csv") == 1


@pytest.mark.parametrize("figure", range(2, 10))
def test_a_quick_figures_runs_are_part_of_the_whole_ones(figure):
    """The runs of a quick figure can be used for the full figure."""
    quick, whole = (stratification.cells_of(figure, seeds, seeds == 2) for seeds in (2, 5))
    assert quick.keys() == whole.keys()
    for kind, cells in whole.items():
        assert len(cells) == len(set(cells))
        assert set(quick[kind]) < set(cells)


def test_the_papers_settings():
    fits, simulated, estimated = (
        stratification.cells_of(figure, 5, False)[kind]
        for figure, kind in ((5, synthesizers), (6, mixture), (8, means))
    )
    assert {cell.seed for cell in fits} == set(range(5))
    assert {cell.epsilon for cell in fits} == {0.01, 0.05, 0.1, 0.5, 1.0, 5.0, math.inf}
    assert len({(cell.mechanism, cell.arm) for cell in fits}) == 15 + 1
    assert ({cell.k for cell in simulated}, max(cell.run for cell in simulated)) == ({3, 6, 12}, 49)
    assert (min(cell.n for cell in simulated), max(cell.n for cell in simulated)) == (4_000, 20_000)
    assert len(estimated) == 5 * 4 * 15 * 7


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (("ratio", 5), "ratio has no number 5; choose 1 to 4"),
        (("federated", 0), "federated has no number 0"),
        (("stratification", 10), "no number 10"),
        (("proportions", "--runs", 0), "--runs is 0"),
        (("stratification", 5, "--root-dir", "nowhere"), "nowhere"),
        (("stratification", 5, "--rows", "VT"), "--rows has 'VT'; give a state and a survey year"),
    ],
)
def test_what_is_refused(paper, home, given, sentence):
    result = paper(*given)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not [*home.iterdir()]
