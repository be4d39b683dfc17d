"""Noise is drawn by the call that charges for it: nothing outside this room can reach a sampler.

By reading the program text: outside `privacy/` no module names a sampler (they are `NoiseSource`'s underscored methods), makes
noise of its own out of a random generator, or draws with OpenDP.
"""

import ast
import inspect
from pathlib import Path

import pytest

from privacy.noise import NoiseSource, SecureNoise, SeededNoise

ROOMS = ("data", "synth", "inference", "eval", "flows", "benchmarks")
SAMPLERS = {"_gaussian", "_laplace", "_select"}
DRAWS = {"gaussian": 5, "laplace": 5, "select": 5}  # a paid draw, and how many arguments it takes
# Generators draw synthetic rows, which protect nothing, and made-up people; but noise comes from a source.
DISTRIBUTIONS = {"normal", "standard_normal", "laplace", "gumbel", "discrete_gauss", "logistic"}
# Made-up people, or noise on made-up people that a simulation draws many at a time; no private row is near.
SIMULATIONS = {
    "inference/experiment_simulation.py", "inference/ratio_simulation.py", "inference/planning.py",
    "inference/questions.py", "inference/ratio.py", "flows/experiment_mixture.py", "flows/experiment_means.py",
    "benchmarks/proportions.py", "benchmarks/means_levels.py",
}  # fmt: skip
COINS = "inference/poisson_binomial.py"  # a person's own report: accounted for by `inference.renyi`, not by a budget


def modules(root: Path):
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            yield path.relative_to(root).as_posix(), ast.parse(path.read_text("utf-8"))


def faults(name: str, tree: ast.AST):
    """What a module does that would be noise without a charge."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported = [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
            if any(each.split(".")[0] == "opendp" for each in imported):
                yield "imports OpenDP"
            if "privacy.coins" in imported:
                yield "imports a sampler"
            if isinstance(node, ast.ImportFrom) and node.module == "privacy.noise":
                yield from (f"imports {each.name}" for each in node.names if each.name.startswith("_"))
        if isinstance(node, ast.Attribute) and node.attr in SAMPLERS and _of_a_source(node.value):
            yield f"reaches {node.attr}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called, given = node.func.attr, len(node.args) + len(node.keywords)
            if called in DRAWS and _of_a_source(node.func.value) and given != DRAWS[called]:
                yield f"draws by {called} with {given} arguments"
            if called == "binomial" and _of_a_source(node.func.value) and name != COINS:
                yield "tosses coins"
            if called in DISTRIBUTIONS and not _of_a_source(node.func.value) and name not in SIMULATIONS:
                yield f"makes noise by {called}"


def _of_a_source(value: ast.expr) -> bool:
    return not (isinstance(value, ast.Name) and value.id in ("rng", "np", "stats"))


def test_no_module_outside_this_room_reaches_a_sampler(repo_root):
    found = {name: list(faults(name, tree)) for name, tree in modules(repo_root)}
    assert len(found) > 100  # the walk did not come up empty
    assert {name: each for name, each in found.items() if each} == {}


@pytest.mark.parametrize(
    "text",
    [
        "noise._gaussian(counts, 1.0, 1.0, rho)",
        "self.noise.spawn(1)._select(scores, 1.0, 1.0, rho)",
        "draw = noise._laplace",
        "noise.gaussian(counts, 2.0)",
        "noise.select(scores, 1.0, rho)",
        "noise.binomial(5, p)",
        "rng.normal(0, 1, 5)",
        "np.random.default_rng().laplace(0, 1)",
        "from privacy.noise import _discrete_gaussian",
        "from privacy.coins import exact_binomial",
        "import opendp.prelude as dp",
        "from opendp.measurements import make_gaussian",
    ],
)
def test_what_would_be_another_way_is_seen(text):
    assert list(faults("synth/aim.py", ast.parse(text)))


def test_every_draw_takes_a_price_and_the_budget_that_pays():
    public = {name for name, _ in inspect.getmembers(NoiseSource, inspect.isfunction) if not name.startswith("_")}
    assert public == {*DRAWS, "binomial", "spawn"}
    for name, count in DRAWS.items():
        parameters = list(inspect.signature(getattr(NoiseSource, name)).parameters)[1:]
        assert len(parameters) == count
        assert parameters[1] == "sensitivity"
        assert parameters[2] in ("rho", "epsilon")
        assert parameters[3:] == ["budget", "what"]
        for source in (SecureNoise, SeededNoise):
            assert getattr(source, name) is getattr(NoiseSource, name)  # and no source draws in another way
