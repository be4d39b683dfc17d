"""Where Prefect is."""

import os
import stat
from unittest import mock

from equistrata.flows.config.places import prepare_prefect


def test_prefects_home_is_private(tmp_path):
    home = tmp_path / "above" / "prefect"
    with mock.patch.dict(os.environ, PREFECT_HOME=str(home)):
        prepare_prefect(verbose=True)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
