"""The interval of the mean over a population: textbook formulas where all samples are answered, and
coverage over drawn populations."""

import numpy as np
import pytest
from scipy.stats import t

from nevis_stream import dynamic_evaluation as de
from nevis_stream.dynamic_evaluation.estimates import Population, Widening, compute_design_effect
from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache.additions import read_additions
from nevis_stream.queries.matrix import ArrayMatrix
from nevis_stream.queries.samples import UNKNOWN, SampleFacts
from tests.forked import run

CLUSTERS, EACH = 30, 4
N = CLUSTERS * EACH
CLUSTER = np.repeat(np.arange(CLUSTERS), EACH)


def draw(random, models, clusters=CLUSTERS):
    """Returns outcomes of which those of a cluster are alike, for each model in its own way."""
    shape = models, clusters
    logit = 0.4 + 1.5 * (random.normal(size=shape) + random.normal(size=shape[1:])) / 2**0.5
    p = np.repeat(1 / (1 + np.exp(-logit)), EACH, axis=1)
    return (random.random(p.shape) < p).astype(np.uint8)


def whole(row, population, known=None):
    """Returns the interval of a model that has answered every sample."""
    known = known or ArrayMatrix(row[None])
    widening = Widening(population, known, np.arange(len(row)))
    return widening.widen([row.mean()] * 3, row, row.astype(np.float64))


def test_with_all_answers_it_is_the_standard_error_of_the_mean():
    scores = np.random.default_rng(0).random(50).astype(np.float32)
    value, low, high = whole(scores, Population())
    half = t.ppf(0.975, 49) * scores.std(ddof=1) / 50**0.5
    np.testing.assert_allclose([value - low, high - value], half, rtol=1e-5)


def test_with_all_answers_in_clusters_it_is_the_cluster_robust_standard_error():
    scores = np.random.default_rng(0).random(N).astype(np.float32)
    value, low, _ = whole(scores, Population(CLUSTER, "text"))
    means = scores.reshape(CLUSTERS, EACH).mean(axis=1, dtype=np.float64)
    half = t.ppf(0.975, CLUSTERS - 1) * means.std(ddof=1) / CLUSTERS**0.5
    np.testing.assert_allclose(value - low, half, rtol=1e-5)


def test_part_of_the_answers_adds_up_to_draws_from_the_population():
    """(1 - K/n) s²/K of the draws from these samples, and s²/n of these samples: s²/K."""
    n, k, s = 10_000, 100, 0.5
    row = np.full(n, UNKNOWN, np.uint8)
    row[:k] = np.arange(k) % 2
    half = t.ppf(0.975, n - 1) * s * ((1 - k / n) / k) ** 0.5
    widening = Widening(Population(), ArrayMatrix(row[None]), np.arange(n))
    value, low, high = widening.widen([0.5, 0.5 - half, 0.5 + half], row, np.full(n, 0.5))
    np.testing.assert_allclose([value - low, high - value], 1.96 * s / k**0.5, rtol=1e-3)


def test_the_known_models_say_how_much_clusters_differ():
    random = np.random.default_rng(1)
    facts = SampleFacts(N)
    alike = ArrayMatrix(np.repeat(random.integers(0, 2, (40, CLUSTERS)), EACH, axis=1), None, facts)
    apart = ArrayMatrix(random.integers(0, 2, (40, N)), None, facts)
    assert compute_design_effect(alike, CLUSTER) == pytest.approx(EACH, rel=0.05)
    assert compute_design_effect(apart, CLUSTER) == pytest.approx(1, abs=0.1)
    row = np.full(N, UNKNOWN, np.uint8)
    widths = []
    for known in (alike, apart):
        widening = Widening(Population(CLUSTER, "text"), known, np.arange(N))
        widths.append(np.ptp(widening.widen([0.5] * 3, row, np.full(N, 0.5))[1:]))
    assert widths[0] == pytest.approx(2 * widths[1], rel=0.1)  # the expected values say nothing


def test_it_covers_where_that_of_these_samples_or_of_samples_alone_does_not():
    random = np.random.default_rng(2)
    inside = np.zeros(2)
    for row in draw(random, 400, 40 * CLUSTERS).reshape(400, 40, N):
        truth = row.mean()  # of this model's population, of which it gets the first clusters
        for place, population in enumerate((Population(CLUSTER, "text"), Population())):
            _, low, high = whole(row[0], population)
            inside[place] += low <= truth <= high
    # 4 standard errors of .95 are .044
    assert inside[0] / 400 > 0.9 and inside[1] / 400 < 0.88


def test_a_model_that_is_right_on_all_has_an_interval():
    row = np.ones(N, np.uint8)
    for population in (Population(), Population(CLUSTER, "text")):
        value, low, high = whole(row, population, ArrayMatrix(draw(np.random.default_rng(0), 5)))
        assert value == high == 1 and 0.9 < low < 1


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("population") / "long.csv"
    lines = ["model,sample,outcome,cluster,category"]
    for model, row in enumerate(draw(np.random.default_rng(4), 9)):
        lines += [f"m{model},s{j},{row[j]},t{CLUSTER[j]},all" for j in range(N)]
    path.write_text("\n".join(lines))
    return path


def test_a_session_and_evaluate_give_the_same(table, tmp_path):
    board = de.read_board(table)
    new = draw(np.random.default_rng(5), 1)[0]

    def answer(ids):
        return [float(new[int(each[1:])]) for each in ids]

    def evaluate(**how):
        return de.evaluate(board, answer, 40, "strata+mean", **how)

    plain, alone = evaluate(), evaluate(population="superpopulation")
    together = evaluate(population="superpopulation", clusters="cluster")
    given = evaluate(population="superpopulation", clusters=CLUSTER)
    assert plain.value == alone.value == together.value
    assert together.low < alone.low < plain.low < plain.high < alone.high < together.high
    assert (given.low, given.high) == (together.low, together.high)
    assert "(mean over these samples; 95%: " in str(plain)
    assert "these samples, drawn as 30 clusters (cluster); 95%: " in str(together)
    session = de.Session.start(tmp_path / "session", board, 40, method="strata+mean")
    how = {"population": "superpopulation", "clusters": "cluster"}
    session.tell({id: answer([id])[0] for id in session.ask()[:30]})
    assert np.isnan(session.estimate(**how).low)  # before all answers are there
    session.run(answer)
    found = session.estimate(**how)
    assert (found.low, found.high, found.mean_over) == (
        *(together.low, together.high),
        together.mean_over,
    )
    assert session.status(**how)[0].estimate == found and session.estimate().low == plain.low


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"population": "all"}, "population"),
        ({"clusters": "cluster"}, "does not depend on how they were drawn"),
        ({"population": "superpopulation", "clusters": "text"}, "'text'.*cluster"),
        ({"population": "superpopulation", "clusters": "category"}, "all samples are in one"),
        ({"population": "superpopulation", "clusters": [0, 1]}, "2 values for 120 samples"),
        ({"population": "superpopulation", "clusters": ["", *range(119)]}, "have none.*'s0'"),
    ],
)
def test_what_has_no_meaning_is_refused(table, how, message):
    with pytest.raises(BadInput, match=message):
        de.evaluate(de.read_board(table), lambda ids: 1 / 0, 40, "strata+mean", **how)


def test_a_session_that_ends_by_its_interval_has_no_other(table, tmp_path):
    session = de.Session.start(tmp_path / "session", de.read_board(table), until=0.5)
    with pytest.raises(BadInput, match="ends by its interval|ends by an interval"):
        session.estimate(population="superpopulation")


def test_the_command_records_and_prints_what_the_mean_is_over(table, tmp_path):
    cache = tmp_path / "cache"
    (tmp_path / "new.csv").write_text(
        "model," + ",".join(f"s{j}" for j in range(N)) + "\nnew," + ",".join(["1", "0"] * (N // 2))
    )
    assert run("launch.evaluate", "import", table, f"--cache={cache}").returncode == 0
    add = ["add-model", f"--cache={cache}", f"--model={tmp_path / 'new.csv'}", "--budget=40"]
    add += ["--method=strata+mean", "--population=superpopulation", "--clusters=cluster"]
    output = run("launch.evaluate", *add).stdout
    over = "the population of these samples, drawn as 30 clusters (cluster)"
    assert f"it is of the mean over {over}" in output
    assert read_additions(cache)[-1].population == over
    # of a model that is observed on all samples too
    assert (
        run("launch.evaluate", "import", tmp_path / "new.csv", f"--cache={cache}").returncode == 0
    )
    complete = run("launch.evaluate", *add).stdout
    assert "already complete: nothing to ask\n  accuracy 0.5000 (95%: 0." in complete
    assert f"it is of the mean over {over}" in complete
