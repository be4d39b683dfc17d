"""Fixtures that are shared by the tests of the analysis package."""

import pytest
from plain_release import release


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Return the folder of a release of seven columns of the sample data, with SEX as the strata."""
    output = tmp_path_factory.mktemp("analysis") / "release"
    columns = ("SEX", "AGEP", "MAR", "DIS", "MIL", "NATIVITY", "ESR")
    release({"strata": ("SEX",), "columns": columns, "evaluate": "none", "output": str(output), "seed": 1})
    return output
