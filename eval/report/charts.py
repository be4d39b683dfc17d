"""The figures of a report, which are drawn as rows of marks along an axis.

Intervals are drawn as lines, and shares as bars. A chart has the names of the groups on the left, and one strip of SVG
for each panel. The positions along a strip are percentages of its width, so the same chart can be used on wide and
narrow screens and on paper. Colour is never the only difference: each series has its own marker, and the marks below
the noise floor are hollow with dotted intervals.

>>> panel = Panel({"one": {"a": ReportedNumber(0.1, 0.05, 0.2)}}, "error", limits=(0.01, 1.0))
>>> panel.place(0.1), len(panel.ticks)
(50.0, 5)
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from equistrata.eval.report.group_errors import ReportedNumber
from equistrata.eval.report.pictures import SERIES

ROW, DODGE = 22, 12  # the height of a row in CSS pixels, and the additional height for each further release
LETTERS = 36  # the number of characters for all axis labels of a chart, so that they fit the width of a phone
MARKERS = (
    "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z", "M-3.6,-3.6h7.2v7.2h-7.2z", "M0,-5L5,0L0,5L-5,0z",
    "M0,-4.6L4.6,3.6H-4.6z", "M0,4.6L4.6,-3.6H-4.6z", "M-5,-1.5h3.5v-3.5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5z",
)  # fmt: skip
HEAT_STEPS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
HEAT_WORDS = ("under 0.1 %", "0.1 to 0.3 %", "0.3 to 1 %", "1 to 3 %", "3 to 10 %", "10 to 30 %", "over 30 %")


@dataclass(frozen=True)
class Panel:
    """The numbers of each release along one axis.

    Parameters
    ----------
    numbers : mapping of str to mapping of str to Shown
        The number of each label, for each release.
    axis : str
        The label of the axis.
    log : bool, default=True
        If True, the axis is logarithmic.
    shown : callable
        The function that formats a number for the tick labels.
    reference : float, optional
        The best value, which is marked by a line. If None, there is no line.
    limits : tuple of two float, optional
        The ends of the axis. By default, they are computed from the numbers.
    bars : mapping of str to float
        The share of each label that is drawn as a bar behind the marks.
    letters : int
        The number of characters that are available for the tick labels.
    """

    numbers: Mapping[str, Mapping[str, ReportedNumber]]
    axis: str = ""
    log: bool = True
    shown: Callable[[float], str] = lambda x: f"{100 * x:g}\u00a0%"
    reference: float | None = None
    limits: tuple[float, float] | None = None
    bars: Mapping[str, float] = field(default_factory=dict)
    letters: int = LETTERS

    @cached_property
    def ends(self) -> tuple[float, float]:
        """Return the ends of the axis.

        The axis contains every estimate, and the intervals as far as they are useful.
        """
        if self.limits is not None:
            return self.limits
        every = [shown for of in self.numbers.values() for shown in of.values() if not shown.note]
        values = [x for s in every for x in (s.value, s.lower, s.upper) if x and math.isfinite(x)]
        values += [self.reference] if self.reference else []
        low, high = min(values, default=0.01), max(values, default=1.0)
        low = max(low, high / 10**5)
        spare = 1.4 if high / low > 12 else 1.1
        return low / spare, high * spare

    def place(self, x: float) -> float:
        """Return the position of a number in percent of the axis. Numbers beyond the ends are clipped."""
        low, high = self.ends
        x = min(max(x, low), high)
        part = math.log(x / low) / math.log(high / low) if self.log else (x - low) / (high - low)
        return round(100 * part, 2)

    @cached_property
    def ticks(self) -> list[tuple[float, str]]:
        """Return the positions and the labels of as many ticks as there is space for."""
        low, high = self.ends
        found = log_ticks(low, high) if self.log else linear_ticks(low, high)
        while len(found) > 2 and sum(len(self.shown(x)) + 1 for x in found) > self.letters:
            tens = [x > 0 and math.log10(x).is_integer() for x in found]
            found = found[int(sum(tens[1::2]) > sum(tens[::2])) :: 2]
        return [(self.place(x), self.shown(x)) for x in found]

    @property
    def scale(self) -> str:
        """Return the tick labels as SVG."""
        texts = "".join(
            f'<text x="{x}%" y="12" text-anchor="{"start" if x < 8 else "end" if x > 92 else "middle"}">{text}</text>'
            for x, text in self.ticks
        )
        return f'<svg class="strip" height="16">{texts}</svg>'

    def strip(self, label: str) -> str:
        """Return the marks of one row as SVG."""
        series = list(self.numbers.values())
        spread = any(shown.lower is not None for of in series for shown in of.values())
        height = ROW + (DODGE * (len(series) - 1) if spread else 0)
        parts = [_line(x, x, (0, height), "grid", 1) for x, _ in self.ticks]
        if self.reference is not None:
            best = self.place(self.reference)
            parts.append(_line(best, best, (0, height), "muted", 1))
        if label in self.bars:
            wide = self.place(self.bars[label])
            parts.append(f'<rect x="0" y="4" width="{wide}%" height="{height - 8}" fill="var(--line)"/>')
        for k, of in enumerate(series):
            if label in of:
                parts += self._marks(of[label], k, height / 2 + (DODGE * (k - (len(series) - 1) / 2) if spread else 0))
        return f'<svg class="strip" height="{height}">{"".join(parts)}</svg>'

    def _marks(self, shown: ReportedNumber, series: int, y: float) -> list[str]:
        """Return the marker and the interval of one number.

        The marker is filled, or hollow if the number is below the noise floor. The interval is cut off at the end of
        the axis.
        """
        colour, found, (low, high) = SERIES[series % len(SERIES)], [], self.ends
        if shown.lower is not None and shown.upper is not None:
            found.append(_line(self.place(shown.lower), self.place(shown.upper), (y, y), colour, 1.6, bool(shown.note)))
            if shown.upper > high and not shown.note:
                found.append(_mark("M-4,-4L3,0L-4,4z", 100.0, y, colour, colour))
        if shown.value is not None and (not shown.note or low <= shown.value <= high):
            face = "paper" if shown.note else colour
            found.append(_mark(MARKERS[series % len(MARKERS)], self.place(shown.value), y, colour, face))
        return found


@dataclass(frozen=True, eq=False)
class Chart:
    """The content of a figure that has not been rendered.

    Attributes:
        name: its id in a page.
        title: what it shows.
        reading: how to read it, in a sentence.
        description: for those who do not see it.
        sections: heading → the rows (label → name) and their panels, side by side.
        releases: the names of the series.
        bars: what bars are, if there are any.
        interval: what lines are, if there are any.
    """

    name: str
    title: str
    reading: str
    description: str
    sections: Mapping[str, tuple[Mapping[str, str], Sequence[Panel]]]
    releases: Sequence[str] = ()
    bars: str = ""
    interval: str = "interval"

    @property
    def legend(self) -> list[tuple[str, str]]:
        """Return each kind of mark as SVG, and its meaning."""
        panels = [panel for _, of in self.sections.values() for panel in of]
        shown = [shown for panel in panels for of in panel.numbers.values() for shown in of.values()]
        found = [
            (_mark(MARKERS[k % len(MARKERS)], 50, 7, colour, colour), name)
            for k, name in enumerate(self.releases)
            for colour in [SERIES[k % len(SERIES)]]
        ]
        if self.bars:
            found.append(('<rect y="2" width="100%" height="10" fill="var(--line)"/>', self.bars))
        if any(each.lower != each.upper and not each.note for each in shown):
            found.append((_line(0, 100, (7, 7), "muted", 1.6), self.interval))
        if any(each.note and (each.value is not None or each.upper is not None) for each in shown):
            hollow = _mark(MARKERS[0], 50, 7, "muted", "paper")
            found.append((f"{_line(0, 100, (7, 7), 'muted', 1.6, True)}{hollow}", "cannot be judged"))
        if any(panel.reference is not None for panel in panels):
            found.append((_line(50, 50, (0, 14), "muted", 1), "best value"))
        return [(f'<svg class="key">{mark}</svg>', words) for mark, words in found]


def shade(error: float | None) -> str:
    """Return the CSS class of a table cell for an error, or `none` if there is no error.

    >>> shade(0.0004), shade(0.02), shade(None)
    ('heat0', 'heat3', 'none')
    """
    return "none" if error is None else f"heat{bisect_right(HEAT_STEPS, error)}"


def _line(start: float, end: float, ys: tuple[float, float], colour: str, width: float, dotted: bool = False) -> str:
    dots = ' stroke-dasharray="2 3"' if dotted else ""
    at = f'x1="{start}%" x2="{end}%" y1="{ys[0]:g}" y2="{ys[1]:g}"'
    return f'<line {at} stroke="var(--{colour})" stroke-width="{width}"{dots}/>'


def _mark(path: str, x: float, y: float, colour: str, face: str) -> str:
    style = f'fill="var(--{face})" stroke="var(--{colour})" stroke-width="1.4"'
    return f'<svg x="{x}%" y="{y:g}" overflow="visible"><path d="{path}" {style}/></svg>'


def linear_ticks(low: float, high: float) -> list[float]:
    """Return three to six round numbers for a linear axis.

    >>> linear_ticks(0.0, 1.0), linear_ticks(0.0, 0.43)
    ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 0.1, 0.2, 0.3, 0.4])
    """
    power = 10.0 ** math.floor(math.log10(high - low))
    step = next(step * power for step in (0.25, 0.5, 1, 2) if (high - low) / (step * power) < 6)
    first = math.ceil(low / step)
    return [round(k * step, 10) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return round numbers for a logarithmic axis.

    The numbers have one or two digits. There are at least two numbers if the axis contains two such numbers.

    >>> log_ticks(9.0, 90.0), log_ticks(1440.0, 1790.0)
    ([10.0, 20.0, 50.0], [1500.0, 1600.0, 1700.0])
    """
    reach = high / low
    steps = (1,) if reach > 300 else (1, 3) if reach > 12 else (1, 2, 5) if reach > 4 else (1, 1.2, 1.5, 2, 3, 5, 8)
    found = _within(low, high, steps)
    if len(found) < 2:
        fine = _within(low, high, [digits / 10 for digits in range(10, 100)])
        found = fine[:: -(-len(fine) // 4) or 1]
    return found


def _within(low: float, high: float, steps: Sequence[float]) -> list[float]:
    every = (step * 10.0**power for power in range(-6, 12) for step in steps)
    return [x for x in every if low <= x <= high]
