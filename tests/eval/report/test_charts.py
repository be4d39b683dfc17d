"""Tests of the charts of a report and of the plots that are saved by commands."""

import re
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from equistrata.eval.report.charts import MARKERS, Chart, Panel, shade
from equistrata.eval.report.group_errors import ReportedNumber
from equistrata.eval.report.words import count
from equistrata.flows.cli.reading.figure import save_plot


def marks(panel, label):
    """Return the lines and the markers of a strip without the axis."""
    root = ElementTree.fromstring(panel.strip(label))
    lines = [each.attrib for each in root.findall("line") if each.get("y1") == each.get("y2")]
    return lines, [(each.get("x"), each[0].attrib) for each in root.findall("svg")]


def test_a_number_is_at_its_place_and_its_interval_ends_where_the_axis_does():
    panel = Panel(
        {"one": {"a": ReportedNumber(0.1, 0.001, 5.0)}, "two": {"a": ReportedNumber(1.0)}}, limits=(0.01, 1.0)
    )
    (line,), found = marks(panel, "a")
    assert (line["x1"], line["x2"]) == ("0.0%", "100.0%")
    assert [x for x, _ in found] == ["100.0%", "50.0%", "100.0%"]  # the arrow is for the end that is cut off
    assert {mark["d"] for _, mark in found} >= {*MARKERS[:2]}  # the series differ in shape and in colour
    assert panel.strip("b").count("<svg") == 1


def test_what_is_below_the_noise_floor_is_hollow_and_dotted():
    panel = Panel({"one": {"a": ReportedNumber(0.1, 0.05, 0.2, "noise"), "b": ReportedNumber(0.2, 0.1, 0.4)}})
    for label, dotted, face in (("a", True, "var(--paper)"), ("b", False, "var(--series1)")):
        (line,), ((_, mark),) = marks(panel, label)
        assert ("stroke-dasharray" in line, mark["fill"]) == (dotted, face)


@pytest.mark.parametrize(
    ("least", "most", "left"),
    [
        (10_000, 1_500_000, ["10,000", "1,000,000"]),
        (250_000, 14_000_000, ["1,000,000", "10,000,000"]),
        (2_000, 3_000, ["2,000", "3,000"]),
    ],
)
def test_the_numbers_of_an_axis_have_room(least, most, left):
    """Regression test: the sizes of large tables overlapped."""
    panel = Panel({"": {"small": ReportedNumber(least), "large": ReportedNumber(most)}}, shown=count, letters=18)
    assert re.findall(">([0-9,]+)</text>", panel.scale) == left


def test_numbers_of_no_size_have_an_axis():
    for panel in (
        Panel({}),
        Panel({"one": {"a": ReportedNumber(0.0)}}),
        Panel({"one": {}}, log=False, limits=(0.0, 1.0)),
    ):
        assert len(panel.ticks) >= 2
        ElementTree.fromstring(panel.strip("a"))


def test_a_legend_names_each_kind_of_mark_that_is_there_and_no_other():
    whole, hidden = ReportedNumber(0.1, 0.05, 0.2), ReportedNumber(0.1, 0.0, 0.9, "noise")

    def legend(numbers, **more):
        panel = Panel({"one": numbers}, **more)
        return [words for _, words in Chart("n", "t", "r", "d", {"": ({}, (panel,))}, ["estimate"]).legend]

    assert legend({"a": ReportedNumber(0.1), "b": ReportedNumber(None, note="not known")}) == ["estimate"]
    assert legend({"a": whole}) == ["estimate", "interval"]
    assert legend({"a": hidden}, reference=1.0) == ["estimate", "cannot be judged", "best value"]


def test_shades_follow_their_legend():
    assert [shade(x) for x in (0.0, 0.001, 0.0299, 0.3, 1.0)] == ["heat0", "heat1", "heat3", "heat6", "heat6"]


@pytest.mark.parametrize(("title", "said"), [("名前", "lacks some letters"), ("Größe", "")])
def test_a_plot_with_letters_that_its_font_lacks_is_noted(tmp_path, capsys, title, said):
    figure = Figure()
    figure.add_subplot().set_title(title)
    save_plot(figure, tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 1000
    err = capsys.readouterr().err
    assert said in err
    assert bool(said) == bool(err)
