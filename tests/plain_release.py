"""A release without Prefect, step by step in one process, and ways to die in the middle of it.

As a program it reads lines of JSON, {"settings", "environment", "points"}, and runs one release per point, each in a
process that is gone, as by kill -9, at that point. The settings are a ReleaseConfig's, with "{n}" in the output and the
id for the number of the point. It answers each line with one: null, or what went wrong.
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
    """A folder with so many made-up people, their schema, and a ledger with a budget of this ε for them."""
    (home / "people.yaml").write_text(PEOPLE_SCHEMA)
    made_up_people(rows).to_csv(home / "people.csv", index=False)
    Ledger(home / "ledger.db").create("people", epsilon, 1e-9)
    return home


def fit_all(plan, work, budgets, noise, pool):
    """What equistrata.flows.release.flow._fit_all does, one stratum after the other."""
    for job in equistrata.flows.release.flow.measuring(plan, work, budgets, noise):
        job()
    fitting.learn(plan, work)
    if plan.shared is None:
        fitting.shrink(plan, work)
        for i, key in enumerate(plan.strata.keys):
            fitting.model_one(work, i, plan.mechanism, plan.strata.rest(key))
    equistrata.flows.release.flow.joining(plan, work)()


@contextmanager
def without_prefect():
    """The flow's tasks are the steps themselves."""
    with mock.patch.multiple(equistrata.flows.release.flow, _fit_all=fit_all, _run=lambda step, *given: step(*given)):
        yield


@contextmanager
def without_served():
    """No card says how groups are expected to be served, as none of an earlier format does: four fits, half the time of
    a small release."""
    with mock.patch.object(describing, "served", return_value=None), mock.patch.object(document, "CARD_FORMAT", None):
        yield


def release(settings, served=True):
    """Make or resume one release; its card says how groups are `served` only where a test may read that."""
    written = nullcontext() if served else without_served()
    with written, without_prefect(), under_way(ReleaseConfig.build(**settings)) as run:
        if not run.published:
            equistrata.flows.release.flow._make(run)
    return run


# Where to die: the call, on which side of it, and in which of its calls.
POINTS = {
    "before the journal": ("equistrata.flows.run.journal.Journal.open", "before", 1),
    "before rows": ("equistrata.flows.release.steps.reading.partition", "before", 1),
    "among rows": ("equistrata.flows.run.workspace.Workspace.append", "after", 2),
    "before the charge": ("equistrata.flows.release.undertaking.Undertaking.charge", "before", 1),
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


# Where a release with one choice for all strata differs: one fit, and one model of all.
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
    """Die at that point: no handler, no `finally`, no exit hook runs."""
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
    """The settings of the release with that number."""
    return {
        key: value.replace("{n}", str(number)) if isinstance(value, str) else value for key, value in settings.items()
    }


def die(settings, environment, points):
    """One child per point; what went wrong if one did not die there."""
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
                os._exit(1)  # it came through, or failed in some other way
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != 9:
            return f"release {number} did not die at {point!r}"
    return None


def warm_up():
    """One whole release. What is done at the first only (imports, templates, statements) the children then find."""
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
    """Answer until the input ends."""
    for line in sys.stdin:
        print(json.dumps(die(**json.loads(line))), flush=True)


if __name__ == "__main__":
    no_power_cut()
    warm_up()
    gc.collect()
    gc.freeze()  # a child that looks through all that was imported copies the memory it lies in
    main()
