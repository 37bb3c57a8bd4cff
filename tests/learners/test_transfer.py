"""The three axes: relatedness of tasks, where a model starts, auxiliary tasks, and trials that
answer together.
"""

import itertools

import jax
import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from nevis_stream.cost import counted
from nevis_stream.cost.counted import make_counted
from nevis_stream.learner import Context
from nevis_stream.learners.parts import fit as fit_module
from nevis_stream.learners.parts import model, relatedness
from nevis_stream.learners.parts.augmentation import Augmentation
from nevis_stream.learners.parts.baseline import AuxiliaryTasks, Baseline
from nevis_stream.learners.parts.initialisation import FromPrevious, FromRandom, FromRelated
from nevis_stream.learners.parts.model import EVALUATION_BATCH, Network, TaskShape, begin
from nevis_stream.learners.parts.recipe import AUXILIARY_BATCH, Recipe
from nevis_stream.learners.parts.relatedness import Neighbours, embed, make_features_program
from nevis_stream.learners.parts.search import RandomSearch
from nevis_stream.run_directory.records import PredictRecord, TrainRecord
from nevis_stream.runner import run
from nevis_stream.storage.checkpoint import Checkpoint
from nevis_stream.streams.stream import Stream
from nevis_stream.streams.task import LabelledImages, TaskView
from tests import toy

NETWORK = Network(
    "resnet", (("stage_sizes", (1,)), ("stem", "strided"), ("width", 4)), resolution=8
)
SPACE = {
    "learning_rate": (0.02, 0.05),
    "label_smoothing": (0.0, 0.1),
    "auxiliary_weight": (0.5, 1.0),
}


def learner(initialisation, trials=2, **options):
    return Baseline(
        initialisation,
        RandomSearch(trials, SPACE),
        Recipe(NETWORK, steps=6, validate_every=3),
        **options,
    )


def stream():
    """Four tasks, of which the third repeats the first data set."""
    first, two, three = toy.blobs("one"), toy.striped("two"), toy.blobs("three", classes=4, seed=3)
    return Stream.from_datasets(
        "transfer", [first, two, first, three], [2000, 2001, 2011, 2019], meta_test=1
    )


def view(dataset):
    part = dataset.parts["all"]
    halves = [
        LabelledImages(part.images.take(rows), part.labels[rows])
        for rows in np.split(np.arange(len(part)), [40])
    ]
    return TaskView("a", 2000, dataset.kind, "shape", dataset.num_classes, *halves)


def variables(seed=0):
    return jax.jit(model.initialise_program(NETWORK, 64))(np.asarray([seed, 1, 2, 3], np.uint32))


def context():
    return Context(path=("test",), phase="select")


def test_the_score_is_that_of_a_nearest_neighbour_classifier():
    task, ctx = view(toy.blobs("a", classes=3, n=60)), context()
    train, dev = (embed(ctx, NETWORK, variables(), part.images) for part in (task.train, task.dev))
    reference = KNeighborsClassifier(1).fit(train, task.train.labels).score(dev, task.dev.labels)
    assert Neighbours(1).score(ctx, task, NETWORK, variables()) == pytest.approx(reference)
    five = KNeighborsClassifier(5).fit(train, task.train.labels)
    votes = five.predict_proba(dev)
    clear = np.sort(votes)[:, -1] > np.sort(votes)[:, -2]  # ties may be broken otherwise
    assert clear.mean() > 0.6
    mine = Neighbours(5).score(ctx, task, NETWORK, variables())
    hits = (five.predict(dev) == task.dev.labels)[clear].sum()
    assert hits <= mine * len(dev) + 1e-6 <= hits + (~clear).sum()


def test_neighbours_are_found_by_tiles_with_one_program():
    random = np.random.RandomState(0)
    before, _ = counted.count_compilations()
    for n, m in ((5, 3), (1024, 1024), (2500, 40), (3000, 1)):
        # many equal distances
        known, asked = (random.randint(3, size=(count, 7)).astype(np.float32) for count in (n, m))
        distances = ((known[None] - asked[:, None]) ** 2).sum(-1)
        expected = np.argsort(distances, axis=1, kind="stable")[:, :5]
        np.testing.assert_array_equal(relatedness._nearest(known, asked, 5), expected)
    assert counted.count_compilations()[0] - before <= 1


def test_the_score_does_not_depend_on_the_order_of_the_file():
    """In the file's order a batch of sorted images has one class, whose features BatchNorm centres:
    the classes would be close together.
    """
    dataset = toy.blobs("a", classes=4, n=1024)
    part = dataset.parts["all"]
    halves = [rows[np.argsort(part.labels[rows])] for rows in np.split(np.arange(1024), [768])]

    def score(order):
        """Of a copy whose splits are in an order."""
        rows = [half[order(len(half))] for half in halves]
        train, dev = (LabelledImages(part.images.take(r), part.labels[r]) for r in rows)
        task = TaskView("a", 2000, dataset.kind, "shape", 4, train, dev)
        return Neighbours(5).score(context(), task, NETWORK, variables())

    in_order = score(np.arange)
    shuffled = [score(np.random.RandomState(seed).permutation) for seed in (1, 2, 3)]
    assert in_order == pytest.approx(np.mean(shuffled), abs=0.06)
    assert max(shuffled) - min(shuffled) < 0.12


def test_relatedness_costs_one_forward_pass_an_image():
    task, ctx = view(toy.blobs("a", n=60)), context()
    Neighbours(5).score(ctx, task, NETWORK, variables())
    images = jax.ShapeDtypeStruct((EVALUATION_BATCH, 8, 8, 3), np.uint8)
    values = {
        "params": {"backbone": variables()["params"]["backbone"]},
        "batch_stats": variables()["batch_stats"],
    }
    first = make_counted(make_features_program(NETWORK)).flops(values, images)
    (total,) = ctx.meter.counts()["select"].values()
    width = embed(context(), NETWORK, variables(), task.dev.images).shape[1]
    assert total == 2 * first + 40 * 20 * (2 * width + 2)  # both splits fit into a batch


@pytest.mark.parametrize(
    ("margin", "scores", "chosen"),
    [
        (0.0, [0.8, 0.65, 0.3], "old"),
        (1.0, [0.8, 0.65, 0.3], "old"),
        (2.0, [0.8, 0.65, 0.3], "new"),
        (0.0, [1.0, 0.9, 0.9], "old"),
        (1.0, [1.0, 0.9, 0.9], "old"),
        (2.0, [1.0, 0.9, 0.85], "new"),
    ],
)
def test_of_scores_that_differ_by_less_than_their_noise_the_latest_task_is_taken(
    monkeypatch, margin, scores, chosen
):
    """With 20 dev images shares of 0.8 and 1 have standard errors of 0.088 and 0.056: 0.65 and
    0.9 are 1.7 and 1.8 below.
    """
    result = iter(scores)
    monkeypatch.setattr(Neighbours, "score", lambda *_: next(result))
    past = {name: lambda: {"variables": variables()} for name in ("old", "new", "far")}
    ctx = Context(path=("test",), phase="select", past=past)
    start = FromRelated(margin=margin).choose(view(toy.blobs("a", n=60)), ctx, NETWORK)
    assert start.source == chosen and list(start.scores.values()) == scores


def test_caps_limit_what_is_embedded_and_multi_label_tasks_have_a_score():
    task, ctx = view(toy.striped("a", n=60)), context()
    assert 0 < Neighbours(5, train_cap=10, dev_cap=5).score(ctx, task, NETWORK, variables()) <= 1


@pytest.fixture(scope="module")
def dynamic(tmp_path_factory):
    path = tmp_path_factory.mktemp("dynamic")
    return run(learner(FromRelated()), stream(), path), path


def test_every_task_starts_from_the_most_related_one(dynamic):
    ledger, _ = dynamic
    records = ledger.of_kind(TrainRecord)
    assert (
        records[0].trials[0].info["initialised_from"] == "random"
        and "select" not in records[0].flops
    )
    for number, record in enumerate(records[1:], start=1):
        for trial in record.trials:
            scores = trial.info["related"]
            past = [r.task_id for r in records[:number]]
            assert sorted(scores) == sorted(past)
            best = max(scores.values())
            assert (
                trial.info["initialised_from"]
                == [name for name in past if scores[name] == best][-1]
            )
        assert (
            record.flops["select"]["-"]
            > records[number - 1].flops.get("select", {"-": 0})["-"] * 0.9
        )


def test_static_relatedness_uses_predictors_trained_alone_and_pays_for_them(tmp_path, dynamic):
    ledger = run(learner(FromRelated(space="static")), stream(), tmp_path)
    records = ledger.of_kind(TrainRecord)
    alone = Checkpoint(tmp_path / "checkpoints/0000-one").load(f"predictor-{records[0].chosen:03d}")
    assert jax.tree.all(
        jax.tree.map(lambda a, b: np.array_equal(a, b), alone["independent"], alone["variables"])
    )
    later = Checkpoint(tmp_path / "checkpoints/0002-two").load(f"predictor-{records[1].chosen:03d}")
    kernel = jax.tree.leaves(later["independent"]["params"]["backbone"])[0]
    assert not np.array_equal(kernel, jax.tree.leaves(later["variables"]["params"]["backbone"])[0])
    paid = sum(records[1].flops["select"].values())
    assert paid > sum(dynamic[0].of_kind(TrainRecord)[1].flops["select"].values())
    assert len(records[1].trials) == 2  # the model trained alone is no trial of the search


@pytest.mark.parametrize(
    ("start", "which"),
    [
        pytest.param(start, which, marks=[pytest.mark.slow] if number % 8 else [])
        for number, (start, which) in enumerate(
            itertools.product(
                (FromRandom(), FromPrevious(), FromRelated()), ("related", "all", "random")
            )
        )
    ],
)
def test_axes_combine_freely(tmp_path, start, which):
    ledger = run(learner(start, trials=1, data=AuxiliaryTasks(which, 2)), stream(), tmp_path)
    helpers = [record.trials[0].info.get("helpers", []) for record in ledger.of_kind(TrainRecord)]
    # random ones are drawn at each update
    assert [len(names) for names in helpers] == [0, 1, 2, 2 if which == "related" else 3]
    assert ledger.complete and "one_2" not in helpers[1]


def test_a_random_auxiliary_task_is_drawn_at_each_update(monkeypatch):
    """Whatever the step, over all trained ones; only its head changes; a pause changes nothing."""
    tasks = [view(toy.blobs(name, n=60)) for name in ("a", "b", "c", "d")]
    recipe = Recipe(NETWORK, steps=12, validate_every=4)
    hyper = {"learning_rate": 0.1, "label_smoothing": 0.0, "auxiliary_weight": 1.0}
    drawn, plain = [], fit_module.Feed.__call__

    def noting(feed, step):
        number = next(n for n, task in enumerate(tasks) if task is feed._task)
        if number:
            drawn.append((step, number - 1))
        return plain(feed, step)

    monkeypatch.setattr(fit_module.Feed, "__call__", noting)

    def started():
        heads = {str(n): variables(n + 5)["params"]["head"] for n in range(3)}
        first = variables()
        return {**first, "params": {**first["params"], "helpers": heads}}

    def trained(**more):
        return fit_module.fit(
            Context.standalone(phase="train"), tasks[0], more.pop("variables", started()), hyper,
            recipe, tasks[1:], drawn=1, **more,
        )  # fmt: skip

    whole = trained()
    assert [step for step, _ in drawn] == list(range(12))
    assert {number for _, number in drawn} == {0, 1, 2}
    first, drawn[:] = list(drawn), []
    half = trained(until=4)
    used = {number for step, number in drawn if step}  # the rate of step 0 is 0
    heads = half["position"]["state"]["params"]["helpers"]
    for number in range(3):
        fresh = variables(number + 5)["params"]["head"]
        same = jax.tree.all(jax.tree.map(np.array_equal, heads[str(number)], fresh))
        assert same == (number not in used)
    rest = trained(variables=None, position=half["position"])
    assert drawn == first
    assert jax.tree.all(jax.tree.map(np.array_equal, rest["variables"], whole["variables"]))


def test_auxiliary_batches_change_the_parameters_but_not_the_running_statistics():
    task, key, random = view(toy.blobs("a", n=60)), jax.random.key(0), np.random.RandomState(0)
    plain, helped = (
        model.step_program(NETWORK, 64, Augmentation(), 0.9, 1e-4, heads) for heads in ((), (64,))
    )
    own = (
        random.randint(0, 255, (16, 10, 10, 3), dtype=np.uint8), np.full((16, 2), 10, np.int32),
        model.encode_targets(task.train.labels[:16], task.kind, 3), key, np.int32(0), np.float32(0.1), np.float32(0),  # noqa: E501
        TaskShape.of(task.kind, 3),
    )  # fmt: skip
    other = (
        random.randint(0, 255, (AUXILIARY_BATCH, 10, 10, 3), dtype=np.uint8), np.full((AUXILIARY_BATCH, 2), 10, np.int32),  # noqa: E501
        model.encode_targets(random.randint(3, size=AUXILIARY_BATCH), task.kind, 3), TaskShape.of(task.kind, 3),  # noqa: E501
    )  # fmt: skip
    first = variables()
    alone = jax.jit(plain)(begin(first), *own)
    with_head = {
        **first,
        "params": {**first["params"], "helpers": {"0": variables(5)["params"]["head"]}},
    }
    ended = {
        w: jax.jit(helped)(begin(with_head), *own, (other,), np.float32(w)) for w in (0.0, 1.0)
    }
    assert jax.tree.all(
        jax.tree.map(np.array_equal, ended[0.0]["batch_stats"], ended[1.0]["batch_stats"])
    )
    bodies = [result["params"]["backbone"] for result in (alone, ended[0.0], ended[1.0])]
    assert jax.tree.all(jax.tree.map(lambda a, b: np.allclose(a, b, atol=1e-5), *bodies[:2]))
    same = jax.tree.map(np.array_equal, *bodies[1:])
    assert not jax.tree.all(same)
    # of the task itself
    assert float(ended[1.0]["loss_sum"]) == pytest.approx(float(ended[0.0]["loss_sum"]), rel=1e-5)


def test_an_ensemble_is_the_weighted_mean_of_the_best_trials(tmp_path):
    ensemble = learner(FromRandom(), trials=4, ensemble=3)
    ledger = run(ensemble, stream(), tmp_path)
    record, predicted = ledger.of_kind(TrainRecord)[0], ledger.of_kind(PredictRecord)[0]
    tree = Checkpoint(tmp_path / "checkpoints/0000-one").load(f"predictor-{record.chosen:03d}")
    errors = sorted(trial.info["dev_error"] for trial in record.trials)[:3]
    weights = np.exp(-np.asarray(errors) / 0.1)
    assert tree["weights"] == pytest.approx(weights / weights.sum()) and len(tree["members"]) == 2
    images = stream().splits(stream().tasks[0])["test"].images
    members = [{name: tree[name] for name in ("variables", "network")}, *tree["members"]]
    answers = [
        ensemble.predict({**member, "kind": tree["kind"], "classes": 3}, images, context())
        for member in members
    ]
    expected = sum(w * a for w, a in zip(tree["weights"], answers, strict=True))
    assert np.allclose(ensemble.predict(tree, images, context()), expected, atol=1e-6)
    first = run(learner(FromRandom(), trials=4), stream(), tmp_path / "single").of_kind(
        PredictRecord
    )[0]
    cost = {
        name: sum(p.flops["predict"].values()) for name, p in (("one", first), ("three", predicted))
    }
    assert cost["three"] == 3 * cost["one"]


def test_a_killed_related_run_goes_on_to_the_same_ledger(tmp_path, dynamic):
    """Selection, a separate trial and auxiliary heads are continued like everything else."""
    chosen = learner(FromRelated(space="static"), data=AuxiliaryTasks("related"))
    reference = run(chosen, stream(), tmp_path / "whole")

    class Stop(Exception):
        pass

    class Stopping:
        def __init__(self, after):
            self.left = after

        def event(self, *_):
            pass

        def result(self, *_):
            pass

        def trial(self, *_):
            self.left -= 1
            if not self.left:
                raise Stop

        def step(self, *_):
            self.trial()

    for after in (4, 11):
        path = tmp_path / str(after)
        with pytest.raises(Stop):
            run(chosen, stream(), path, progress=Stopping(after), checkpoint_seconds=0)
        assert run(chosen, stream(), path, checkpoint_seconds=0).records == reference.records


@pytest.mark.parametrize(
    "configured",
    [
        learner(FromRelated()),
        learner(FromRelated(space="static"), ensemble=2),
        learner(FromRandom(), data=AuxiliaryTasks("related", 2)),
        pytest.param(
            learner(FromRelated(), data=AuxiliaryTasks("all"), trials=1),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            learner(FromPrevious(), data=AuxiliaryTasks("random")), marks=pytest.mark.slow
        ),
    ],
    ids=["related", "static, two answer", "two related helpers", "all helpers", "random helper"],
)
def test_what_a_task_will_cost_is_known_from_sizes(tmp_path, configured):
    ledger = run(configured, toy.stream(), tmp_path)
    answers = {record.task_id: record for record in ledger.of_kind(PredictRecord)}
    for earlier, record in enumerate(ledger.of_kind(TrainRecord)):
        answer = answers[record.task_id]
        estimate = configured.estimate(
            record.num_classes, record.n_train, record.n_dev, answer.n, earlier
        )["flops"]
        spent = record.flops | answer.flops
        for phase, flops in estimate.items():
            # initial parameters are not in the plan
            drawn = 0.02 * estimate["train"] if phase in ("train", "select") else 0
            assert 0 <= sum(spent.get(phase, {}).values()) - flops <= drawn, (
                phase,
                record.task_id,
            )
