"""The program that runs in each checkout. It makes releases by the public functions that all versions have.

The parent starts `python child.py` with the checkout as the working folder and as the first entry of PYTHONPATH. It
writes one job per line as JSON, and reads one line for each job.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LONGEST = 60  # the time limit for an answer in seconds


def processor_seconds() -> float:
    """Return the processor time of this process and of its finished children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise TimeoutError if the block takes longer than the given time."""

    def end(*_: object) -> None:
        raise TimeoutError(f"no answer in {seconds} seconds")

    signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def work_off(job: dict[str, Any]) -> dict[str, Any]:
    """Make one release, ask its questions, and return the answers and the processor time."""
    import pandas as pd

    import equistrata

    with tempfile.TemporaryDirectory() as place:
        folder, start = Path(place) / "release", processor_seconds()
        equistrata.release(
            source="csv", input=job["rows"], schema=job["schema"], strata=job["strata"], synthesizer=job["mechanism"],
            epsilon=job["epsilon"], delta=1e-9, seed=job["seed"], evaluate="none", workers=1, output=str(folder),
        )  # fmt: skip
        seconds = processor_seconds() - start
        pd.read_parquet(folder / "synthetic.parquet").to_parquet(job["output"])
        release, answers, first = equistrata.Release.open(folder), [], 0.0
        for statistic, of, by in job["questions"]:
            start = time.process_time()
            try:
                with time_limit(LONGEST):
                    found = release.estimate(statistic, of, tuple(by))
            except (equistrata.errors.EquistrataError, TimeoutError) as error:
                answers.append({"refused": str(error)})
            else:
                answers.append(json.loads(found.to_json(orient="columns")))
            first = max(first, time.process_time() - start)
    return {"seconds": seconds, "first": first, "answers": answers}


def main() -> None:
    warnings.simplefilter("ignore")
    import equistrata.errors  # noqa: F401

    for line in sys.stdin:
        print(json.dumps(work_off(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
