"""Tests of the reading level of reports, which are read by many kinds of readers.

The automated readability index (Senter and Smith, 1967, AMRL-TR-66-220) is about the number of years of school.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from unittest import mock

import pytest
from report_fixtures import HISTORY, internal_report, public_report

from equistrata.eval.report.page import write_report

TEXT, ASIDE = {"p", "li", "h1", "h2", "h3", "summary", "reading", "dd"}, {"script", "style", "svg", "table"}
FEWEST_WORDS = 8
MEAN, MOST = 8.0, 12.0


class Paragraphs(HTMLParser):
    """A parser that returns the text of a page without its figures and tables."""

    def __init__(self):
        super().__init__()
        self.texts, self.aside = [""], 0

    def handle_starttag(self, tag, attrs):
        self.aside += tag in ASIDE
        if tag in TEXT:
            self.texts.append("")

    def handle_endtag(self, tag):
        self.aside -= tag in ASIDE
        if tag in TEXT:
            self.texts.append("")

    def handle_data(self, data):
        if not self.aside:
            self.texts[-1] += data


def words(text):
    return re.findall(r"[^\W_]+(?:[.,'’-][^\W_]+)*", text)


def grade(text):
    """Return the automated readability index of a text. A sentence can also end with a colon or a semicolon."""
    found = words(text)
    letters = sum(len(re.sub(r"\W", "", word)) for word in found)
    sentences = max(len(re.findall(r"[.!?:;](?=\s|$)", text)), 1)
    return 4.71 * letters / len(found) + 0.5 * len(found) / sentences - 21.43


def test_the_index_knows_plain_from_hard_sentences():
    assert grade("Men in this group are off by 4 %. The line is the interval.") < 4
    hard = (
        "Heteroskedastic disturbances notwithstanding, asymptotically efficient estimators necessitate regularisation"
    )
    assert grade(hard) > 20


@pytest.mark.parametrize("make", [public_report, internal_report])
def test_a_report_takes_eight_school_years_and_no_paragraph_more_than_twelve(make, tmp_path):
    parser = Paragraphs()
    with mock.patch("equistrata.eval.scores.classifiers.TREES", 20):  # the accuracy of the predictions is not tested
        parser.feed(write_report(make(history=HISTORY), tmp_path).read_text("utf-8"))
    texts = [" ".join(text.split()) for text in parser.texts if len(words(text)) >= FEWEST_WORDS]
    grades = {text: grade(text) for text in texts}
    assert len(grades) > 20
    assert sum(grades.values()) / len(grades) < MEAN
    assert {text: found for text, found in grades.items() if found > MOST} == {}
