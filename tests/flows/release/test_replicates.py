"""Tests of a release with stored replicates, which give the same answers without a new fit."""

import shutil

import pandas as pd
import pytest
from edited_release import edited_copy
from plain_release import without_prefect

import equistrata.flows.release.flow
from equistrata.analysis.answers import Answers
from equistrata.analysis.release import Release
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.verify import faults
from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.undertaking import under_way

KEPT = 3


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept") / "release"
    config = ReleaseConfig.build(
        columns="SEX,MAR,DIS,ESR", strata="SEX", epsilon=0.3, replicates=KEPT, seed=3, runner="threads",
        evaluate="none", output=str(folder),
    )  # fmt: skip
    with without_prefect(), under_way(config) as run:
        equistrata.flows.release.flow._make(run)
    return folder


def test_answers_are_those_of_replicates_that_are_made_again(release, monkeypatch):
    opened = Release.open(release)
    again = Answers(opened.evidence, count=KEPT)
    expected = again.estimate("logit", {"ESR": 1}, by=["SEX", "DIS", "MAR"])
    refits = []
    monkeypatch.setattr(Evidence, "refitted", lambda *given: refits.append(given))
    found = Answers(opened.answers.evidence, count=KEPT, stored=opened.answers.stored)
    pd.testing.assert_frame_equal(found.estimate("logit", {"ESR": 1}, by=["SEX", "DIS", "MAR"]), expected, rtol=1e-9)
    assert not refits, "a kept model was fitted again"
    assert len(opened.answers.stored) == KEPT


def test_more_replicates_than_are_kept_are_made(release):
    answers = Release.open(release).answers
    assert answers.count == 6
    assert len(answers.replicated()) == 6


def test_verify_refits_what_is_kept(release, tmp_path):
    assert faults(Release.open(release)) == ["the noise was seeded, so the release is not private"]

    def replace_fitted(folder):
        shutil.copy(folder / "models" / "replicate-001.npz", folder / "models" / "fitted.npz")

    def replace_replicate(folder):
        shutil.copy(folder / "models" / "replicate-002.npz", folder / "models" / "replicate-001.npz")

    def drop_last(folder):
        (folder / "models" / f"replicate-{KEPT:03d}.npz").unlink()

    def damage(folder):
        (folder / "models" / "fitted.npz").write_bytes(b"no model")

    for change, says in (
        (replace_fitted, "models/fitted.npz does not follow from the measurements"),
        (replace_replicate, "the replicates in models do not follow from the measurements"),
        (drop_last, "models/ holds 2 replicates, but the card states 3"),
        (damage, "is not a model of schema"),
    ):
        found = faults(Release.open(edited_copy(release, tmp_path / change.__name__, change)))
        assert any(says in fault for fault in found), (change.__name__, found)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"replicates": 1}, "one replicate has no spread"),
        (
            {"replicates": 2, "synthesizer": "smartnoise-mst"},
            "does not support estimates, so it cannot store replicates",
        ),
    ],
)
def test_replicates_that_no_reader_could_use_are_refused(given, says):
    with pytest.raises(InputError, match=says):
        ReleaseConfig.build(**given)
