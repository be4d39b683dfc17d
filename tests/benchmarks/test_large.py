"""The benchmarks of large tables and clusters: the file they make, and what they see of a command's memory."""

import os
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from benchmarks.large import repeat
from benchmarks.process_tree import CommandFailed, descendants, measure_tree

linux = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="memory is read from Linux's /proc")

# A parent that holds 80 MiB while a child holds 160 MiB, both for a second.
HUNGRY = """
import subprocess, sys, time
held = bytearray(b"x") * (80 << 20)
child = "import time; held = bytearray(b'x') * (160 << 20); time.sleep(1)"
subprocess.run([sys.executable, "-c", child], check=True)
"""


@pytest.mark.parametrize("rows", [3, 100, 101, 250])
def test_the_table_is_the_source_again_and_again(tmp_path, rows):
    frame = pd.DataFrame({"a": range(100), "b": [1.5, None] * 50})
    repeat(frame, rows, tmp_path / "rows.parquet")
    made = pd.read_parquet(tmp_path / "rows.parquet")
    expected = pd.concat([frame] * 3, ignore_index=True)[:rows]
    pd.testing.assert_frame_equal(made, expected)
    assert pq.ParquetFile(tmp_path / "rows.parquet").num_row_groups == -(-rows // 100)


@linux
def test_memory_of_a_child_counts_in():
    cost = measure_tree([sys.executable, "-c", HUNGRY], look_every=0.02)
    assert 240 < cost.mebibytes < 320
    assert cost.mebibytes <= cost.mebibytes_at_most < 320
    assert cost.seconds > 1
    assert cost.cpu_seconds > 0


@linux
def test_a_command_that_fails_is_no_measurement():
    with pytest.raises(CommandFailed, match="no such thing"):
        measure_tree([sys.executable, "-c", "import sys; sys.exit('no such thing')"])


@linux
def test_a_process_is_its_own_descendant_and_strangers_are_not():
    assert os.getpid() in descendants(os.getpid())
    assert os.getppid() not in descendants(os.getpid())
