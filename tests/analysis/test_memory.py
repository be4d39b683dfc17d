"""Tests that an error is raised if a question or a replicate needs too much memory."""

import numpy as np
import pytest
from in_process import command
from known_relations import evidence_of, people

from equistrata.analysis.answers import Answers
from equistrata.analysis.release import Release
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.misfit import with_margins
from equistrata.errors import InputError
from equistrata.synth.strata.model import StratifiedModel


def too_much(*_):
    raise MemoryError("Unable to allocate 9.31 GiB for an array with shape (7, 11)")


def test_a_model_that_does_not_fit_is_named_by_its_largest_marginal(monkeypatch):
    evidence = evidence_of(people(2000), 1.0, ["G"])
    monkeypatch.setattr(Evidence, "_made", too_much)
    with pytest.raises(InputError, match=r"its largest marginal, .* cells\) takes more memory than is free; use a"):
        Answers(evidence, count=2).estimate("proportion", {"Z": 1}, ["R"])


def test_a_question_or_a_replicate_without_memory_says_so(folder, monkeypatch):
    release = Release.open(folder)
    monkeypatch.setattr(StratifiedModel, "marginal", too_much)
    with pytest.raises(InputError, match="this question takes more memory than is free; ask for fewer groups"):
        release.estimate("logit", {"ESR": 1}, ["SEX", "DIS", "MAR"])
    monkeypatch.undo()
    monkeypatch.setattr(StratifiedModel, "sample", too_much)
    with pytest.raises(InputError, match="a replicate of this release takes more memory than is free; take fewer"):
        list(release.replicates(2))


def test_the_commands_end_with_the_sentence_and_leave_nothing(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(StratifiedModel, "sample", too_much)
    words = ("replicate", folder, "--replicates", 2, "--output", tmp_path / "tables", "--workers", 1)
    code, _, told = command(monkeypatch, capsys, *words)
    assert code == 2
    assert "takes more memory than is free" in " ".join(told.split())
    assert not any(tmp_path.iterdir())


def test_a_pair_of_wide_columns_takes_no_table_of_its_cells_by_its_codes():
    """Regression test for a matrix of all cells and effects. The size of the matrix was 2 GB for 500 × 500 codes."""
    functionals = np.zeros((1, 250_000))
    functionals[0, 0] = 1.0
    found = with_margins(functionals, np.full((500, 500), 4.0)).reshape(500, 500)
    assert np.abs(found.sum(0)).max() == pytest.approx(0, abs=1e-6)
    assert found[0, 0] == pytest.approx(2 * (499 / 500) ** 2)
