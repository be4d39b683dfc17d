"""The step that computes exact scores of a release, which are for its owner only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.eval.scores.scores import score, weighted_scores, with_utility
from equistrata.flows.release.inside import SCORES
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.steps import streams
from equistrata.flows.run.guard import scrub_errors
from equistrata.flows.run.workspace import HELD_OUT, SYNTHETIC, Workspace

SCORED_ROWS = 1_000_000  # the limit for distinct rows that are scored exactly, and for rows of classifiers
WARNING = "exact: computed from private rows at no cost; internal, not to be published"


@scrub_errors
def evaluate(plan: Plan, work: Workspace) -> None:
    """Compute exact scores by comparing the release with the real rows.

    The scores are internal and must not be published.

    Marginals are scored on distinct rows, so that the scores are exact. If there are more than SCORED_ROWS distinct
    rows, a random sample of each large table is used. The same holds for classifiers. If a sample is used, this is
    stated in the file.

    A survey weight is not scored as a column. In addition to the scores of rows, the file contains `weighted_scores`,
    which refer to people. If the released rows are people, only these scores are computed.

    If the evaluation fails, the file only contains the type of the error. A failure depends on the exact rows.
    Therefore it must not prevent a release that is paid for, and it must not be visible to an orchestrator.
    """
    try:
        document = _scored(plan, work)
    except Exception as error:
        document = {"warning": f"not scored: {type(error).__name__}"}
    work.save_json(work.root / SCORES, document)


def _scored(plan: Plan, work: Workspace) -> dict[str, Any]:
    rng = streams.generator(plan, streams.SCORING)
    parts = [work.load_table(work.stratum(i), plan.fitted.rest(key)) for i, key in enumerate(plan.fitted.keys)]
    schema = plan.schema.without_weight()
    drawn = work.load_table(work.root / SYNTHETIC, plan.schema)
    drawn = drawn if schema is plan.schema else drawn.select(schema.names)
    parts = [part.select([name for name in part.schema.names if name in schema.names]) for part in parts]
    if not len(drawn):  # the noisy size of a tiny table may be 0
        return {"warning": "not scored: the release has no rows"}
    if not any(map(len, parts)):  # a small table has only few units
        return {"warning": "not scored: all rows were held out"}
    strata = Strata.over(schema, plan.strata.columns)
    weighted = _of_people(plan, work, parts, drawn, strata) if plan.modelled.survey_weight is not None else {}
    if plan.config.expand:
        return {"warning": WARNING} | weighted
    distinct, times = zip(*(table.distinct() for table in (*parts, drawn)), strict=True)
    document: dict[str, Any] = {"warning": WARNING}
    sampled = f"a random {SCORED_ROWS:,} of each table's rows where it has more"
    if sum(map(len, distinct)) <= SCORED_ROWS:
        often = np.concatenate(times[:-1]), times[-1]
        scores = score(_together(strata, plan, distinct[:-1]), distinct[-1], strata, times=often)
    else:
        document["scored"] = sampled
        real, (made,) = _together(strata, plan, _some(parts, rng)), _some([drawn], rng)
        scores = score(real, made, strata)
    target, test = schema.target, None
    if plan.config.evaluate == "full" and target is not None:
        test = work.load_table(work.root / HELD_OUT, plan.modelled).select(schema.names)
    if test is not None and not len(test):
        document["classified"] = "no classifier: no row was held out"
    elif test is not None and target is not None:
        if max(sum(map(len, parts)), len(drawn), len(test)) > SCORED_ROWS:
            document["classified"] = sampled
        real, (held_out,), (made,) = _together(strata, plan, _some(parts, rng)), _some([test], rng), _some([drawn], rng)
        scores = with_utility(scores, {"synthetic": made, "real": real, "test": held_out}, target, plan.strata.columns)
    return document | replace(scores, **weighted).to_dict()


def _of_people(
    plan: Plan, work: Workspace, parts: Sequence[CodedTable], drawn: CodedTable, strata: Strata
) -> dict[str, Any]:
    """Return the weighted scores.

    The private rows have their clipped weights. The released rows have the weights in the file or, if there are none, a
    weight of one.
    """
    real = [work.load(work.weights(i)) for i in range(len(parts))]
    made = np.ones(len(drawn))
    if plan.schema.survey_weight is not None:
        written = pd.read_parquet(work.staging / "synthetic.parquet", columns=[plan.schema.survey_weight])
        made = written.iloc[:, 0].to_numpy(dtype=np.float64)
    weights = np.concatenate(real), made
    return weighted_scores(_together(strata, plan, parts), drawn, strata.columns, weights)


def _some(tables: Sequence[CodedTable], rng: np.random.Generator) -> list[CodedTable]:
    """Return the tables or, if they are large, a random sample of about SCORED_ROWS rows."""
    share = SCORED_ROWS / max(sum(map(len, tables)), 1)
    return list(tables) if share >= 1 else [table.take(rng.random(len(table)) < share) for table in tables]


def _together(strata: Strata, plan: Plan, parts: Sequence[CodedTable]) -> CodedTable:
    fitted = Strata.over(strata.schema, plan.fitted.columns)
    return fitted.assemble(dict(zip(fitted.keys, parts, strict=True)))
