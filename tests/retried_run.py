"""A program that starts a flow run of a release like a work pool does, also when a failed run is started again.

python tests/retried_run.py FLOW_RUN_ID [POINT]

The process is killed at POINT, which is a name in `plain_release.POINTS`.
"""

import sys
from contextlib import nullcontext
from uuid import UUID

from plain_release import dying
from prefect.client.orchestration import get_client
from prefect.flow_engine import run_flow

from equistrata.flows.release.flow import release

if __name__ == "__main__":
    with get_client(sync_client=True) as client:
        found = client.read_flow_run(UUID(sys.argv[1]))
    with dying(sys.argv[2]) if sys.argv[2:] else nullcontext():
        run_flow(release, flow_run=found)
