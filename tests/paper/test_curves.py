"""Curves: means and bands as they should be, and pictures whose files open and say what they are."""

import csv
import xml.etree.ElementTree as ET

import matplotlib.image
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from paper.curves import Curve, CurvePicture, Panel, as_csv, as_markdown, save

NOTE = "Not private: made up."


@pytest.fixture
def picture():
    runs = {0.01: [4.0, 2.0, 3.0], 0.1: [1.0, 1.0, 1.0], 1.0: [0.2, 0.4, 0.3]}
    ours = Curve.of("SEX × RAC1P", runs)
    told = Curve.plain("SEX × RAC1P, published", {0.01: 6.4, 1.0: 0.391}, "dotted", "SEX × RAC1P")
    panels = (
        Panel("AIM", (ours, told), "ε", "parity error", levels={"best": 0.1}),
        Panel("GEM", (ours,), "ε", "parity error"),
    )
    return CurvePicture("figure-x", "Figure x: made up", "Lower is better.", NOTE, panels, 2, "published")


def test_mean_and_band():
    curve = Curve.of("a", {2.0: [0.0, 1.0, 2.0, 3.0, 10.0], 1.0: [5.0]})
    assert curve.x == (1.0, 2.0)
    assert curve.value == (5.0, 3.2)
    np.testing.assert_allclose(curve.lower, [5.0, 0.4])
    np.testing.assert_allclose(curve.upper, [5.0, 7.2])
    assert curve.runs == 1


def test_the_csv_holds_every_point_and_says_that_it_is_not_private(picture):
    rows = list(csv.DictReader(as_csv(picture).splitlines()))
    assert len(rows) == 3 + 2 + 1 + 3
    assert {row["note"] for row in rows} == {NOTE}
    first = rows[0]
    assert (first["panel"], first["curve"], float(first["x"]), float(first["value"])) == (
        "AIM",
        "SEX × RAC1P",
        0.01,
        3.0,
    )
    assert (float(first["lower"]), float(first["upper"]), first["runs"]) == (2.2, 3.8, "3")
    assert next(row for row in rows if row["curve"].endswith("published"))["runs"] == "0"


def test_the_markdown_table(picture):
    text = as_markdown(picture)
    assert "| SEX × RAC1P | 3 (2.2 to 3.8) | 1 | 0.3 (0.22 to 0.38) | 3 |" in text
    assert "| SEX × RAC1P, published | 6.4 |  | 0.391 |  |" in text
    assert "| best | 0.1 |" in text
    assert NOTE in text
    widths = {line.count("|") for line in text.split("**GEM**")[0].splitlines() if line.startswith("|")}
    assert len(widths) == 1  # every row has as many cells as the header


def test_the_files_open(picture, tmp_path):
    svg, png, *_ = save(picture, tmp_path / "new")
    texts = {"".join(element.itertext()) for element in ET.parse(svg).iter() if element.tag.endswith("text")}
    assert {"Figure x: made up", "AIM", "GEM", "SEX × RAC1P", "published", "best", NOTE} <= texts
    assert matplotlib.image.imread(png).shape[0] > 300
    again = svg.read_bytes()
    save(picture, tmp_path / "new")
    assert svg.read_bytes() == again  # no date, no random ids


def test_nothing_is_drawn_over_anything_else(picture):
    """The title and legend above the panels, the note below them."""
    canvas = picture.draw()
    agg = FigureCanvasAgg(canvas)
    agg.draw()
    renderer = agg.get_renderer()
    panels = [axes.get_tightbbox(renderer) for axes in canvas.axes]
    legend = canvas.legends[0].get_window_extent(renderer)
    (note,) = [text for text in canvas.texts if text.get_text() == NOTE]
    below = note.get_window_extent(renderer)
    assert not panels[0].overlaps(panels[1])
    for panel in panels:
        assert not panel.overlaps(legend)
        assert not panel.overlaps(below)
    assert legend.y1 <= canvas.bbox.y1 + 1
    assert below.y0 >= -1


def test_a_log_axis_is_for_positive_values_only():
    def scale(*values):
        curve = Curve.plain("a", {float(i + 1): value for i, value in enumerate(values)})
        panel = Panel("p", (curve,), "x", "y")
        return CurvePicture("p", "p", "", NOTE, (panel,), 1).draw().axes[0].get_yscale()

    assert scale(1.0, 0.1) == "log"
    assert scale(1.0, 0.0) == "linear"
