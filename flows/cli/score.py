"""The command `equistrata score`, which compares any synthetic table with real rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from equistrata.flows.cli.console import out, print_json, table
from equistrata.flows.cli.options import command
from equistrata.flows.config.settings import ByPlace, Flag, Names, Settings, setting

SCORE_NOTES = {  # the best value is 0, unless the text states another value
    "parity_distance": "distributions within strata, summed",
    "total_variation": "single columns, all rows; 1 is worst",
    "workload3": "3-way marginals, L1; 2 is worst",
    "workload3_by_stratum": "the same within strata, averaged",
    "parity_error": "the paper's: means of codes within strata",
    "maximum_disparity": "the paper's: the largest of those errors",
    "weighted_workload3": "workload3 of people, by survey weight",
    "weighted_parity_error": "parity_error of people, by survey weight",
    "dpr": "forest: ratio of selection rates; 1 is even",
    "fnr_diff": "forest: largest gap of false-negative rates",
}


class ScoreSettings(Settings):
    real: ByPlace[Path] = setting(..., "Rows on which the synthesizer was trained (coded CSV).")
    test: ByPlace[Path] = setting(..., "Real rows that were held out, for the classifiers.")
    synthetic: ByPlace[Path] = setting(..., "Synthetic rows.")
    strata: Names = setting((), "Columns that define strata, such as SEX,RAC1P.")
    target: str | None = setting(None, "Column that classifiers predict.")
    survey_weight: str | None = setting(
        None,
        "Column with survey weights, such as PWGTP. It is not scored, and each row counts as the people that it "
        "represents.",
    )
    min_share: float = setting(0.001, "Leave out strata with less than this share of the real rows.")
    quick: Flag = setting(False, "Do not train classifiers.")
    models: Names = setting(
        ("random_forest",), "Classifiers to train: random_forest, logistic_regression, gradient_boosting."
    )
    baseline: Flag = setting(False, "Also train the classifiers on the real rows.")
    as_json: Flag = setting(False, "Print JSON.", alias="json")


@command("score", ScoreSettings)
def score_command(settings: ScoreSettings) -> None:
    """Compute exact scores of a synthetic table against real rows. The scores are internal and not private.

    [bold]Example[/bold]: equistrata score real.csv test.csv synthetic.csv --strata SEX,RAC1P --target ESR --json
    """
    from equistrata.data.sources import read_frame
    from equistrata.eval.scores.scores import score

    real, test, synthetic = (read_frame(path) for path in (settings.real, settings.test, settings.synthetic))
    scores = score(
        real,
        synthetic,
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
    """Return a table of exact scores, for users who may see the rows."""
    grid = table("scores (exact: internal, not to be published)", "score", ">value", "definition")
    for name, definition in SCORE_NOTES.items():
        if scores.get(name) is not None:
            grid.add_row(name, f"{scores[name]:.4f}", definition)
    for model, utility in scores.get("classifiers", {}).items():
        of_real = f" ({utility['real']['accuracy']:.4f} from real rows)" if "real" in utility else ""
        name = "accuracy" if model == "random_forest" else model
        grid.add_row(name, f"{utility['synthetic']['accuracy']:.4f}", f"{model.replace('_', ' ')}{of_real}")
    return grid
