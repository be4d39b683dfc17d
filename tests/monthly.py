"""Functions for offices that make a release in each month."""

import tempfile

import pytest


def places_of_its_own(monkeypatch, home):
    """Set the folder of the state and of temporary files."""
    monkeypatch.setenv("EQUISTRATA_STATE", str(home / "state"))
    monkeypatch.setenv("TMPDIR", str(home))
    monkeypatch.setattr(tempfile, "tempdir", None)


def two_months_of(home, office_in):
    """Return the folder with months 1 and 2 of an office. The function `office_in` opens the office in a folder."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        places_of_its_own(monkeypatch, home)
        office = office_in(home)
        for month in (1, 2):
            office.make(month)
    return office.out
