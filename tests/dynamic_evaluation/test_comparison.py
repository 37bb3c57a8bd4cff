"""New models are compared on the same samples, until the best one or their order is known."""

import json
import os
import signal
import tempfile
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from nevis_stream import dynamic_evaluation as de
from nevis_stream import storage
from nevis_stream.dynamic_evaluation.comparison import compare_models, compare_two
from nevis_stream.errors import BadInput, RunWarning
from nevis_stream.evaluation_cache import EvaluationCache
from tests.forked import run
from tests.killed_child import survives

RANDOM = np.random.default_rng(0)
N = 150
KNOWN = (RANDOM.random((12, N)) < np.linspace(0.2, 0.9, 12)[:, None]).astype(np.uint8)
NEW = {
    "good": (RANDOM.random(N) < 0.95).astype(np.uint8),
    "weak": (RANDOM.random(N) < 0.1).astype(np.uint8),
    "fair": (RANDOM.random(N) < 0.6).astype(np.uint8),
}


@pytest.fixture(scope="module")
def board():
    return de.read_board(KNOWN)


def test_the_best_model_is_found_and_others_are_asked_less(board):
    asked: dict[str, list] = {name: [] for name in NEW}

    def answering(name):
        def answer(ids):
            asked[name] += ids
            return NEW[name][ids]

        return answer

    found = de.compare(board, {name: answering(name) for name in NEW})
    assert found.best == "good" and found.decided and found.error == 0.05
    assert found.beaten["good"] == [] and found.beaten["weak"]
    counts = {name: len(ids) for name, ids in asked.items()}
    assert counts["weak"] < counts["good"] < N
    fewest = min(counts.values())
    assert asked["weak"][:fewest] == asked["good"][:fewest] == asked["fair"][:fewest]
    difference = found.differences["good", "weak"]
    truth = NEW["good"].mean() - NEW["weak"].mean()
    assert difference.low <= truth <= difference.high and difference.probability > 0.99
    assert "good - weak" in str(found) and "decided, with an error of at most 5%" in str(found)


def test_a_killed_comparison_leaves_nothing_behind_the_next(board, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(storage, "_swept", set())

    def kill(ids):
        os.kill(os.getpid(), signal.SIGKILL)

    assert not survives(lambda: de.compare(board, {"a": kill, "b": kill}), 10**6)
    assert os.listdir(tmp_path)
    assert de.compare(board, {name: NEW[name] for name in ("good", "weak")}).best == "good"
    assert not os.listdir(tmp_path)


@pytest.fixture(scope="module")
def ordered(tmp_path_factory, board):
    """A session that was opened again for each round until the order of its models was known, how
    many rounds that took, and what it found.
    """
    folder = tmp_path_factory.mktemp("ordered") / "s"
    more = {"models": list(NEW), "until_decided": "order"}
    session = de.Session.start(folder, board, **more)
    rounds = 0
    while not session.ended:
        session = de.Session.start(folder, board, **more)
        for name in NEW:
            session.tell({i: NEW[name][i] for i in session.ask(25, name)}, name)
        rounds += 1
    return SimpleNamespace(session=session, rounds=rounds, found=compare_models(session))


def test_a_session_says_that_it_ends_with_the_order_of_its_models(ordered):
    assert "the order of the models" in ordered.session.rule


def test_a_session_goes_on_after_it_was_opened_again(ordered):
    found = ordered.found
    assert 1 < ordered.rounds < 7 and found.decided
    assert found.beaten == {"good": [], "fair": ["good"], "weak": ["good", "fair"]}
    assert str(found).startswith("order: good, fair, weak (decided, with an error of at most 5%)")


def test_a_report_has_the_order_and_the_differences_of_the_models(ordered):
    folder = ordered.session.directory
    assert run("launch.evaluate", "report", str(folder)).returncode == 0
    assert str(ordered.found).splitlines()[0] in (folder / "report/report.html").read_text()
    table = pd.read_csv(folder / "report/differences.csv")
    expected = ordered.found.differences["weak", "fair"]
    assert table.iloc[2, :3].tolist() == ["weak", "fair", expected.value]


def test_a_model_of_a_session_is_compared_with_a_known_one(ordered):
    against = compare_two(ordered.session, "good", "model-3")
    truth = NEW["good"].mean() - KNOWN[3].mean()
    assert against.low <= truth <= against.high


def test_a_comparison_goes_on_after_a_model_did_not_answer(tmp_path, board):
    out, asked = True, 0

    def answer_late(ids):
        nonlocal asked
        asked += 1
        if out and asked > 1:
            raise ConnectionError("no route")
        return NEW["fair"][ids]

    models = {"good": lambda ids: NEW["good"][ids], "late": answer_late}
    hint = "late is not asked any more. `directory` would keep"
    with pytest.warns(RunWarning, match="no route"), pytest.raises(BadInput, match=hint):
        de.compare(board, models)
    asked = 0
    with pytest.warns(RunWarning), pytest.raises(BadInput, match="late .* same call continues"):
        de.compare(board, models, directory=tmp_path / "s")
    kept = de.Session(tmp_path / "s").track("late").answered.sum()
    out, asked = False, 0
    found = de.compare(board, models, directory=tmp_path / "s")
    assert kept == 10 and found.best == "good" and found.decided


def test_lower_values_may_be_better(tmp_path):
    values = np.clip(RANDOM.normal(50, 10, (10, 60)), 0, 100).astype(np.float32)
    board = de.read_board(values, value_range=(0, 100), lower_is_better=["all"])
    models = {"low": lambda ids: np.full(len(ids), 10.0), "high": lambda ids: values[0, ids] + 9}
    found = de.compare(board, models)
    assert found.best == "low" and found.beaten["high"] == ["low"]
    difference = found.differences["low", "high"]
    assert 0 < difference.low <= difference.value <= difference.high
    more = {"models": ["not asked", "high"], "until_decided": "best"}
    session = de.Session.start(tmp_path / "s", board, **more)
    asked = session.ask(3, "high")
    session.tell(dict(zip(asked, models["high"](asked), strict=True)), "high")
    assert compare_models(session).best == "high"  # of the other one nothing is known


NEAR = {**NEW, "near": (RANDOM.random(N) < 0.93).astype(np.uint8)}


@pytest.fixture(scope="module")
def shared(tmp_path_factory, board):
    """A session of four models with a budget for all of them, at its end, what was asked at first,
    and how many samples of each in all.
    """
    folder = tmp_path_factory.mktemp("shared") / "s"
    more = {"models": list(NEAR), "until_decided": "best"}
    session = de.Session.start(folder, board, 40, **more)
    first = [session.ask(200, "good"), session.ask(200, "near", worker="w")]
    asked = dict.fromkeys(NEAR, 0)
    while not session.ended:
        session = de.Session.start(folder, board, 40, **more)
        for name, values in NEAR.items():
            ids = session.ask(15, name, worker="w")
            session.tell({i: values[i] for i in ids}, name)
            asked[name] += len(ids)
    return SimpleNamespace(session=session, first=first, asked=asked)


def test_a_budget_is_one_of_all_models_together_and_is_asked_of_each_at_first(shared):
    assert "160 answers of all models together" in shared.session.rule
    assert [len(ids) for ids in shared.first] == [40, 40]


def test_models_that_are_out_leave_their_budget_to_the_others(shared):
    asked = shared.asked
    assert asked["weak"] < 40 < asked["good"] == asked["near"]
    assert 156 < sum(asked.values()) <= 160 and not compare_models(shared.session).decided


def test_the_status_of_models_has_the_budget_that_each_of_them_got(shared):
    status = {each.model: each for each in shared.session.status()}
    assert status["weak"].budget == shared.asked["weak"]
    assert status["near"].budget == shared.asked["near"] and not status["near"].waiting


def test_nothing_is_asked_after_the_budget_of_all(shared):
    session = shared.session
    assert all(each.ended and not session.ask(5, each.model) for each in session.status())


def test_a_session_from_before_budgets_were_shared_goes_on_as_it_was(tmp_path, board):
    more = {"models": ["good", "weak"], "until_decided": "best"}
    settings = de.Session.start(tmp_path / "s", board, 20, **more).directory / "session.json"
    old = json.loads(settings.read_text())
    assert (old.pop("answers"), old.pop("budget"), len(old.pop("check"))) == (40, 40, 16)
    settings.write_text(json.dumps(old | {"budget": 20}, indent=1, sort_keys=True))
    with pytest.warns(UserWarning, match="from now on it has one"):
        session = de.Session.start(tmp_path / "s", board, 20, **more)
    assert json.loads(settings.read_text())["check"]
    assert "at the latest after 20 answers of each" in session.rule
    for _ in range(3):
        session.tell(dict.fromkeys(session.ask(10, "good"), 1), "good")
    assert session.status()[0].answered == 20 and session.has_ended("good")


def test_models_with_all_their_answers_are_compared_by_their_number(tmp_path, board):
    more = {"models": ["good", "weak"], "method": "random_mean"}
    session = de.Session.start(tmp_path / "s", board, 100, **more)
    asked = {name: [] for name in more["models"]}
    while not session.ended:
        for name in more["models"]:
            asked[name] += (ids := session.ask(25, name))
            session.tell({i: NEW[name][i] for i in ids}, name)
        if not session.has_ended("weak"):
            early = compare_two(session, "good", "model-3")
    assert asked["good"] != asked["weak"] and set(asked["good"]) == set(asked["weak"])
    both, against = (compare_two(session, "good", other) for other in ("weak", "model-3"))
    assert both.shared == against.shared == 100 and type(both.low) is type(both.high) is float
    for found, other in ((both, NEW["weak"]), (against, KNOWN[3])):
        assert found.low <= NEW["good"].mean() - other.mean() <= found.high
    turned = compare_two(session, "model-3", "good")
    assert (turned.value, turned.low) == (-against.value, -against.high)
    mean = session.estimate("good")
    # all values of a known model are known: it adds nothing to the error of the new one
    assert against.high - against.low < 1.2 * (mean.high - mean.low)
    assert against.high - against.low < 0.7 * (early.high - early.low)


def test_where_data_sets_have_weights_the_interval_holds_at_every_number(tmp_path):
    """Draws may miss the small data set, of which no variance of the draws can tell."""
    lines = ["model,sample,outcome,dataset"]
    for model, row in enumerate(KNOWN):
        lines += [f"m{model},s{j},{value},{'xy'[j >= 5]}" for j, value in enumerate(row.tolist())]
    (tmp_path / "long.csv").write_text("\n".join(lines))
    words = "import", tmp_path / "long.csv", f"--cache={tmp_path / 'c'}", "--dataset_weights=equal"
    assert run("launch.evaluate", *words).returncode == 0
    cache = EvaluationCache(tmp_path / "c")
    weak = np.where(np.arange(N) < 5, 0, NEW["fair"])  # the models differ on this data set alone
    new = {"good": np.where(np.arange(N) < 5, 1, weak), "weak": weak}
    for seed in range(4):
        more = {"models": list(new), "method": "random_mean", "seed": seed}
        session = de.Session.start(tmp_path / str(seed), cache, 15, **more)
        for name, values in new.items():
            ids = session.ask(None, name)
            session.tell({i: values[int(i.rpartition("s")[2])] for i in ids}, name)
        found = compare_two(session, "good", "weak")
        assert found.low <= 0.5 <= found.high


def test_what_cannot_be_compared_is_refused(tmp_path, board):
    session = de.Session.start(tmp_path / "s", board, 10, models=["a", "b"], method="random_mean")
    with pytest.raises(BadInput, match="--until_decided"):
        compare_models(session)
    with pytest.raises(BadInput, match="until_decided, or .*all their answers"):
        compare_two(session, "a", "b")
    with pytest.raises(BadInput, match="a: name two different models"):
        compare_two(session, "a", "a")
    with pytest.raises(BadInput, match="'c'.*a, b"):
        compare_two(session, "a", "c")
    with pytest.raises(BadInput, match="model-1 and model-3 are both known"):
        compare_two(session, "model-1", "model-3")
    strata = de.Session.start(tmp_path / "u", board, 10, models=["a"], method="stratified_mean")
    with pytest.raises(BadInput, match="'stratified_mean' does not draw .* --method=random_mean"):
        compare_two(strata, "a", "model-3")
    with pytest.raises(BadInput, match=r"10 samples asked, and values of shape \[2\] returned"):
        de.compare(board, dict.fromkeys("ab", lambda ids: [1, 0]))
    with pytest.raises(BadInput, match="a board is expected, not ndarray: `read_board`"):
        de.compare(KNOWN, dict.fromkeys("ab", lambda ids: [1, 0]))
    with pytest.raises(BadInput, match="not ndarray: `read_board`"):
        de.evaluate(KNOWN, lambda ids: [1, 0], 10)
    with pytest.raises(BadInput, match="at least two"):
        de.Session.start(tmp_path / "t", board, until_decided="best")
    with pytest.raises(BadInput, match="'worst'"):
        de.Session.start(tmp_path / "t", board, models=["a", "b"], until_decided="worst")
    with pytest.raises(BadInput, match="give one of them"):
        de.Session.start(tmp_path / "t", board, models=["a", "b"], until_decided="best", until=0.1)
