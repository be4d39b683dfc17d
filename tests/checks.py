"""Runs of the budget check against the server at PREFECT_API_URL, in a process that imports Prefect once.

As a program it reads lines of JSON, the check's arguments, and answers each with the type and message of the state it
ended in.
(Prefect leaves sockets to the garbage collector, which a test that takes warnings for errors cannot have in its own
process.)
"""

import json
import sys

from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

from equistrata.flows.watch.budget_check import budget_check


def main():
    """Answer until the input ends."""
    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
        for line in sys.stdin:
            state = budget_check(**json.loads(line), return_state=True)
            print(json.dumps([state.type.value, state.message]), flush=True)


if __name__ == "__main__":
    main()
