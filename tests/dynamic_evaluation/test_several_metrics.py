"""Several metrics of one prompt cost one query, and each estimate holds for any model."""

import itertools
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from nevis_stream import dynamic_evaluation as de
from nevis_stream.additions.models import add_models
from nevis_stream.dynamic_evaluation.method import make_context
from nevis_stream.dynamic_evaluation.policies import staged_strata
from nevis_stream.dynamic_evaluation.predictors import model_assisted
from nevis_stream.dynamic_evaluation.predictors.model_assisted import ModelAssisted
from nevis_stream.dynamic_evaluation.told_files import read_told_answers
from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.exchange import read_for_cache
from nevis_stream.queries.matrix import ArrayMatrix
from nevis_stream.queries.oracle import ANY_MODEL, Query, Responses
from tests.dynamic_evaluation.making import file_asks, one_order
from tests.evaluation_cache.harness_logs import write

EXACT = one_order(14, 40)
F1 = 100 * np.clip(0.6 * EXACT + 0.4 * np.random.default_rng(1).random(EXACT.shape), 0, 1)


def _write(path, models):
    lines = ["model,dataset,sample,metric,low,high,score"]
    for i in models:
        for k in range(EXACT.shape[1]):
            lines.append(f"m{i},quiz,{k},exact_match,0,1,{EXACT[i, k]}")
            lines.append(f"m{i},quiz,{k},f1,0,100,{F1[i, k]}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    return de.read_board(_write(tmp_path_factory.mktemp("board") / "board.csv", range(12)))


def column(sample):
    """The column of a sample in the matrices."""
    return int(sample.removeprefix("quiz/"))


def test_one_query_is_asked_for_both_metrics(board, tmp_path):
    board.write(tmp_path / "c")
    cache = EvaluationCache(tmp_path / "c")
    facts = cache.facts()
    assert facts.points == 40 and facts.n == 80
    assert [(part.name, part.asked_with) for part in facts.parts] == [
        ("exact_match", None),
        ("f1", 0),
    ]
    asks = file_asks(cache, read_for_cache(cache, _write(tmp_path / "new.csv", [12])), ["m12"])
    exact, f1 = accounts = add_models(cache, asks, 16)
    assert [each.dataset for each in accounts] == ["exact_match", "f1"]
    for account in accounts:
        assert (account.asked, account.samples, account.budget) == (16, 40, 16)
        assert account.holds_for == ANY_MODEL and account.method == "informed_mean"
    # what was asked of one metric was asked of the other, and nothing else
    states = cache.states(["m12"]).reshape(-1, 2)
    assert ((states == 1).sum(axis=0) == 16).all() and (states[:, 0] == states[:, 1]).all()
    assert exact.low <= EXACT[12].mean() <= exact.high
    assert f1.low <= F1[12].mean() / 100 <= f1.high
    assert cache.has_one_mean() is False


def test_python_asks_each_prompt_once(board):
    asked = []

    def answer(prompts):
        asked.extend(prompts)
        columns = map(column, prompts)
        return [{"exact_match": EXACT[13, k], "f1": F1[13, k], "bleu": 0.5} for k in columns]

    found = de.evaluate_metrics(board, answer, 16, "random_mean")
    assert len(asked) == len(set(asked)) == 16
    assert found["exact_match"].observed == found["f1"].observed == 16
    assert found["f1"].low <= F1[13].mean() <= found["f1"].high <= 100
    with pytest.raises(BadInput, match="'exakt'.*exact_match"):
        de.evaluate_metrics(board, lambda ids: [{"exakt": 1}] * len(ids), 16, "random_mean")
    with pytest.raises(BadInput, match="chooses samples by one metric"):
        de.evaluate_metrics(board, answer, 16, "uniform+irt_2pl")
    with pytest.raises(BadInput, match="evaluate_metrics"):
        de.evaluate(board, lambda ids: np.ones(len(ids)), 16)


def test_rows_of_metrics_and_files_of_them_are_taken_as_answers(board, tmp_path):
    def answer(prompts):
        columns = map(column, prompts)
        return [{"exact_match": EXACT[12, k], "f1": F1[12, k]} for k in columns]

    right = de.evaluate_metrics(board, answer, 16, "random_mean")
    prompts = list(dict.fromkeys(name.rsplit("#", 1)[0] for name in board.samples))
    by_prompt = dict(zip(prompts, answer(prompts), strict=True))
    for given in (by_prompt, [*by_prompt.values()], _write(tmp_path / "new.csv", [12])):
        assert de.evaluate_metrics(board, given, 16, "random_mean") == right


def test_a_prompt_without_one_metric_is_replaced(board):
    lost = []

    def answer(prompts):
        lost.extend(prompts[:1] if not lost else [])
        return [{"exact_match": 1, "f1": None if prompt in lost else 100.0} for prompt in prompts]

    with pytest.warns(match="no answer to 1 sample"):
        found = de.evaluate_metrics(board, answer, 16, "random_mean")
    assert all((each.observed, each.failed) == (16, 1) for each in found.values())


@pytest.fixture(scope="module")
def boards(tmp_path_factory):
    """A board of each metric, with the samples of f1 in another order."""
    folder, found = tmp_path_factory.mktemp("boards"), {}
    for name, values, top in (("exact_match", EXACT, 1), ("f1", F1, 100)):
        lines = ["model,dataset,sample,metric,low,high,score"]
        for i in range(12):
            order = reversed(range(40)) if name == "f1" else range(40)
            lines += [f"m{i},quiz,{k},{name},0,{top},{values[i, k]}" for k in order]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
        found[name] = de.read_board(folder / f"{name}.csv")
    return found


def begin(folder, boards):
    return de.Session.start(
        folder, boards["exact_match"], budget=12, method="informed_mean", models=["m13"]
    )


@pytest.fixture(scope="module")
def told(boards, tmp_path_factory):
    """A session that was told one metric, logs of the other one, its values, and their estimate."""
    folder = tmp_path_factory.mktemp("told")
    session, given, rounds = begin(folder / "session", boards), {}, 0
    for ids in session:
        values = {column(sample): float(F1[13, column(sample)]) for sample in ids}
        write(folder / "logs", values, model="m13", metric="f1", date=f"2024-06-28T0{rounds}-00")
        rounds += 1
        session.tell({sample: int(EXACT[13, column(sample)]) for sample in ids})
        given |= {sample: F1[13, column(sample)] for sample in ids}
    return SimpleNamespace(
        session=session,
        rounds=rounds,
        logs=folder / "logs",
        given=given,
        found=de.estimate_metric(session, boards["f1"], given),
    )


def test_a_session_that_is_not_done_gives_no_other_metric(boards, tmp_path):
    with pytest.raises(BadInput, match="12 answers are needed first"):
        de.estimate_metric(begin(tmp_path / "s", boards), boards["f1"], {})


def test_a_session_of_one_metric_gives_another_one_for_any_model(told):
    assert told.found.holds_for == ANY_MODEL and told.found.observed == 12


def test_the_other_metric_is_read_from_a_csv(boards, told, tmp_path):
    lines = [f"m13,quiz,{column(sample)},f1,0,100,{value}" for sample, value in told.given.items()]
    path = tmp_path / "new.csv"
    path.write_text("\n".join(["model,dataset,sample,metric,low,high,score", *lines]) + "\n")
    again = de.estimate_metric(told.session, boards["f1"], path, value_range=(0, 100))
    assert (again.low, again.high) == pytest.approx((told.found.low, told.found.high))


def test_the_other_metric_is_read_from_the_logs_of_each_start_of_a_harness(boards, told):
    assert told.rounds == 3
    again = de.estimate_metric(told.session, boards["f1"], told.logs, value_range=(0, 100))
    assert (again.low, again.high) == pytest.approx((told.found.low, told.found.high))


def test_the_other_metric_is_estimated_as_where_all_are_told_at_once(board, told):
    def answer(prompts):
        return [
            {"exact_match": EXACT[13, column(each)], "f1": F1[13, column(each)]} for each in prompts
        ]

    both = de.evaluate_metrics(board, answer, 12)["f1"]
    assert (both.value, both.low, both.high) == pytest.approx(
        (told.found.value, told.found.low, told.found.high), rel=1e-3
    )


def test_answers_of_another_model_of_the_session_are_refused(boards, tmp_path):
    two = de.Session.start(
        tmp_path / "t", boards["exact_match"], 12, method="random_mean", models=["m12", "m13"]
    )
    write(tmp_path / "told", [1], model="m13", metric="exact_match")
    with pytest.raises(BadInput, match="'m13', another model of this session"):
        read_told_answers(two.board, ["m12", "m13"], tmp_path / "told", "m12")


def test_a_sample_without_the_other_metric_is_refused(boards, told):
    few = dict(list(told.given.items())[:-1])
    with pytest.raises(BadInput, match="no value of the other metric"):
        de.estimate_metric(told.session, boards["f1"], few)


def _fitted(values, seed):
    predictor, known, ctx = ModelAssisted(), ArrayMatrix(values), make_context()
    return predictor.make_posterior(
        predictor.fit(known, jax.random.key(seed), ctx), known, ctx
    ), ctx


@pytest.mark.parametrize("budget", [2, 4])
def test_the_expectation_of_another_metric_is_its_mean(budget):
    """All draws of the strata of one metric are enumerated; what is estimated is another one."""
    n, random = 6, np.random.default_rng(budget)
    asked, ctx = _fitted(one_order(8, n, 1), 0)
    other, _ = _fitted(one_order(8, n, 5), 1)
    truth, of_other = random.integers(0, 2, n), np.array([1, 0, 1, 1, 0, 1])
    weights, sizes = np.full(n, 1 / n), staged_strata.plan_stages(budget)
    ends = np.cumsum([0, *sizes])
    stages = list(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))

    def expect(samples, chances, probability, right):
        """Returns the expectation over all draws that follow these."""
        done = len(samples)
        query = Query(np.array([samples], np.int64), np.array([chances], float).reshape(1, -1))
        answers = Responses(query, truth[query.samples].astype(np.uint8))
        if done == budget:
            values = Responses(query, of_other[query.samples].astype(np.uint8))
            cut_by = (asked, answers) if right else None
            found = model_assisted.estimate(other, weights, values, stages, ctx, None, cut_by)
            return probability * found[0, 0]
        count = sizes[int(done > 0)]
        (strata,) = staged_strata.cut(asked, answers, weights, count)
        members = [np.flatnonzero(strata == h).tolist() for h in range(count)]
        total = 0.0
        for drawn in itertools.product(*members):
            chance = [1 / len(each) for each in members]
            total += expect(
                [*samples, *drawn], [*chances, *chance], probability * np.prod(chance), right
            )
        return total

    assert expect([], [], 1.0, True) == pytest.approx(of_other.mean(), abs=1e-6)
    # the enumeration can fail: with the strata that the other metric would have had
    assert expect([], [], 1.0, False) != pytest.approx(of_other.mean(), abs=1e-3)
