"""Functions that make a release without Prefect in a single process, and that kill this process at a given point.

The program reads one JSON object per line, {"settings", "environment", "points"}. For each point it runs a release in a
process that is killed at this point, as by kill -9. The settings are those of a ReleaseConfig. The output and the id
contain "{n}", which is replaced by the number of the point. For each line the program prints null or an error message.
"""

import gc
import json
import os
import sys
import tempfile
import traceback
from contextlib import contextmanager, nullcontext
from pathlib import Path
from pkgutil import resolve_name
from unittest import mock

from made_up_people import PEOPLE_SCHEMA, made_up_people
from unsynced import no_power_cut

import equistrata.flows.release.flow
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.card import document
from equistrata.flows.release.steps import describing, fitting
from equistrata.flows.release.undertaking import under_way
from equistrata.privacy.ledger.ledger import Ledger


def home_of_people(home, rows, epsilon):
    """Return a folder with a simulated table of this size, its schema and a ledger with a budget of ε."""
    (home / "people.yaml").write_text(PEOPLE_SCHEMA)
    made_up_people(rows).to_csv(home / "people.csv", index=False)
    Ledger(home / "ledger.db").create("people", epsilon, 1e-9)
    return home


def fit_all(plan, work, budgets, noise, pool):
    """Run the steps of equistrata.flows.release.flow._fit_all for each stratum in turn."""
    for job in equistrata.flows.release.flow.measuring(plan, work, budgets, noise):
        job()
    fitting.learn(plan, work)
    if plan.shared is None:
        fitting.shrink(plan, work)
        for i, key in enumerate(plan.strata.keys):
            fitting.model_one(work, i, plan.mechanism, plan.strata.rest(key))
    equistrata.flows.release.flow.join_job(plan, work)()


@contextmanager
def without_prefect():
    """Replace the tasks of the flow by the steps that they run."""
    with mock.patch.multiple(equistrata.flows.release.flow, _fit_all=fit_all, _run=lambda step, *given: step(*given)):
        yield


@contextmanager
def without_served():
    """Omit the expected errors of groups from the cards, as in an earlier format.

    They need four fits, which is half of the time for a small release.
    """
    with mock.patch.object(describing, "served", return_value=None), mock.patch.object(document, "CARD_FORMAT", None):
        yield


def release(settings, served=True):
    """Make or resume a release. If `served` is False, the card has no expected errors of groups."""
    written = nullcontext() if served else without_served()
    with written, without_prefect(), under_way(ReleaseConfig.build(**settings)) as run:
        if not run.published:
            equistrata.flows.release.flow._make(run)
    return run


# Each point is a call, the side of the call on which the process is killed, and the number of the call.
POINTS = {
    "before the journal": ("equistrata.flows.run.journal.Journal.open", "before", 1),
    "before rows": ("equistrata.flows.release.steps.reading.partition", "before", 1),
    "among rows": ("equistrata.flows.run.workspace.Workspace.append", "after", 2),
    "before the charge": ("equistrata.flows.release.undertaking.ReleaseRun.charge", "before", 1),
    "inside the charge": ("equistrata.privacy.ledger.transaction.Transaction.append", "after", 1),
    "after the charge": ("equistrata.privacy.ledger.ledger.Ledger.reserve", "after", 1),
    "before any noise": ("equistrata.flows.release.steps.fitting.fit_one", "before", 1),
    "begun, not drawn": ("equistrata.flows.run.workspace.Workspace.count_start", "after", 2),
    "drawn, not saved": ("equistrata.flows.release.steps.fitting.measure_stratum", "after", 2),
    "first drawn, not saved": ("equistrata.flows.release.steps.fitting.measure_stratum", "after", 1),
    "half saved": ("equistrata.flows.run.workspace.save_measurements", "after", 2),
    "saved, not modelled": ("equistrata.flows.run.workspace.Workspace.keep_fit", "after", 2),
    "modelled": ("equistrata.flows.run.workspace.Workspace.keep_model", "after", 2),
    "half borrowed": ("equistrata.flows.release.steps.fitting.save_measurements", "after", 1),
    "joined": ("equistrata.flows.run.workspace.Workspace.keep_joint", "after", 1),
    "half laid out": ("equistrata.flows.release.steps.describing.copyfile", "after", 1),
    "mean drawn, not saved": ("equistrata.flows.release.measuring.means._mean", "after", 1),
    "second mean drawn": ("equistrata.flows.release.measuring.means._mean", "after", 2),
    "mean saved": ("equistrata.flows.run.workspace.Workspace.keep_mean", "after", 1),
    "before scores": ("equistrata.flows.release.steps.scoring.evaluate", "before", 1),
    "half copied": ("equistrata.flows.run.landing.sync_tree", "before", 1),
    "in place": ("equistrata.flows.release.steps.describing.land_release", "after", 1),
    "committed": ("equistrata.privacy.ledger.ledger.Ledger.commit", "after", 1),
    "journal half gone": ("equistrata.flows.run.journal.rmtree", "before", 1),
}


# A release with the same selection for all strata has only one fit and one model of all rows.
SHARED_POINTS = {
    "shared: begun, not drawn": ("equistrata.flows.run.workspace.Workspace.count_start", "after", 1),
    "shared: drawn, not saved": ("equistrata.flows.release.steps.fitting.measure_stratum", "after", 1),
    "shared: half saved": ("equistrata.flows.run.workspace.save_measurements", "after", 1),
    "shared: saved, not modelled": ("equistrata.flows.run.workspace.Workspace.keep_fit", "after", 1),
    "shared: models half saved": ("equistrata.synth.strata.model.save_model", "after", 1),
    "shared: modelled": ("equistrata.flows.run.workspace.Workspace.keep_joint", "after", 1),
    "shared: half laid out": ("equistrata.flows.release.steps.describing.copyfile", "after", 1),
    "shared: in place": ("equistrata.flows.release.steps.describing.land_release", "after", 1),
}


@contextmanager
def dying(point):
    """Kill this process at the given point, so that no handler, `finally` clause or exit hook is run."""
    target, side, nth = (POINTS | SHARED_POINTS)[point]
    owner, name = target.rsplit(".", 1)
    original = vars(resolve_name(owner))[name]
    called = original.__func__ if isinstance(original, classmethod) else original
    calls = []

    def deadly(*args, **kwargs):
        calls.append(None)
        last = len(calls) == nth
        if last and side == "before":
            os._exit(9)
        result = called(*args, **kwargs)
        if last:
            os._exit(9)
        return result

    with mock.patch(target, classmethod(deadly) if isinstance(original, classmethod) else deadly):
        yield


def numbered(settings, number):
    """Return the settings of the release with this number."""
    return {
        key: value.replace("{n}", str(number)) if isinstance(value, str) else value for key, value in settings.items()
    }


def die(settings, environment, points):
    """Run one child per point and return an error message if a child was not killed at its point."""
    for number, point in enumerate(points):
        child = os.fork()
        if child == 0:
            try:
                os.environ.update(environment)
                tempfile.tempdir = None
                with dying(point):
                    release(numbered(settings, number))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)  # the release was completed or failed for another reason
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != 9:
            return f"release {number} did not die at {point!r}"
    return None


def warm_up():
    """Make a complete release, so that the children do not need to repeat imports and other work of a first release."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, EQUISTRATA_STATE=f"{folder}/state"):
        home = Path(folder)
        (home / "people.yaml").write_text(PEOPLE_SCHEMA)
        made_up_people(300).to_csv(home / "people.csv", index=False)
        Ledger(home / "ledger.db").create("people", 50, 1e-9)
        release({
            "source": "csv", "input": str(home / "people.csv"), "schema": str(home / "people.yaml"), "strata": "SEX",
            "means": "PAY", "workers": 1, "ledger": str(home / "ledger.db"), "dataset": "people",
            "output": str(home / "out"), "release_id": "warm",
        })  # fmt: skip


def main():
    """Answer each line until the end of the input."""
    for line in sys.stdin:
        print(json.dumps(die(**json.loads(line))), flush=True)


if __name__ == "__main__":
    no_power_cut()
    warm_up()
    gc.collect()
    gc.freeze()  # a garbage collection in a child would copy this memory
    main()
