"""Tests of names that depend on the scheduled time of a release."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equistrata.errors import InputError
from equistrata.flows.config.placeholders import PLACEHOLDERS, filled
from equistrata.flows.config.release import ReleaseConfig

NEW_YORK = ZoneInfo("America/New_York")


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("releases/{year}", "releases/2027"),
        ("releases/{month}", "releases/2027-01"),
        ("{week}", "2026-W53"),
        ("{date}", "2027-01-01"),
        ("{time}", "20270101T113000Z"),
        ("people-{month}/{date}", "people-2027-01/2027-01-01"),
        ("plain", "plain"),
    ],
)
def test_each_placeholder(pattern, name):
    assert filled(pattern, datetime(2027, 1, 1, 6, 30, tzinfo=NEW_YORK), "America/New_York") == name


def test_the_schedules_calendar_counts_not_that_of_utc():
    first_of_may = datetime(2027, 5, 1, 6, tzinfo=ZoneInfo("Asia/Tokyo"))
    assert first_of_may.astimezone(UTC).month == 4
    assert filled("{month}", first_of_may.astimezone(UTC), "Asia/Tokyo") == "2027-05"
    assert filled("{month}", first_of_may, "UTC") == "2027-04"


def test_the_hour_that_comes_twice_makes_two_names():
    twice = [datetime(2026, 11, 1, 1, 30, tzinfo=NEW_YORK, fold=fold) for fold in (0, 1)]
    assert len({filled("{time}", moment, "America/New_York") for moment in twice}) == 2


@given(moment=st.datetimes(datetime(2020, 1, 1), datetime(2060, 1, 1)), seconds=st.integers(1, 10**9))
def test_times_are_told_apart_and_nothing_else_is(moment, seconds):
    moment = moment.replace(tzinfo=UTC)
    later = moment + timedelta(seconds=seconds)
    assert filled("{time}", moment, "UTC") != filled("{time}", later, "UTC")
    for name in PLACEHOLDERS:
        pattern = f"{{{name}}}"
        assert filled(pattern, moment, "UTC") == filled(pattern, moment.astimezone(NEW_YORK), "UTC")
        assert filled(pattern, moment, "UTC") <= filled(pattern, later, "UTC")  # the folders are sorted by time


@pytest.mark.parametrize(
    "pattern", ["{day}", "{}", "a{month", "a}b", "{month!r}", "{month.__class__}", "{0}", "{{month}}"]
)
def test_what_stands_for_nothing_is_refused_when_the_settings_are_read(pattern):
    for setting in ("output", "release_id"):
        with pytest.raises(InputError, match=r"is not a placeholder|release_id"):
            ReleaseConfig.build(dataset="people", **{setting: pattern})
    with pytest.raises(InputError, match="is not a placeholder"):
        filled(pattern, datetime.now(UTC), "UTC")


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "/etc/passwd", "../UTC", "America", "UTC\0"])
def test_an_unknown_time_zone_is_refused(name):
    with pytest.raises(InputError, match="is not known; give an IANA name"):
        ReleaseConfig.build(time_zone=name)


def test_a_configuration_at_a_time():
    config = ReleaseConfig.build(
        dataset="people", output="out/{month}", release_id="people-{month}", time_zone="America/New_York", epsilon=0.5
    )
    last_night_of_november = datetime(2026, 12, 1, 3, tzinfo=UTC)
    made = config.at(last_night_of_november)
    assert (made.output, made.release_id) == ("out/2026-11", "people-2026-11")
    assert made.at(datetime(2030, 1, 1, tzinfo=UTC)) == made, "what is filled in stays"
    assert made.digest == config.digest, "when it is made does not decide what is released"
    assert made.public() | {"output": "", "release_id": ""} == config.public() | {"output": "", "release_id": ""}


def test_an_id_that_becomes_too_long_is_refused():
    config = ReleaseConfig.build(dataset="people", release_id="a" * 93 + "{month}")
    with pytest.raises(InputError, match="release_id"):
        ReleaseConfig.build(dataset="people", release_id="a" * 94 + "{month}{month}{month}")
    assert len(config.at(datetime(2026, 11, 1, tzinfo=UTC)).release_id) == 100
