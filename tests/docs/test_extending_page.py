"""Tests of the custom mechanism in docs/architecture.md."""

import re

import pytest

import equistrata
from equistrata.data.strata import Strata
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SeededNoise
from equistrata.synth.mechanisms.session import price_of


def test_a_mechanism_of_one_s_own(repo_root, capsys):
    page = (repo_root / "docs" / "architecture.md").read_text("utf-8")
    (script,) = re.findall(r"```python\n(.*?)```", page, re.S)
    made = {"__name__": "own"}
    exec(compile(script, "architecture.md", "exec"), made)
    assert len(capsys.readouterr().out.splitlines()) == 6  # a header and five people
    women = Strata.over(made["table"].schema, ["SEX"]).partition(made["table"])[(2,)]
    found, log = made["Alone"]().measure_with_log(women, Rho(0.01), SeededNoise(0))
    assert [each.columns for each in found] == [(name,) for name in women.schema.names]
    assert float(price_of(log)) == pytest.approx(0.01)
    assert isinstance(made["fitted"], equistrata.StratifiedSynthesizer)


def test_the_readme_has_every_public_name(repo_root):
    page = (repo_root / "README.md").read_text("utf-8")
    assert [name for name in equistrata.__all__ if f"`{name}`" not in page] == []
