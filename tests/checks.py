"""A program that runs the budget check on the server at PREFECT_API_URL, so that Prefect is imported only once.

The program reads the arguments of a check as a line of JSON and prints the type and the message of its final state. It
is a separate process because Prefect does not close all of its sockets, which is an error in tests where warnings are
errors.
"""

import json
import sys

from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

from equistrata.flows.watch.budget_check import budget_check


def main():
    """Answer each line until the end of the input."""
    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
        for line in sys.stdin:
            state = budget_check(**json.loads(line), return_state=True)
            print(json.dumps([state.type.value, state.message]), flush=True)


if __name__ == "__main__":
    main()
