"""Tests that noise can only be sampled by the call that charges for it.

The source code is checked: outside of `privacy/`, no module uses a sampler (a private method of `NoiseSource`), makes
noise with a random generator, or samples with OpenDP.
"""

import ast
import inspect
from pathlib import Path

import pytest

from equistrata.privacy.noise import NoiseSource, SecureNoise, SeededNoise

ROOMS = ("data", "stats", "synth", "inference", "eval", "flows", "paper")
SAMPLERS = {"_gaussian", "_laplace", "_select"}
DRAWS = ("gaussian", "laplace", "select")
DISTRIBUTIONS = {"normal", "standard_normal", "laplace", "gumbel", "logistic"}
NOT_NOISE = {  # these samples are not used as noise
    "synth/models/mixtures/descent.py": "where training starts",
    "inference/counts/independence.py": "the law of a statistic, by Monte Carlo",
    "inference/ratios/ratio.py": "the law of the noise, by Monte Carlo",
    "stats/independence.py": "the law of a statistic, by Monte Carlo",
    "paper/ratio.py": "the law of the noise, by Monte Carlo",
    "paper/federated.py": "made-up people",
    "paper/mixture.py": "made-up people",
}
# The report of a person. The privacy cost is computed by `equistrata.inference.federated.renyi` and not by a budget.
COINS = "inference/federated/poisson_binomial.py"


def modules(root: Path):
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            yield path.relative_to(root).as_posix(), ast.parse(path.read_text("utf-8"))


def faults(name: str, tree: ast.AST):
    """Return the statements of a module that could make noise without a charge."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported = [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
            if any(each.split(".")[0] == "opendp" for each in imported):
                yield "imports OpenDP"
            if "equistrata.privacy.coins" in imported:
                yield "imports a sampler"
            if isinstance(node, ast.ImportFrom) and node.module == "equistrata.privacy.noise":
                yield from (f"imports {each.name}" for each in node.names if each.name.startswith("_"))
        if isinstance(node, ast.Attribute) and node.attr in SAMPLERS:
            yield f"reaches {node.attr}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "binomial" and not _is_a_generator(node.func.value) and name != COINS:
                yield "tosses coins"
            if node.func.attr in DISTRIBUTIONS and _is_a_generator(node.func.value) and name not in NOT_NOISE:
                yield f"makes noise by {node.func.attr}"


def _is_a_generator(value: ast.expr) -> bool:
    """Return True if the name is a NumPy generator, for example rng, np.random or default_rng(…)."""
    return any(name in ast.unparse(value) for name in ("rng", "random", "generator"))


def test_no_module_outside_this_room_reaches_a_sampler(repo_root):
    found = {name: list(faults(name, tree)) for name, tree in modules(repo_root)}
    assert len(found) > 100  # the list of modules is not empty
    assert {name: each for name, each in found.items() if each} == {}
    assert set(NOT_NOISE) <= set(found)


@pytest.mark.parametrize(
    "text",
    [
        "noise._gaussian(counts, 1.0, 1.0, rho)",
        "self.noise.spawn(1)._select(scores, 1.0, 1.0, rho)",
        "draw = noise._laplace",
        "noise.binomial(5, p)",
        "rng.normal(0, 1, 5)",
        "np.random.default_rng().laplace(0, 1)",
        "from equistrata.privacy.noise import _discrete_gaussian",
        "from equistrata.privacy.coins import exact_binomial",
        "import opendp.prelude as dp",
        "from opendp.measurements import make_gaussian",
    ],
)
def test_what_would_be_another_way_is_seen(text):
    assert list(faults("synth/mechanisms/aim.py", ast.parse(text)))


def test_every_draw_takes_a_price_and_the_budget_that_pays():
    public = {name for name, _ in inspect.getmembers(NoiseSource, inspect.isfunction) if not name.startswith("_")}
    assert public == {*DRAWS, "binomial", "spawn"}
    for name in DRAWS:
        parameters = list(inspect.signature(getattr(NoiseSource, name)).parameters)[1:]
        assert parameters[1] == "sensitivity"
        assert parameters[2] in ("rho", "epsilon")
        assert parameters[3:] == ["budget", "what"]
        for source in (SecureNoise, SeededNoise):
            assert getattr(source, name) is getattr(NoiseSource, name)  # no source has another method for sampling
