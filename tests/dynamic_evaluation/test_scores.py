"""Real-valued scores with holes, several data sets with weights, and any pair on them."""

import jax
import numpy as np
import pytest

from nevis_stream.additions.models import add_models
from nevis_stream.dynamic_evaluation import methods
from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.files import ValueTable
from nevis_stream.queries.matrix import ArrayMatrix
from nevis_stream.queries.oracle import MatrixOracle
from nevis_stream.queries.samples import SampleFacts
from tests.dynamic_evaluation.making import file_asks

N, BUDGET = 300, 20


def scores(models=34, seed=0):
    """Scores of models of different ability on samples of different difficulty."""
    random = np.random.default_rng(seed)
    ability, difficulty = random.normal(size=(models, 1)), random.normal(size=(1, N))
    logits = ability - difficulty + 0.5 * random.normal(size=(models, N))
    return (1 / (1 + np.exp(-2 * logits))).astype(np.float32)


MATRIX = scores()
KNOWN, NEW = MATRIX[:28].copy(), MATRIX[28:]
KNOWN[np.random.default_rng(1).random(KNOWN.shape) < 0.1] = np.nan
TAKING = [name for name, method in methods.list_methods().items() if method.takes_scores]
CROSSED = [
    f"{policy}+{predictor}"
    for policy in ("uniform", "random", "strata", "error")
    for predictor in ("mean", "nearest", "irt_2pl")
]


def evaluate(name, known=KNOWN, new=NEW, facts=None):
    evaluator = methods.get(name).fit(ArrayMatrix(known, None, facts), key=jax.random.key(0))
    return evaluator.evaluate(MatrixOracle(new), len(new), BUDGET, jax.random.key(1))


@pytest.mark.parametrize("name", ["recommended", *CROSSED])
def test_a_mean_score_is_estimated_from_few(name):
    estimates, truth = evaluate(name), NEW.mean(axis=1)
    assert (estimates.values[estimates.observed] == NEW[estimates.observed]).all()
    assert np.abs(estimates.accuracy - truth).mean() < (0.1 if "nearest" in name else 0.07)
    assert np.isfinite(estimates.low).all()
    assert ((estimates.low <= truth) & (truth <= estimates.high)).mean() > 0.6


def test_item_response_of_scores_predicts_cells_better_than_the_mean():
    wrong = {name: np.abs(evaluate(name).values - NEW).mean() for name in CROSSED}
    assert wrong["uniform+irt_2pl"] < 0.7 * wrong["uniform+mean"]


@pytest.mark.parametrize("name", sorted(set(methods.list_methods()) - set(TAKING)))
def test_methods_of_outcomes_refuse_scores_and_name_those_that_take_them(name):
    with pytest.raises(
        BadInput, match="takes outcomes .* that take scores: .*random_mean.*irt_2pl"
    ):
        evaluate(name)


@pytest.mark.parametrize("name", ["random+mean", "uniform+irt_2pl", "recommended"])
def test_means_of_data_sets_are_averaged_with_their_weights(name):
    dataset = np.array(["large"] * 250 + ["small"] * 50)
    facts = SampleFacts(N, dataset=dataset, dataset_weights={"large": 1.0, "small": 1.0})
    new = NEW.copy()
    new[:, 250:] = new[:, 250:] * 0.1  # the small one is hard
    known = KNOWN.copy()
    known[:, 250:] = known[:, 250:] * 0.1
    truth = (new[:, :250].mean(axis=1) + new[:, 250:].mean(axis=1)) / 2
    estimates = evaluate(name, known, new, facts)
    bound = 0.12 if name == "random+mean" else 0.07
    assert np.abs(estimates.accuracy - truth).mean() < bound < np.abs(new.mean(1) - truth).mean()


def test_few_known_models_of_scores_fall_back_on_a_mean_of_strata():
    estimates = evaluate("recommended", KNOWN[:4])
    assert np.allclose(estimates.accuracy, evaluate("strata+mean", KNOWN[:4]).accuracy)


def test_models_with_scores_are_added_to_a_cache(tmp_path):
    models, samples = [f"m{i}" for i in range(34)], [f"s{j}" for j in range(N)]
    cache = EvaluationCache(tmp_path / "cache", create=True)
    ranges = {"low": 0.0, "high": 1.0}
    cache.append_rows(models[:28], samples, KNOWN, sample_provenance=ranges)
    table = ValueTable(models, samples, MATRIX)
    asks = file_asks(cache, table, models[28:30])
    first, _ = add_models(cache, asks, BUDGET, "uniform+irt_2pl")
    assert first.asked == BUDGET and abs(first.accuracy - NEW[0].mean()) < 0.1
    whole = cache.matrix(["m28"], predicted=True)[0]
    assert whole.dtype.kind == "f" and np.abs(whole - NEW[0]).mean() < 0.2
    with pytest.raises(BadInput, match="takes outcomes"):
        add_models(cache, asks, BUDGET, "sort_and_search")


def test_an_unknown_pair_names_the_valid_parts():
    with pytest.raises(BadInput, match="'unifrom'.*'uniform'"):
        methods.get("unifrom+mean")
    with pytest.raises(BadInput, match="'men'.*'mean'"):
        methods.get("uniform+men")
    with pytest.raises(BadInput, match=r"POLICY\+PREDICTOR"):
        methods.get("a+b+c")
