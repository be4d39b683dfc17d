"""Offices that make a release each month: a place of their own, and their first two months."""

import tempfile

import pytest


def places_of_its_own(monkeypatch, home):
    """State and temporary files in a folder."""
    monkeypatch.setenv("EQUISTRATA_STATE", str(home / "state"))
    monkeypatch.setenv("TMPDIR", str(home))
    monkeypatch.setattr(tempfile, "tempdir", None)


def two_months_of(home, office_in):
    """The folder of months 1 and 2 that an office makes; `office_in` opens it in a folder."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        places_of_its_own(monkeypatch, home)
        office = office_in(home)
        for month in (1, 2):
            office.make(month)
    return office.out
