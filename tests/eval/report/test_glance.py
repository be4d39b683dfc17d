"""The bars of a page's first screen, and names on a phone."""

from equistrata.eval.report.glance import ALL, Bar, bars
from equistrata.eval.report.group_errors import Shown
from equistrata.eval.report.plots import DotPlot, Dots


def of(number):
    order = [f"group {place}" for place in range(number)]
    return order, {group: 0.5 / (place + 1) for place, group in enumerate(order)}, dict.fromkeys(order, 1234.4)


def test_few_groups_are_all_shown_against_the_longest():
    found = bars(*of(ALL))
    assert [bar.group for bar in found] == of(ALL)[0]
    assert found[0] == Bar("group 0", "1,234", "50\u00a0%", 100.0)
    assert found[1].width == 50.0


def test_of_many_groups_the_worst_and_the_best_are_shown_and_the_others_counted():
    found = bars(*of(20))
    assert [bar.group for bar in found] == [
        "group 0", "group 1", "group 2", "group 3", "14 in between", "group 18", "group 19",
    ]  # fmt: skip
    assert found[4] == Bar("14 in between")


def test_groups_that_are_not_off_have_no_bar():
    assert bars(["one"], {"one": 0.0}, {"one": 3.0})[0].width == 0.0


def test_no_line_runs_through_a_name_on_a_phone():
    numbers = {"one": {"a": Shown(0.9), "b": Shown(1.1)}}
    dots = Dots(numbers, "ratio", reference=1.0)
    picture = DotPlot("ratios", "Ratios", "", "", (dots,), {"a": "The first", "b": "The second"})
    names = {text.get_text(): text for axes in picture.draw(narrow=True).axes for text in axes.texts}
    assert names.keys() == {"The first", "The second"}
    assert all(name.get_bbox_patch() is not None for name in names.values())
