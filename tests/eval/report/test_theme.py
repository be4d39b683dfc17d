"""Tests of the contrast of the colours of a report, in light and dark."""

from __future__ import annotations

import pytest

from equistrata.eval.report.charts import HEAT_WORDS
from equistrata.eval.report.pictures import DARK, LIGHT, SERIES


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours (WCAG 2.2, relative luminance), which is between 1 and 21."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return round((light + 0.05) / (dark + 0.05), 2)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_marks_have_the_contrast_that_wcag_asks_for(palette):
    for name in ("ink", "muted", "link"):
        for ground in ("paper", "raised"):
            assert contrast(palette[name], palette[ground]) >= 4.5, (name, ground)
    assert contrast(palette["alarm"], palette["mark"]) >= 4.5
    for step in range(len(HEAT_WORDS)):
        assert contrast(palette[f"heatink{step}"], palette[f"heat{step}"]) >= 4.5, step
    for name in SERIES:
        assert contrast(palette[name], palette["paper"]) >= 3, name


def test_the_palettes_have_the_same_roles():
    assert LIGHT.keys() == DARK.keys()


def test_contrast_is_wcags():
    assert contrast("#ffffff", "#000000") == 21.0
    assert contrast("#777777", "#ffffff") == 4.48  # a well-known grey with a contrast below the limit
    assert contrast("#123456", "#123456") == 1.0
