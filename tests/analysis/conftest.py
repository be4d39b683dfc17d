"""One release folder that tests only read."""

import pytest
from plain_release import release


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A release of seven columns of the sample by SEX."""
    output = tmp_path_factory.mktemp("analysis") / "release"
    columns = ("SEX", "AGEP", "MAR", "DIS", "MIL", "NATIVITY", "ESR")
    release({"strata": ("SEX",), "columns": columns, "evaluate": "none", "output": str(output), "seed": 1})
    return output
