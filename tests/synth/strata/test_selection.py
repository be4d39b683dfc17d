"""Tests of shared selection: when it is used, its privacy cost, and the measurements of each stratum."""

from dataclasses import replace
from itertools import combinations
from statistics import harmonic_mean

import numpy as np
import pytest
from small_tables import fit
from spies import Spy, recorded_budgets

import equistrata.synth.mechanisms.mst
import equistrata.synth.mechanisms.session
from equistrata.data.schema import Column, Impossible, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.data.weights import PublicWeights
from equistrata.errors import InputError
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SeededNoise, gaussian_sigma
from equistrata.stats.distributions import NOISE_L1
from equistrata.synth.foreign.smartnoise import SmartNoise
from equistrata.synth.measurements import Measurement, total_estimate
from equistrata.synth.mechanisms.aim import AIM, MANY, MOST, ROUNDS, STRATA_MODEL_SIZE
from equistrata.synth.mechanisms.base import shared_mechanism
from equistrata.synth.mechanisms.candidates import CandidateSession
from equistrata.synth.mechanisms.levels import COARSE_SHARE, SIZES_SHARE, Levels, largest_share
from equistrata.synth.mechanisms.mst import LARGE_NOISE, MST, STRATA_COLUMNS, STRATA_LOW_NOISE
from equistrata.synth.mechanisms.mst import MANY as MST_MANY
from equistrata.synth.mechanisms.session import Session
from equistrata.synth.models.coarsening import Coarsening
from equistrata.synth.models.estimation import MirrorDescent, model_cliques, stratum_cliques
from equistrata.synth.models.junction_tree import JunctionTree, cells_in
from equistrata.synth.strata.cutting import slices
from equistrata.synth.strata.selection import shared_selection
from equistrata.synth.synthesizer import StratifiedSynthesizer

SIZES = {"A": 3, "S": 2, "B": 2, "R": 3, "C": 2}
SCHEMA = Schema("small", tuple(Column(name, values=tuple(range(size))) for name, size in SIZES.items()))
CUT = ("S", "R")
STRATA = Strata.over(SCHEMA, CUT)
QUICK = MirrorDescent(iterations=30)
MECHANISMS = {
    "MST": MST(engine=QUICK),
    "AIM": AIM(engine=QUICK, round_engine=MirrorDescent(iterations=10)),
}
ALL_LEVELS = {"auto": Levels(CUT), "strata": Levels(CUT, coarse=False), "none": Levels(CUT, fine=False)}
EACH = pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
AT_ALL_LEVELS = pytest.mark.parametrize("levels", ALL_LEVELS.values(), ids=ALL_LEVELS)


def table_of(rows, seed=0, schema=SCHEMA):
    """Return rows in which A and B are dependent, with the opposite sign for S = 1, and R and C are dependent."""
    rng = np.random.default_rng(seed)
    a, s, b, r, c = (rng.integers(0, size, rows) for size in SIZES.values())
    b = np.where(rng.random(rows) < 0.8, (a > 0) ^ (s == 1), b)
    c = np.where(rng.random(rows) < 0.8, r > 0, c)
    codes = np.stack([a, s, b, r, c], axis=1).astype(np.uint8)
    for zero in schema.impossible:
        codes = codes[~schema.zero_mask(zero)[tuple(codes[:, schema.index(n)] for n in zero.columns)]]
    return CodedTable(codes, schema)


# --- The use of shared selection, and errors


def test_shared_where_it_can_be():
    for mechanism in (MST(), AIM()):
        shared = shared_selection(mechanism, STRATA)
        assert type(shared) is type(mechanism)
        parts = {"columns": STRATA_COLUMNS, "low_noise": STRATA_LOW_NOISE, "many": MST_MANY, "large_noise": LARGE_NOISE}
        parts = parts if isinstance(mechanism, MST) else {"alone": 0.9 / ROUNDS, "many": MANY, "most": MOST}
        parts["largest"] = largest_share(mechanism.choice if isinstance(mechanism, MST) else 0.1)
        assert shared.levels == Levels(CUT, **parts)
        assert shared == shared_mechanism(shared)
        one = {**parts, "large_noise": 0.0}
        assert shared_selection(mechanism, STRATA, "shared", "auto").levels == Levels(CUT, **one)
        assert shared_mechanism(mechanism) is None
        assert shared_selection(mechanism, STRATA, levels="strata").levels == Levels(CUT, coarse=False, **parts)
        assert shared_selection(mechanism, STRATA, levels="none").levels == Levels(CUT, fine=False, **parts)
        assert shared_selection(mechanism, STRATA, "per-stratum") is None
        assert shared_selection(mechanism, Strata.over(SCHEMA, ())) is None


def test_a_mechanism_keeps_its_settings():
    own = AIM(rounds=7, max_model_size=5.0, engine=QUICK)
    levels = Levels(CUT, largest=largest_share(), alone=0.9 / ROUNDS, many=MANY, most=MOST)
    assert shared_selection(own, STRATA) == replace(own, levels=levels)
    assert (shared_selection(AIM(), STRATA).model_size, AIM().model_size) == (STRATA_MODEL_SIZE, 1.0)
    shared = shared_selection(MST(trees=2, max_model_size=3.0), STRATA)
    assert (shared.trees, shared.model_size, shared.engine) == (2, 3.0, MST().engine)
    assert (shared_selection(MST(), STRATA).model_size, MST().model_size) == (16.0, 8.0)


class OtherEngine:
    weighs_cells = False

    def estimate(self, schema, measurements, warm_start=None):
        raise AssertionError("never asked")


LARGE = Schema("large", (*(Column(n, values=tuple(range(400))) for n in "AB"), Column("S", values=tuple(range(7)))))
LONG = Schema("long", (*(Column(n, values=tuple(range(900))) for n in "AB"), Column("S", values=tuple(range(150)))))
TIED = Schema(
    "tied",
    (*(Column(n, values=tuple(range(90))) for n in "ABC"), Column("S", values=(0, 1))),
    impossible=tuple(Impossible(pair, ((0,), (0,))) for pair in combinations("ABC", 2)),
)


@pytest.mark.parametrize(
    ("mechanism", "strata", "reason"),
    [
        (SmartNoise("mst"), STRATA, "SmartNoiseMST fits each stratum separately"),
        (MST(engine=OtherEngine()), STRATA, "use engine 'numpy'"),
        (MST(), Strata.over(LARGE, ("S",)), "more than 1,000,000 cells"),
        (AIM(), Strata.over(LONG, ("S",)), "more than 1,000,000 cells"),
        (MST(), Strata.over(TIED, ("S",)), "more than 8 MiB even without any measured pair"),
    ],
)
def test_where_it_cannot_be_each_stratum_chooses_unless_sharing_was_asked_for(mechanism, strata, reason):
    assert shared_selection(mechanism, strata) is None
    assert shared_selection(mechanism, strata, "per-stratum", "strata") is None
    with pytest.raises(InputError, match=reason) as told:
        shared_selection(mechanism, strata, "shared")
    assert str(told.value).count(". ") == 0
    with pytest.raises(InputError, match=f"need shared selection, but .*{reason}"):
        shared_selection(mechanism, strata, levels="none")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"selection": "both"}, "selection is 'both', but must be 'shared' or 'per-stratum'"),
        ({"levels": "fine"}, "levels is 'fine', but must be 'auto' or 'strata' or 'none'"),
        ({"selection": "per-stratum", "levels": "none"}, "each stratum was set to select separately"),
    ],
)
def test_bad_choices_are_told_in_a_sentence_before_a_row_is_looked_at(settings, message):
    with pytest.raises(InputError, match=message):
        StratifiedSynthesizer(**{"mechanism": "mst", "strata": CUT} | settings).fit(table_of(10))


# --- The privacy cost


@AT_ALL_LEVELS
@pytest.mark.parametrize("rows", [0, 3, 20_000])
@pytest.mark.parametrize("rho", [0.1, 1 / 3, 0.0149731])
def test_mst_spends_exactly_rho(monkeypatch, levels, rows, rho):
    made = recorded_budgets(monkeypatch, equistrata.synth.mechanisms.session)
    noise = Spy()
    measured = MST(levels=levels, engine=QUICK).measure(table_of(rows), Rho(rho), noise)
    (budget,) = made
    assert budget.spent == budget.total == Rho(rho)
    through_noise = sum(1 / (2 * s**2) for s in noise.sigmas) + sum(float(r) for _, _, r in noise.selections)
    assert through_noise == pytest.approx(rho, rel=1e-12)
    assert [m.sigma for m in measured] == noise.sigmas
    assert all(sensitivity == 1.0 for _, sensitivity, _ in noise.selections)
    assert bool(noise.selections) == (rows == 20_000)


@AT_ALL_LEVELS
@pytest.mark.parametrize("rows", [0, 3, 20_000])
def test_a_replayed_log_of_aim_adds_up_to_rho_to_the_last_digit(levels, rows):
    noise, rho, known = Spy(), Rho(1 / 3), Measurement(CUT, np.full((2, 3), rows / 6), 2.0)
    aim = replace(MECHANISMS["AIM"], levels=levels)
    measurements, log = aim.measure_with_log(table_of(rows), rho, noise, [known])
    assert measurements[0] is known
    assert sum((r.measurement + r.selection for r in log), start=Rho(0)) == rho
    assert [(m.columns, m.sigma) for m in measurements[1:]] == [(r.columns, r.sigma) for r in log]
    assert [s[2] for s in noise.selections] == [r.selection for r in log if r.selection]
    through_noise = sum(1 / (2 * s**2) for s in noise.sigmas) + sum(float(s[2]) for s in noise.selections)
    assert through_noise == pytest.approx(1 / 3, rel=1e-12)
    first = levels.over_all(SCHEMA)
    first += levels.within_strata(SCHEMA, rho, total_estimate(measurements[: 1 + len(first)])[0])
    assert [(r.columns, r.measurement) for r in log[: len(first)]] == [(columns, rho * part) for columns, part in first]
    assert len(first) >= 3


def first_round(aim: AIM, rho: float) -> float:
    """Return the share of ρ of the first selection and its measurement."""
    _, log = aim.measure_with_log(table_of(20_000), Rho(rho), SeededNoise(0))
    chosen = next(r for r in log if r.selection)
    return float((chosen.measurement + chosen.selection).exact) / rho


def test_first_rounds_are_as_dear_as_noise_on_a_pair_asks():
    """The noise of a pair with c cells is c·√(2/π)/√(2ρ'). The number of rows is 20,000. The noise is 0.0025 of the
    rows if the share of ρ for each column is 1/16.

    The noise is 0.065 of the rows if the share is 1/4. The harmonic mean over the pairs is used, because it is not
    sensitive to a few wide columns.
    """
    names = SCHEMA.names
    cells = harmonic_mean(SCHEMA[a].size * SCHEMA[b].size for a, b in combinations(names, 2))
    aim = AIM(levels=Levels(CUT), engine=QUICK, readable=1e9)
    for rounds, noise, other in ((16, 0.0025, 4), (4, 0.065, 1)):
        rho = rounds * len(names) * (cells / (noise * 20_000)) ** 2 / np.pi
        assert first_round(aim, rho * 1.05) == pytest.approx(1 / (rounds * len(names)))
        assert first_round(aim, rho * 0.95) == pytest.approx(1 / (other * len(names)))
        assert first_round(replace(aim, rounds=7), rho * 0.95) == pytest.approx(1 / (7 * len(names)))
        assert first_round(replace(aim, levels=Levels()), rho * 0.95) == pytest.approx(1 / (16 * len(names)))


@EACH
@pytest.mark.parametrize("weights", ["noisy", "public"])
def test_a_release_of_all_strata_costs_the_price_of_one(mechanism, weights):
    """The sum of 1/(2σ²) over all measurements and the selections must be the cost of a single stratum."""
    public = PublicWeights(dict.fromkeys(STRATA.keys, 1 / 6), "test")
    settings = {"weights": public if weights == "public" else "noisy", "selection": "shared"}
    made = StratifiedSynthesizer(mechanism, CUT, seed=1, **settings).fit(table_of(9000))
    (measured,) = made.measurements_.values()
    assert (measured[0].columns == CUT) == (weights == "noisy")
    assert 0.6 * float(made.rho_) < sum(1 / (2 * m.sigma**2) for m in measured) <= float(made.rho_) * (1 + 1e-9)


@EACH
@AT_ALL_LEVELS
def test_one_row_moves_no_score_by_more_than_its_weight(mechanism, levels):
    """The test uses random tables, models and rows, and each candidate at each level.

    The bound must be reached for at least one of the rows.
    """
    rng, moved, allowed = np.random.default_rng(0), {}, {}
    for seed in range(12):
        table = table_of(40, seed)
        told = [
            Measurement(n, rng.normal(4, 4, [SIZES[c] for c in n]), 3.0)
            for n in (*stratum_cliques(SCHEMA, CUT), ("A", "B"))
        ]
        model = QUICK.estimate(SCHEMA, told)
        scores_of = mst_scores if isinstance(mechanism, MST) else aim_scores
        weights, before = scores_of(replace(mechanism, levels=levels), table, model)
        for _ in range(8):
            row = rng.integers(0, SCHEMA.sizes, (1, 5)).astype(np.uint8)
            _, after = scores_of(
                replace(mechanism, levels=levels), CodedTable(np.vstack([table.codes, row]), SCHEMA), model
            )
            for columns, weight in weights.items():
                change = abs(after[columns] - before[columns])
                assert change <= (1 if weight == 1 else weight * (1 + 1e-9))
                moved[columns], allowed[columns] = max(change, moved.get(columns, 0.0)), weight
    assert {len(columns) for columns in moved} >= (
        {2, 4} if levels.fine and levels.coarse else {2} if levels.coarse else {4}
    )
    assert moved == pytest.approx(allowed, rel=1e-6)


def mst_scores(mst, table, model):
    """Return the weights and scores of all pairs, in which each weight is 1."""
    names = mst.levels.inner(SCHEMA) if mst.levels.fine else SCHEMA.names
    books = Session(table, Rho(1), SeededNoise(0))
    scores = {
        columns: books.score(columns, model, 5.0)
        for _, columns in equistrata.synth.mechanisms.mst._offers(SCHEMA, names, mst.levels)
    }
    return dict.fromkeys(scores, 1.0), scores


def aim_scores(aim, table, model):
    """Return the weights and scores of all candidates, in which the largest weight is 1."""
    run = CandidateSession(table, Rho(1), SeededNoise(0), [], aim.model_size)
    run.offer(aim.candidates_of(table.schema, True))
    candidates, heaviest = list(run.weights), max(run.weights.values())
    weights = {columns: weight / heaviest for columns, weight in run.weights.items()}
    return weights, dict(zip(candidates, run.scores(candidates, model, 5.0).tolist(), strict=True))


def test_the_score_of_a_marginal_within_strata_is_the_sum_of_the_strata_s_scores():
    table = table_of(3000)
    model = QUICK.estimate(
        SCHEMA, [Measurement((name,), np.full(size, 3000 / size), 5.0) for name, size in SIZES.items()]
    )
    found = Session(table, Rho(1), SeededNoise(0)).score(("A", "S", "B", "R"), model, 5.0)
    penalty = np.sqrt(2 / np.pi) * 5.0 * 6
    modelled, expected = model.marginal(("A", "B", *CUT)), 0.0
    for key, part in STRATA.partition(table).items():
        codes = tuple(STRATA.codes_of(key).values())
        expected += np.abs(part.marginal(("A", "B")) - modelled[(..., *codes)]).sum() - penalty
    assert found == pytest.approx(expected, abs=0.05)  # each cell is rounded to 1/1024


def test_no_candidate_within_strata_blunts_the_choice_among_the_others():
    names = ("A", "S", "B", "R", "C")
    aim = AIM(degree=2, levels=Levels(("S", "R")))
    weights = aim.candidates_of(SCHEMA.select(names))
    assert max(map(len, weights)) == 4
    heaviest = max(weight for columns, weight in weights.items() if len(columns) <= 2)
    assert max(weights.values()) == heaviest
    assert weights[("A", "S", "B", "R")] == heaviest
    paper = replace(aim, levels=Levels()).candidates_of(SCHEMA.select(names))
    assert heaviest < 1.5 * max(paper.values())


def test_where_pairs_are_noisy_no_candidate_weighs_more_than_a_pair_by_hand():
    """There are four columns. A pair is contained in two triples, and it has one column in common with the other two
    triples. The weight of a pair is therefore 2·2 + 2·1 = 6.
    """
    names = ("A", "S", "B", "R")
    clear, noisy = (AIM().candidates_of(SCHEMA.select(names), few) for few in (False, True))
    assert {len(c): w for c, w in clear.items()} == {1: 3.0, 2: 6.0, 3: 9.0}
    assert {len(c): w for c, w in noisy.items()} == {1: 3.0, 2: 6.0, 3: 6.0}
    strata = AIM(levels=Levels(("S", "R")), within=0.7)
    both = strata.candidates_of(SCHEMA.select(names), True)
    # In the strata, there is a single set of all four columns with a weight of 0.7, which adds 2 · 0.7 to each pair.
    assert both[("S", "R")] == max(both.values()) == pytest.approx(7.4)
    # The number of other columns is twice as large as `many`, so sets of more than two columns have half of the weight.
    many = replace(strata, levels=replace(strata.levels, many=1)).candidates_of(SCHEMA.select(names), True)
    assert many == {c: weight / (2 if len(c) > 2 else 1) for c, weight in both.items()}
    fine = AIM(levels=Levels(("S",), coarse=False)).candidates_of(SCHEMA.select(names), True)
    assert fine[("A", "S", "B")] == fine[("A", "S", "B", "R")] == max(fine.values())


@pytest.mark.parametrize(("rows", "readable"), [(300, False), (100_000, True)])
def test_sets_of_three_weigh_more_only_where_pairs_are_clear(rows, readable, monkeypatch):
    offered = []
    monkeypatch.setattr(CandidateSession, "offer", lambda run, weights, seldom=(): offered.append(weights))
    monkeypatch.setattr(CandidateSession, "places", {}, raising=False)
    table = CodedTable(np.zeros((rows, 4), dtype=np.uint8), SCHEMA.select(("A", "S", "B", "R")))
    replace(AIM(), readable=10.0).measure(table, Rho(0.1), SeededNoise(0))
    assert (max(offered[-1].values()) > 6.0) == readable


def test_aim_s_candidates_and_their_weights_by_hand():
    """The weights in the workload are 2 for AB and 1 for AS, and the strata are given by S. For the strata, the column
    S is added to both of the sets, and the weight is multiplied by 0.5.
    """
    schema = SCHEMA.select(("A", "S", "B"))
    aim = AIM(workload={("A", "B"): 2.0, ("A", "S"): 1.0, ("A", "Z"): 4.0}, within=0.5, levels=Levels(("S",)))
    # The sets are AB with 2, AS with 1 + 0.5·(1 + 4), A with 4 (from AZ), and ABS with 0.5·2.
    ab, a_s, a, ab_s = 2.0, 3.5, 4.0, 1.0
    assert aim.candidates_of(schema) == {
        ("A",): ab + a_s + a + ab_s, ("S",): a_s + ab_s, ("B",): ab + ab_s,
        ("A", "S"): ab + 2 * a_s + a + 2 * ab_s, ("A", "B"): 2 * ab + a_s + a + 2 * ab_s, ("S",
        "B"): ab + a_s + 2 * ab_s,
        ("A", "S", "B"): 2 * ab + 2 * a_s + a + 3 * ab_s,
    }  # fmt: skip
    fine = replace(aim, levels=Levels(("S",), coarse=False)).candidates_of(schema)
    assert fine == {("A", "S"): 2 * 5.0 + 2 * 2.0, ("S", "B"): 2 * 2.0 + 5.0, ("A", "S", "B"): 3 * 2.0 + 2 * 5.0}
    none = replace(aim, levels=Levels(("S",), fine=False))
    assert none.candidates_of(schema) == replace(aim, levels=Levels()).candidates_of(schema)
    nothing = replace(MECHANISMS["AIM"], workload={("S",): 1.0}, levels=Levels(("S",), coarse=False))
    assert {m.columns for m in nothing.measure(table_of(20_000), Rho(1), SeededNoise(0))} == {
        ("A", "S"), ("S", "B"), ("S", "R"), ("S", "C")
    }  # fmt: skip


# --- The measurements


@EACH
def test_every_stratum_measures_the_same_and_the_population_is_their_sum(mechanism):
    made = StratifiedSynthesizer(mechanism, CUT, epsilon=20, delta=1e-6, seed=2, selection="shared")
    made.fit(table_of(60_000))
    (measured,) = made.measurements_.values()
    found = [[(m.columns, m.sigma) for m in own] for own in slices(measured, STRATA).values()]
    assert found == [found[0]] * 6
    assert len(found[0]) > 4  # the size, three columns and at least one selected marginal
    for columns in (("A", "B"), ("C",), ("A", "S"), ("B", "C")):
        summed = made.model_.marginal(columns)
        assert np.abs(summed - table_of(60_000).marginal(columns)).sum() < 0.02 * 60_000


def test_pairs_are_measured_within_strata_where_strata_differ_and_over_all_rows_where_not():
    """The relation of A and B has the opposite sign for each sex, so that the columns are independent over all rows."""
    for seed in range(3):
        measured = MST(engine=QUICK, levels=Levels(("S",))).measure(
            table_of(50_000, seed), Rho(0.0001), SeededNoise(seed)
        )
        pairs = {m.columns for m in measured if len(set(m.columns) - {"S"}) == 2}
        assert ("A", "S", "B") in pairs
        assert ("R", "C") in pairs
        assert ("A", "B") not in pairs


@pytest.mark.parametrize(("rho", "pairs"), [(1e-6, 2), (5, 3)])
def test_no_pair_is_measured_twice_and_noise_is_not_bought(rho, pairs):
    """There are three pairs of columns, and two of them are contained in the first tree. The third pair is measured
    only if it is readable.
    """
    mst, table = (
        MST(engine=QUICK, levels=Levels(CUT, coarse=rho > 1), readable=1e9, choice=0.5),
        table_of(30_000 if rho > 1 else 30),
    )
    known = Measurement(
        CUT, table.marginal(CUT).astype(float), 0.01
    )  # the total of the model would otherwise be larger than the noise
    measured = mst.measure(table, Rho(rho), SeededNoise(1), [known])[1:]
    first = [*([1] * 5 + [2] if rho > 1 else []), 3, 3, 3]  # columns and sizes, and columns in the strata
    assert [len(m.columns) for m in measured[: len(first)]] == first
    chosen = [frozenset(set(m.columns) - set(CUT)) for m in measured[len(first) :]]
    assert all(len(pair) == 2 for pair in chosen)
    assert len(chosen) == len(set(chosen)) == pairs
    assert len(replace(mst, trees=1).measure(table, Rho(rho), SeededNoise(1), [known])) == 1 + len(first) + 2


def test_as_many_trees_of_pairs_as_can_be_read():
    """For n trees, the noise is √n times as large and the limit is n times smaller, so the noise of a single tree must
    be n^1.5 times smaller.
    """
    table, rho = table_of(20_000), Rho(0.001)

    def trees(readable):
        mst = MST(engine=QUICK, levels=Levels(CUT, fine=False), readable=readable)
        return len([m for m in mst.measure(table, rho, SeededNoise(3)) if len(m.columns) == 2]) - 1

    names = len(SCHEMA.names)
    sigma = gaussian_sigma(float(rho) * (1 - COARSE_SHARE - SIZES_SHARE) / (names - 1))
    cells = np.mean([SCHEMA[a].size * SCHEMA[b].size for a, b in combinations(SCHEMA.names, 2)])
    one = NOISE_L1 * sigma * cells / len(table)  # the noise of a pair in a single tree, relative to the rows
    assert trees(one * 0.8) == 0
    assert trees(one * 1.2) == trees(one * 2**1.5 * 0.8) == names - 1
    assert names - 1 < trees(one * 2**1.5 * 1.2) <= 2 * (names - 1)


def test_without_levels_within_strata_mst_joins_stratum_columns_to_the_others():
    """There is a single tree over all columns, as in MST without strata. Otherwise, all strata would be equal."""
    measured = MST(engine=QUICK, levels=Levels(CUT, fine=False)).measure(table_of(50_000), Rho(0.5), SeededNoise(0))
    assert ("R", "C") in {m.columns for m in measured}
    made = StratifiedSynthesizer("mst", CUT, epsilon=20, levels="none", seed=0).fit(table_of(50_000))
    assert np.abs(made.model_.marginal(("C", "R")) - table_of(50_000).marginal(("C", "R"))).sum() < 1000


@EACH
@AT_ALL_LEVELS
def test_structural_zeros_and_impossible_strata(mechanism, levels):
    schema = replace(SCHEMA, impossible=(Impossible(CUT, ((1,), (2,))), Impossible(("A", "B"), ((0,), (1,))),
                                         Impossible(("S", "C"), ((0,), (1,)))))  # fmt: skip
    table, name = table_of(20_000, schema=schema), {v: k for k, v in ALL_LEVELS.items()}[levels]
    for epsilon in (0.01, 5):
        made = StratifiedSynthesizer(mechanism, CUT, epsilon=epsilon, levels=name, seed=0).fit(table)
        assert len(made.model_.models) == 5
        sample = made.model_.sample(3000, np.random.default_rng(0))
        for zero in schema.impossible:
            assert (sample.marginal(zero.columns)[schema.zero_mask(zero)] == 0).all()


@pytest.mark.parametrize("rows", [0, 4])
@pytest.mark.parametrize("cut", [("S",), ("A", "S", "B", "R")])
@pytest.mark.parametrize("levels", ALL_LEVELS)
@EACH
def test_tables_that_noise_drowns(mechanism, levels, cut, rows):
    strata = Strata.over(SCHEMA, cut)
    public = PublicWeights({key: 1 / len(strata.keys) for key in strata.keys}, "test")
    for weights in ("noisy", public):
        made = StratifiedSynthesizer(mechanism, cut, epsilon=0.01, levels=levels, weights=weights, seed=3).fit(
            table_of(rows)
        )
        assert len(made.sample(500)) == 500
        assert made.model_.total >= 1 - 1e-9
        assert made.model_.marginal(("C",)).sum() == pytest.approx(made.model_.total)
    drawn = made.model_.sample(72 * 5, np.random.default_rng(0))
    assert set(np.bincount(strata.index(drawn))) == {72 * 5 // len(strata.keys)}


def test_one_other_column_and_numeric_strata():
    schema = Schema("n", (Column("AGE", lower=0, upper=99, edges=(0, 20, 50, 99), missing="own", release="index"),
                          Column("A", values=(0, 1, 2))))  # fmt: skip
    codes = np.random.default_rng(0).integers(0, (4, 3), (5000, 2)).astype(np.uint8)
    codes[:, 1] = np.where(codes[:, 0] == 3, 2, codes[:, 1])
    table = CodedTable(codes, schema)
    for mechanism in MECHANISMS.values():
        made = StratifiedSynthesizer(mechanism, ("AGE",), epsilon=20, seed=0).fit(table)
        assert list(made.measurements_) == [()]
        assert np.abs(made.model_.marginal(("AGE", "A")) - table.marginal(("AGE", "A"))).sum() < 200
        assert set(made.sample(50, where={"AGE": 3})["A"]) <= {0, 1, 2}


@pytest.mark.parametrize("levels", ALL_LEVELS.values(), ids=ALL_LEVELS)
def test_no_model_outgrows_its_bound_once_rows_are_paid_for(levels):
    """There are twelve columns of sixty values in 60 strata, and the model for the strata must also be within the
    limit.
    """
    schema = Schema("wide", (*(Column(f"c{i}", values=tuple(range(60))) for i in range(12)),
                             Column("S", values=tuple(range(6))), Column("R", values=tuple(range(10)))))  # fmt: skip
    codes = np.random.default_rng(0).integers(0, schema.sizes, (3000, 14)).astype(np.uint8)
    codes[:, 1:12] = (codes[:, :1] + codes[:, 1:12] % 2) % 60
    mst = replace(
        shared_selection(MST(), Strata.over(schema, ("S", "R"))),
        engine=MirrorDescent(iterations=1),
        levels=replace(levels, strata=("S", "R")),
    )
    measured = mst.measure(CodedTable(codes, schema), Rho(100), SeededNoise(0))
    held = model_cliques(schema, measured)
    assert len(measured) > 14
    sizes = Coarsening.of(schema, measured, ("S", "R")).schema.sizes
    assert JunctionTree.build(sizes, held).cells <= cells_in(mst.model_size)


@EACH
def test_fit_by_itself_models_the_whole_table(mechanism):
    result = fit(replace(mechanism, levels=Levels(CUT)), table_of(5000), Rho(1), SeededNoise(0))
    assert len(result.model.sample(10, np.random.default_rng(0))) == 10
