"""Pictures of words that a schema may hold."""

import io
from itertools import pairwise
from unittest import mock
from xml.etree import ElementTree

import pytest
from matplotlib import rc_context
from matplotlib.figure import Figure

from equistrata.eval.report import pictures
from equistrata.eval.report.group_errors import Shown
from equistrata.eval.report.heat_maps import HeatMap
from equistrata.eval.report.pictures import STYLE, inline_svg
from equistrata.eval.report.plots import DotPlot, Dots
from equistrata.eval.report.words import count
from equistrata.flows.cli.plots import save_plot

_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "fig"}
_NOTHING_ELSE = {"Date": None, "Creator": None, "Format": None}


def test_words_with_control_characters_are_drawn():
    """No XML may hold them: an audit ended in a traceback."""
    figure = Figure()
    figure.add_subplot().set_title("bell \x07, null \x00")
    svg = inline_svg(figure, "fig", "title", "description")
    assert r"bell \u0007, null \u0000" in svg
    ElementTree.fromstring(svg)


def test_letters_that_a_font_lacks_are_text_without_a_warning():
    """A page is shown in its reader's fonts; each such name had printed a warning with a path of the program."""
    figure = Figure()
    figure.add_subplot().set_title("名前")
    assert "名前" in inline_svg(figure, "fig", "title", "description")


@pytest.mark.parametrize(("title", "said"), [("名前", "lacks some letters"), ("Größe", "")])
def test_a_plot_with_letters_that_its_font_lacks_is_noted(tmp_path, capsys, title, said):
    figure = Figure()
    figure.add_subplot().set_title(title)
    save_plot(figure, tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 1000
    err = capsys.readouterr().err
    assert said in err
    assert bool(said) == bool(err)


def test_a_picture_is_drawn_once_to_what_savefig_draws_twice():
    def figure():
        made = Figure(figsize=(4, 3), layout="constrained")
        for axes in made.subplots(2):
            axes.plot([1, 4, 2], label="a line")
            axes.set(xlabel="across", title="above")
        made.legend(loc="outside upper left")
        made.axes[0].inset_axes([0.6, 0.6, 0.3, 0.3])
        return made

    plain, fromstring = io.StringIO(), ElementTree.fromstring
    with rc_context(_SETTINGS):
        figure().savefig(plain, format="svg", transparent=True, metadata=_NOTHING_ELSE)
    with (
        mock.patch.object(Figure, "draw", autospec=True, side_effect=Figure.draw) as drawn,
        mock.patch.object(pictures.ET, "fromstring", side_effect=fromstring) as read,
    ):
        inline_svg(figure(), "fig", "title", "description")
    assert drawn.call_count == 1
    assert read.call_args.args == (plain.getvalue(),)


@pytest.mark.parametrize(
    ("called", "upright"),
    [(["Age", "Days in hospital", "Main diagnosis"] * 2, True), (["Unbreakable-words"] * 9, False)],
)
def test_names_of_columns_are_above_and_upright_where_they_fit(called, upright):
    """They were on their side, below the last of many groups, where each had room for its name in two lines."""
    words = {f"group {place}": f"Female, District {place}" for place in range(24)}
    errors = {f"C{place}": dict.fromkeys(words, Shown(0.1)) for place in range(len(called))}
    drawn = HeatMap("cells", "t", "r", "d", errors, words, called).draw()
    drawn.draw_without_rendering()
    (axes,) = drawn.axes
    labels = axes.get_xticklabels()
    assert axes.xaxis.get_ticks_position() == "top"
    assert {each.get_rotation() for each in labels} == {0.0 if upright else 90.0}
    boxes = [each.get_window_extent() for each in labels]
    assert all(one.x1 < other.x0 for one, other in pairwise(boxes))
    assert min(box.y0 for box in boxes) > axes.get_window_extent().y1 - 1
    assert max(box.y1 for box in boxes) <= drawn.bbox.y1 + 1


@pytest.mark.parametrize(
    ("least", "most", "left"),
    [
        (10_000, 1_500_000, ["10,000", "100,000", "1,000,000"]),  # had 30,000 and 300,000 between them
        (250_000, 14_000_000, ["1,000,000", "10,000,000"]),
        (2_000, 3_000, ["2,000", "3,000"]),
    ],
)
def test_numbers_of_an_axis_do_not_touch(least, most, left):
    """Figure 1 of a free audit has two panels: sizes of large tables ran over each other."""
    words = dict.fromkeys(("small", "large"), "Female, Other American Indian or Alaska N…")
    sizes = {"small": Shown(least), "large": Shown(most)}
    shares = {"small": Shown(0.00012), "large": Shown(0.2)}
    panels = (Dots({"": shares}, "expected distance"), Dots({"": sizes}, "rows, about", shown=count))
    with rc_context(STYLE):
        drawn = DotPlot("groups", "t", "r", "d", panels, words).draw()
        drawn.draw_without_rendering()
        for axes in drawn.axes:
            boxes = [each.get_window_extent() for each in axes.get_xticklabels()]
            assert len(boxes) >= 2
            assert all(one.x1 + 3 < other.x0 for one, other in pairwise(boxes))
        low, high = axes.get_xlim()
        assert [each.get_text() for each in axes.get_xticklabels() if low < each.get_position()[0] < high] == left


@pytest.mark.parametrize("narrow", [False, True])
def test_forty_columns_have_their_numbers_in_their_cells(narrow):
    """They were in one row: numbers ran over each other, and names on a phone."""
    words = {f"group {place}": f"Female, District {place}" for place in range(3)}
    errors = {f"C{place}": dict.fromkeys(words, Shown(0.000444)) for place in range(40)}
    drawn = HeatMap("cells", "t", "r", "d", errors, words, [f"Charge {place}" for place in range(40)]).draw(narrow)
    drawn.draw_without_rendering()
    boxes = []
    for axes in drawn.axes:
        width = axes.transData.transform((1, 0))[0] - axes.transData.transform((0, 0))[0]
        found = [text.get_window_extent() for text in axes.texts if text.get_text() == "0.044"]
        assert all(box.width < width for box in found)
        labels = [each.get_window_extent() for each in axes.get_xticklabels()]
        assert all(one.x1 < other.x0 for one, other in pairwise(labels))
        boxes += found
    assert len(drawn.axes) > 1
    assert len(boxes) == 40 * len(words)
