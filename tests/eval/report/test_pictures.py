"""Pictures of words that a schema may hold."""

from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from equistrata.eval.report.pictures import inline_svg


@pytest.mark.filterwarnings("ignore:Glyph")
def test_words_with_control_characters_are_drawn():
    """No XML may hold them: an audit ended in a traceback."""
    figure = Figure()
    figure.add_subplot().set_title("bell \x07, null \x00")
    svg = inline_svg(figure, "fig", "title", "description")
    assert "bell \ufffd, null \ufffd" in svg
    ElementTree.fromstring(svg)
