"""Functions that run a complete release and repeat it on a neighbour, with the files and the true cost of both.

The steps are run on the same workers as in the flow, but without Prefect, which does not process any rows.
"""

import json
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from unittest import mock

import pandas as pd
from made_up_people import PEOPLE_SCHEMA, made_up_people
from models_once import models_once
from recorder import Recorder, true_cost

import equistrata.flows.release.card.document
import equistrata.flows.release.flow
import equistrata.synth.registry
from equistrata.data.texts.manifest import check_manifest
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.runners import executor
from equistrata.flows.release.steps import fitting
from equistrata.flows.release.undertaking import under_way
from equistrata.synth.mechanisms.aim import AIM
from equistrata.synth.mechanisms.gem import GEM
from equistrata.synth.mechanisms.mst import MST
from equistrata.synth.models.estimation import MirrorDescent
from equistrata.synth.models.mixtures.descent import MixtureDescent

# The privacy accounting does not depend on the model, so a few iterations are sufficient.
DESCENT = MirrorDescent(iterations=20)
QUICK = {
    "aim": AIM(engine=DESCENT, round_engine=DESCENT),
    "gem": GEM(rounds=3, round_steps=3, engine=MixtureDescent(6, 10)),
    "mst": MST(engine=DESCENT),
}

# A rare kind of person with the largest possible PAY.
MORE = {"SEX": 2, "GROUP": "c", "AGE": 90, "JOB": "yes", "PAY": 1_000_000.0}


def fit_all(plan, work, budgets, noise, pool):
    """Run the steps of equistrata.flows.release.flow._fit_all without its tasks."""
    jobs = equistrata.flows.release.flow.measuring(plan, work, budgets, noise)
    for done in as_completed([pool.submit(job) for job in jobs]):
        done.result()
    fitting.learn(plan, work)
    if plan.shared is None:
        if plan.config.shrinkage:
            fitting.shrink(plan, work)
        for i, key in enumerate(plan.fitted.keys):
            pool.submit(partial(fitting.model_one, work, i, plan.mechanism, plan.strata.rest(key))).result()
    pool.submit(equistrata.flows.release.flow.join_job(plan, work)).result()


class Frozen(datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime(2026, 11, 22, tzinfo=UTC)


@contextmanager
def without_prefect(noise, pool):
    with (
        mock.patch.multiple(equistrata.flows.release.flow, _fit_all=fit_all, _run=lambda step, *given: step(*given)),
        mock.patch.object(equistrata.flows.release.flow, "executor", pool),
        mock.patch.object(equistrata.flows.release.flow, "noise_source", return_value=noise),
        mock.patch.object(equistrata.flows.release.card.document, "datetime", Frozen),
        mock.patch.object(equistrata.synth.registry, "_ours", lambda name, engine: QUICK[name]),
    ):
        yield


def published(folder):
    """Return the content of the manifest and of all files in the manifest."""
    check_manifest(folder)
    names = json.loads((folder / "manifest.json").read_text())["files"]
    return {name: (folder / name).read_bytes() for name in [*names, "manifest.json"]}


def here(config, work, strata):
    """Return an executor with one thread, which replaces the workers."""
    return ThreadPoolExecutor(1)


def released(tmp_path, frame, noise, pool, **settings):
    """Make a release of these rows and return its files and its price."""
    table, schema, output = tmp_path / "people.csv", tmp_path / "people.yaml", tmp_path / "out" / noise.folder.name
    schema.write_text(settings.pop("declared", PEOPLE_SCHEMA))
    frame.to_csv(table, index=False)
    config = ReleaseConfig.build(
        **{
            "source": "csv", "input": str(table), "schema": str(schema), "strata": "SEX,GROUP", "means": "PAY",
            "epsilon": 3,
            "rows": 200, "seed": 4, "evaluate": "none", "runner": "threads", "output": str(output),
        } | settings
    )  # fmt: skip
    with without_prefect(noise, pool), under_way(config) as run:
        equistrata.flows.release.flow._make(run)
        return published(output), float(run.plan.price.total)


def released_twice(tmp_path, rows=300, **settings):
    """Make a release of a table and of its neighbour. Return the files of both, the price, and the true and the claimed
    cost.

    The release of the neighbour is made without workers.
    """
    frame = made_up_people(rows)
    return replayed(tmp_path, frame, pd.concat([frame, pd.DataFrame([MORE])], ignore_index=True), **settings)


def replayed(tmp_path, frame, neighbour, unit_rows=1, **settings):
    """Make the releases of `released_twice` for two tables that differ by at most `unit_rows` rows of a unit."""
    first, second = tmp_path / "first", tmp_path / "second"
    with models_once():  # equal measurements have equal models
        one, price = released(tmp_path, frame, Recorder(first), executor, **settings)
        two, _ = released(tmp_path, neighbour, Recorder(second, first), here, **settings)
    return (one, two), price, true_cost(first, second, unit_rows)
