"""`equistrata score`: any synthetic table against real rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from equistrata.flows.cli.console import out, print_json, table
from equistrata.flows.cli.options import command
from equistrata.flows.config.settings import ByPlace, Flag, Names, Settings, setting

SCORE_NOTES = {
    "parity_distance": "distances of the distributions of columns that define no strata, summed over strata; 0 is best",
    "total_variation": "of single columns over all rows; 0 is best, 1 is worst",
    "workload3": "3-way marginals, L1 distance; 0 is best, 2 is worst",
    "workload3_by_stratum": "the same within strata, averaged",
    "parity_error": "the paper's: relative errors of the means of codes, summed over strata; 0 is best",
    "weighted_workload3": "workload3 of people: each row counts by its survey weight",
    "weighted_parity_error": "parity_error of people: each row counts by its survey weight",
    "maximum_disparity": "the paper's: worst relative error of a mean of codes in a stratum",
    "accuracy": "random forest, trained on synthetic, tested on held-out real rows",
    "dpr": "demographic parity ratio over strata; 1 is even",
    "fnr_diff": "largest gap of false-negative rates over strata; 0 is even",
}


class ScoreSettings(Settings):
    real: ByPlace[Path] = setting(..., "The training rows of the synthesizer (coded CSV).")
    test: ByPlace[Path] = setting(..., "Held-out real rows, for the classifiers.")
    synthetic: ByPlace[Path] = setting(..., "The synthetic rows.")
    strata: Names = setting((), "Columns that define strata, as SEX,RAC1P.")
    target: str | None = setting(None, "The column that classifiers predict.")
    survey_weight: str | None = setting(None, "Column of survey weights, as PWGTP: it is not scored, people are.")
    min_share: float = setting(0.001, "Strata under this share of the real rows are left out.")
    quick: Flag = setting(False, "No classifiers.")
    models: Names = setting(("random_forest",), "Classifiers: random_forest,logistic_regression,gradient_boosting.")
    baseline: Flag = setting(False, "Train the classifiers on the real rows too.")
    as_json: Flag = setting(False, "Print JSON.", alias="json")


@command("score", ScoreSettings)
def score_command(settings: ScoreSettings) -> None:
    """Score any synthetic table against real rows (exact scores: internal, not private).

    [bold]Example[/bold]: equistrata score real.csv test.csv synthetic.csv --strata SEX,RAC1P --target ESR --json
    """
    from equistrata.data.sources import read_frame
    from equistrata.eval.scores.scores import score

    real, test, synthetic = (read_frame(path) for path in (settings.real, settings.test, settings.synthetic))
    scores = score(
        synthetic,
        real,
        list(settings.strata),
        held_out=None if settings.quick else test,
        target=settings.target,
        min_share=settings.min_share,
        survey_weight=settings.survey_weight,
        classifiers=settings.models,
        baseline=settings.baseline,
    ).to_dict()
    if settings.as_json:
        print_json(scores)
    else:
        out.print(score_table(scores))


def score_table(scores: Mapping[str, Any]) -> Table:
    """Exact scores, for people who may see the rows."""
    grid = table("scores (exact: internal, not to be published)", "score", ">value", "definition")
    for name, definition in SCORE_NOTES.items():
        if scores.get(name) is not None:
            grid.add_row(name, f"{scores[name]:.4f}", definition)
    for model, utility in scores.get("classifiers", {}).items():
        for rows, result in utility.items():
            grid.add_row(f"accuracy: {model}", f"{result['accuracy']:.4f}", f"trained on {rows} rows")
    return grid
