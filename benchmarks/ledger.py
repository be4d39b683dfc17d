"""How many charges a ledger takes: `python -m benchmarks.ledger`.

Processes reserve and commit from one data set as fast as they can, on a SQLite file and on a PostgreSQL server that
is started for it (or the one of `--url`). A charge is one reservation with its commit: two transactions, each on the
disk before it ends.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

from equistrata.privacy.budget import Rho
from equistrata.privacy.ledger.ledger import Ledger

AMOUNT = Rho(1e-9)


def reserve(start: Barrier, results: Queue[tuple[int, float]], place: str, racer: int, seconds: float) -> None:
    """Charge for so many seconds; tell how many charges, and the slowest reservation."""
    ledger = Ledger(place, lock_seconds=120)
    ledger.commit(ledger.reserve("people", AMOUNT, f"{racer}, to connect"))
    start.wait()
    begun, count, slowest = time.monotonic(), 0, 0.0
    while time.monotonic() - begun < seconds:
        before = time.monotonic()
        reservation = ledger.reserve("people", AMOUNT, f"{racer}-{count}")
        slowest = max(slowest, time.monotonic() - before)
        ledger.commit(reservation)
        count += 1
    results.put((count, slowest))


def measure(place: str, processes: int, seconds: float) -> tuple[float, float]:
    """Charges a minute, and the slowest reservation in seconds."""
    ledger = Ledger(place)
    ledger.create("people", 10, 1e-9)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["equistrata.privacy.ledger.ledger"])
    start, results = context.Barrier(processes + 1), context.Queue()
    racers = [context.Process(target=reserve, args=(start, results, place, i, seconds)) for i in range(processes)]
    for racer in racers:
        racer.start()
    start.wait(timeout=300)
    begun = time.monotonic()
    told = [results.get(timeout=seconds + 300) for _ in racers]
    elapsed = time.monotonic() - begun
    for racer in racers:
        racer.join()
    charges = sum(count for count, _ in told)
    assert len(ledger.charges("people")) == charges + processes
    ledger.verify()
    return charges * 60 / elapsed, max(slowest for _, slowest in told)


@contextmanager
def servers(url: str | None) -> Iterator[dict[str, str]]:
    """What to measure: name → place."""
    with tempfile.TemporaryDirectory() as folder:
        places = {"SQLite": str(Path(folder) / "ledger.db")}
        if url is not None:
            yield places | {"PostgreSQL": url}
            return
        sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
        from postgres import NoPostgres, postgres_server

        try:
            server = postgres_server()
            places["PostgreSQL"] = server.__enter__()
        except NoPostgres as reason:
            print(f"no PostgreSQL: {reason}")
            yield places
            return
        try:
            yield places
        finally:
            server.__exit__(None, None, None)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="an empty PostgreSQL database")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 8, 50])
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    print("| database | processes | charges a minute | slowest reservation |")
    print("|---|---|---|---|")
    for processes in options.processes:
        with servers(options.url) as places:
            for name, place in places.items():
                rate, slowest = measure(place, processes, options.seconds)
                print(f"| {name} | {processes} | {rate:,.0f} | {slowest:.2f} s |", flush=True)


if __name__ == "__main__":
    main()
