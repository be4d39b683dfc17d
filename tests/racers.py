"""A program that starts several processes which use the same ledger at the same time.

    python racers.py WHAT PLACE PROCESSES [ARGUMENT ...]

It is a separate program so that the processes are small and import the ledger only once. The output is a JSON list with
the result of each process.
"""

import json
import multiprocessing
import subprocess
import sys
from pathlib import Path

from equistrata.privacy.budget import BudgetExceeded, Rho
from equistrata.privacy.ledger.ledger import Ledger


def race(what, place, processes, *arguments):
    """Start this number of processes at the same time and return a list of their results."""
    command = [sys.executable, Path(__file__).resolve(), what, place, processes, *arguments]
    done = subprocess.run(
        list(map(str, command)), cwd=Path(__file__).parents[1], env=None, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def reserve(ledger, racer, tries, amount):
    """Reserve a charge as often and as fast as possible, commit every second charge, and return the entries that were
    granted.
    """
    granted = []
    for number in range(int(tries)):
        try:
            reservation = ledger.reserve("people", Rho(float(amount)), f"racer {racer}, release {number}")
        except BudgetExceeded:
            continue
        granted.append(reservation.entry)
        if number % 2:
            ledger.commit(reservation)
    return granted


def create(ledger, racer):
    """Create a budget for a new data set, which also creates the ledger, and return the name of the ledger."""
    ledger.create(f"people {racer}", 1, 1e-9)
    return ledger.identity


RACES = {"reserve": reserve, "create": create}


def run(start, results, what, place, racer, arguments):
    """Run one of the processes."""
    ledger = Ledger(place, lock_seconds=120)
    start.wait()
    results.put(RACES[what](ledger, racer, *arguments))


def main(what, place, processes, *arguments):
    """Run all processes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["equistrata.privacy.ledger.ledger"])
    start, results = context.Barrier(int(processes)), context.Queue()
    racers = [
        context.Process(target=run, args=(start, results, what, place, racer, arguments))
        for racer in range(int(processes))
    ]
    for racer in racers:
        racer.start()
    told = [results.get(timeout=250) for _ in racers]
    for racer in racers:
        racer.join()
        assert racer.exitcode == 0
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
