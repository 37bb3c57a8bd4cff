"""The training core: batches, schedule, augmentation, loss, best step, divergence, resuming,
compilations.
"""

import math
import re

import jax
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from nevis_stream.cost.counted import CountedFunction, make_counted
from nevis_stream.errors import RunWarning
from nevis_stream.learner import Context
from nevis_stream.learners.parts import model
from nevis_stream.learners.parts.augmentation import (
    Augmentation,
    _rows_by_tiles,
    _rows_from_two,
    augment_batch,
    crop_and_resize,
    draw_boxes,
)
from nevis_stream.learners.parts.baseline import Baseline
from nevis_stream.learners.parts.feed import Batches
from nevis_stream.learners.parts.initialisation import FromPrevious, FromRandom
from nevis_stream.learners.parts.model import (
    Network,
    TaskShape,
    choose_head_size,
    compute_loss,
    encode_targets,
)
from nevis_stream.learners.parts.recipe import Recipe, choose_batch_size, make_cosine_rates
from nevis_stream.learners.parts.search import GridSearch, RandomSearch
from nevis_stream.run_directory.records import PredictRecord, TrainRecord
from nevis_stream.runner import run
from nevis_stream.streams.stream import Stream
from tests import toy
from tests.compilations import compiled_programs

NETWORK = Network("mlp", (("hidden", (16,)),), resolution=8)

# One program each, as in training: of every operation alone JAX would compile a program.
crop, boxes_of = (jax.jit(each, static_argnums=2) for each in (crop_and_resize, draw_boxes))
augment = jax.jit(augment_batch, static_argnums=(3, 4))


def baseline(initialisation=None, rate=(0.02, 0.05), steps=20, trials=2, **recipe):
    search = RandomSearch(trials, {"learning_rate": rate, "label_smoothing": (0.0, 0.1)})
    return Baseline(
        initialisation or FromRandom(), search, Recipe(NETWORK, steps, validate_every=5, **recipe)
    )


@pytest.mark.parametrize(
    ("examples", "expected"),
    [
        (1, 16),
        (12_799, 16),
        (12_800, 32),
        (25_600, 64),
        (60_000, 128),
        (204_799, 256),
        (204_800, 512),
        (10**7, 512),
    ],
)
def test_batch_size_is_equation_4(examples, expected):
    assert choose_batch_size(examples) == expected
    assert choose_batch_size(examples, largest=128) == min(expected, 128)


def test_rates_warm_up_and_fall():
    rates = make_cosine_rates(0.1, 100, 0.1)
    assert rates[0] == 0
    assert rates[10] == pytest.approx(0.1)
    assert (np.diff(rates[:11]) > 0).all()
    assert (np.diff(rates[10:]) < 0).all()
    assert rates[99] < 1e-4
    assert make_cosine_rates(0.1, 1, 0.1).shape == (1,)
    assert make_cosine_rates(0.1, 0, 0.1).shape == (0,)


@given(st.integers(1, 40), st.integers(1, 50), st.integers(0, 2**63 - 1))
def test_batches_visit_every_sample_once_an_epoch(examples, size, seed):
    batches = Batches(examples, size, seed)
    steps = 3 * examples // math.gcd(examples, size) if size * examples < 500 else 4
    stream = np.concatenate([batches(step) for step in range(steps)])
    for epoch in range(len(stream) // examples):
        assert sorted(stream[epoch * examples : (epoch + 1) * examples]) == list(range(examples))
    # without what went before
    assert (Batches(examples, size, seed)(steps - 1) == stream[-size:]).all()


def test_search_draws_from_its_ranges_and_keeps_trials_apart():
    search = RandomSearch(200, {"learning_rate": (1e-4, 1e-1), "label_smoothing": (0.0, 0.3)})
    drawn = search.draw(seed=5)
    rates = np.log10([hyper["learning_rate"] for hyper in drawn])
    assert -4 <= rates.min() < -3.9 and -1.1 < rates.max() <= -1
    assert abs(rates.mean() + 2.5) < 0.2  # log-uniform
    assert drawn[:3] == RandomSearch(3, search.space).draw(seed=5)
    assert drawn[0] != search.draw(seed=6)[0]
    grid = GridSearch({"learning_rate": (0.1, 0.2), "label_smoothing": (0.0,)})
    assert grid.trials == 2
    assert grid.draw(1)[1] == {"label_smoothing": 0.0, "learning_rate": 0.2}


@pytest.mark.parametrize("kind", ["single_label", "multi_label"])
def test_loss_is_optax_on_the_tasks_own_classes(kind):
    random = np.random.RandomState(0)
    logits = random.normal(size=(5, 64)).astype(np.float32)
    labels = random.randint(3, size=5) if kind == "single_label" else random.randint(2, size=(5, 3))
    value = compute_loss(logits, encode_targets(labels, kind, 3), 0.2, TaskShape.of(kind, 3))
    if kind == "single_label":
        expected = optax.softmax_cross_entropy(
            logits[:, :3], optax.smooth_labels(np.eye(3)[labels], 0.2)
        ).mean()
    else:
        expected = optax.sigmoid_binary_cross_entropy(logits[:, :3], 0.8 * labels + 0.1).mean()
    assert value == pytest.approx(float(expected), rel=1e-5)


def test_head_sizes():
    assert [choose_head_size(n) for n in (1, 64, 65, 256, 1000, 1025)] == [
        64,
        64,
        256,
        256,
        1024,
        4096,
    ]


def test_boxes_have_the_papers_distribution():
    """Against the same rule written as a loop over one image, on a wide one."""
    options = Augmentation(min_area=0.08)
    sizes = np.tile([[50, 100]], (4000, 1)).astype(np.int32)
    boxes = np.asarray(boxes_of(jax.random.key(0), sizes, options))
    top, left, height, width = boxes.T
    assert (top >= 0).all() and (left >= 0).all()
    assert (top + height <= 1 + 1e-5).all() and (left + width <= 1 + 1e-5).all()
    random = np.random.RandomState(0)
    expected = []
    for _ in range(4000):
        for _ in range(10):
            area, aspect = (
                random.uniform(0.08, 1),
                np.exp(random.uniform(-np.log(4 / 3), np.log(4 / 3))),
            )
            w, h = np.sqrt(area * 5000 * aspect), np.sqrt(area * 5000 / aspect)
            if w <= 100 and h <= 50:
                expected.append((h / 50, w / 100))
                break
        else:
            expected.append((1, 1))
    expected = np.asarray(expected)
    quantiles = np.linspace(0.05, 0.95, 19)
    assert (
        np.abs(np.quantile(height, quantiles) - np.quantile(expected[:, 0], quantiles)).max() < 0.03
    )
    assert (
        np.abs(np.quantile(width, quantiles) - np.quantile(expected[:, 1], quantiles)).max() < 0.03
    )


def test_a_whole_box_of_the_same_size_changes_nothing():
    images = np.random.RandomState(0).uniform(size=(2, 9, 9, 3)).astype(np.float32)
    banded = images.transpose(0, 1, 3, 2)
    whole = np.tile(np.float32([0, 0, 1, 1]), (2, 1))
    assert np.allclose(crop(banded, whole, 9), images, atol=1e-5)
    corner = np.tile(np.float32([0, 0, 1 / 3, 1 / 3]), (2, 1))
    assert np.allclose(crop(banded, corner, 3), images[:, :3, :3], atol=1e-5)
    mirrored = np.tile(np.float32([0, 1, 1, -1]), (2, 1))
    assert np.allclose(crop(banded, mirrored, 9), images[:, :, ::-1], atol=1e-5)


def test_a_crop_equals_another_implementation():
    """A quarter of an image at twice its size, against Pillow's bilinear resize of the cut (away
    from its rim, where the neighbours outside the cut count here)."""
    pixels = np.random.RandomState(0).randint(256, size=(16, 16, 3)).astype(np.uint8)
    expected = np.asarray(
        Image.fromarray(pixels).resize((16, 16), Image.Resampling.BILINEAR, box=(4, 4, 12, 12))
    )
    box = np.float32([[0.25, 0.25, 0.5, 0.5]])
    result = crop(np.float32(pixels.transpose(0, 2, 1)[None]), box, 16)[0]
    assert np.abs(result - expected)[2:-2, 2:-2].max() <= 1


@pytest.mark.parametrize("side, size", [(1, 8), (2, 9), (10, 8), (80, 64), (20, 48), (48, 16)])
def test_rows_from_two_are_those_of_the_products_that_are_counted(side, size):
    random = np.random.RandomState(side)
    images = random.randint(256, size=(6, side, 3, side)).astype(np.uint8)
    boxes = np.array(boxes_of(jax.random.key(0), np.full((6, 2), side, np.int32), Augmentation()))
    # the whole image mirrored; the lowest row alone
    boxes[0], boxes[1] = (0, 1, 1, -1), (1 - 1e-6, 0, 1e-6, 1)
    centres = np.clip(
        (boxes[:, :1] + (np.arange(size) + 0.5) / size * boxes[:, 2:3]) * side - 0.5, 0, side - 1
    )
    flat, centres = images.reshape(6, side, -1), centres.astype(np.float32)
    tiles, two = (
        np.asarray(jax.jit(rows)(flat, centres)) for rows in (_rows_by_tiles, _rows_from_two)
    )
    np.testing.assert_allclose(two, tiles, rtol=1e-5, atol=1e-3)  # of 255

    program = CountedFunction(lambda images, boxes: crop_and_resize(images, boxes, size))
    tile = 8 if size % 8 == 0 else size
    window = min(side, math.ceil((tile - 1) * side / size) + 2)
    products = 2 * 6 * size * (window * 3 * side + 3 * side * size)
    assert products <= program.flops(images, boxes) < 1.6 * products + 6 * 3000
    if jax.default_backend() == "cpu":  # where the other form is faster
        runs = str(program._jitted.trace(images, boxes).jaxpr)
        assert runs.count("dot_general") == 1 and "dynamic_slice" not in runs


def test_flips_mirror_half_of_the_views():
    ramp = np.tile(np.linspace(0, 255, 8).astype(np.uint8)[None, None, None, :], (400, 8, 3, 1))
    sizes = np.full((400, 2), 8, np.int32)
    views = np.asarray(augment(jax.random.key(1), ramp, sizes, 8, Augmentation(crop=False)))
    rising = (views[:, 0, -1, 0] > views[:, 0, 0, 0]).mean()
    assert 0.4 < rising < 0.6
    assert views.min() == -1 and views.max() == pytest.approx(1)


@pytest.fixture(scope="module")
def indep(tmp_path_factory):
    return run(baseline(), toy.stream(), tmp_path_factory.mktemp("indep"))


def test_training_learns_and_returns_the_best_look(indep):
    for record in indep.of_kind(TrainRecord):
        for trial in record.trials:
            curve = trial.info["curve"]
            assert [point[0] for point in curve] == [0, 5, 10, 15, 20]
            errors = [point[2] for point in curve]
            assert trial.info["dev_error"] == min(errors)
            # the last of equals
            assert trial.step == max(p[0] for p in curve if p[2] == min(errors))
        chosen = next(t for t in record.trials if t.trial == record.chosen)
        assert chosen.info["dev_error"] == min(t.info["dev_error"] for t in record.trials)
    errors = [record.error for record in indep.of_kind(PredictRecord)]
    assert max(errors) < 0.6 and min(errors) < 0.2


def test_every_trial_and_look_is_charged(indep):
    estimate = baseline().estimate(3, 34, 7, 12)
    train, predict = indep.of_kind(TrainRecord)[0], indep.of_kind(PredictRecord)[0]
    step = make_counted(baseline().recipe.step(3), donate_argnums=0)
    assert len(step._flops) == 1
    for phase in ("train", "validate"):
        counts = train.flops[phase]
        assert set(counts) == {"0", "1"} and counts["0"] == counts["1"]
        # what the plan leaves out: drawing the initial parameters
        drawn = 2 * counts["0"] - estimate["flops"][phase]
        assert 0 <= drawn < (0.02 if phase == "train" else 1e-9) * estimate["flops"][phase] + 1
    assert predict.flops["predict"] == {str(train.chosen): estimate["flops"]["predict"]}


def test_previous_starts_where_the_last_task_ended(tmp_path):
    ledger = run(baseline(FromPrevious(), steps=0), toy.stream(), tmp_path)
    sources = [t.trials[0].info["initialised_from"] for t in ledger.of_kind(TrainRecord)]
    assert sources == ["random", "alpha", "beta", "gamma"]
    from nevis_stream.storage.checkpoint import Checkpoint

    backbones = [
        Checkpoint(tmp_path / "checkpoints" / name).load(f"predictor-{record.chosen:03d}")[
            "variables"
        ]["params"]
        for name, record in zip(
            ("0000-alpha", "0002-beta"), ledger.of_kind(TrainRecord), strict=False
        )
    ]
    kernel = [np.asarray(b["backbone"]["Dense_0"]["kernel"]) for b in backbones]
    # nothing was trained, so the backbone is handed on as it is
    assert (kernel[0] == kernel[1]).all()
    heads = [np.asarray(b["head"]["Dense_0"]["kernel"]) for b in backbones]
    assert (heads[0] != heads[1]).any()  # the head is new


def test_a_loss_that_is_not_finite_ends_the_trial_and_is_told(tmp_path):
    message = (
        r"task 'alpha', trial 0: the loss was not finite at step \d+ of 20 \(learning rate \S+\),"
        r" so the trial ends"
    )
    with pytest.warns(RunWarning) as warned:
        ledger = run(baseline(rate=(1e18, 1e19)), toy.stream(), tmp_path)
    assert re.match(message, str(warned[0].message))
    assert len(warned) == 8  # four tasks, two trials each
    assert ledger.complete
    for record in ledger.of_kind(TrainRecord):
        for trial in record.trials:
            info = trial.info
            assert 1 <= info["diverged_at"] <= info["steps"] < 20
            assert trial.step < info["diverged_at"] + 5
            assert all(point[2] is not None for point in info["curve"][:1])
        assert set(record.flops["train"]) == {"0", "1"}


@pytest.mark.parametrize(
    ("frozen", "programs"),
    [
        (False, {"step", "probabilities", "initialise"}),
        (True, {"train_head", "answers", "features", "probabilities", "initialise"}),
    ],
    ids=["networks", "heads"],
)
def test_init_compiles_what_the_first_task_runs_and_nothing_else(tmp_path, frozen, programs):
    """A budget in seconds per task includes the first task."""
    # no other test has compiled this one
    network = Network("mlp", (("hidden", (19 + frozen,)),), resolution=8)
    search = RandomSearch(2, {"learning_rate": (0.01, 0.1), "label_smoothing": (0.0, 0.3)})
    learner = Baseline(FromRandom(), search, Recipe(network, 5, 3), frozen=frozen)
    with compiled_programs() as compiled:
        learner.init(Context(path=("test",), phase="pretrain"))
        before = list(compiled)
        run(learner, toy.stream(), tmp_path)
    assert programs <= set(before) and "step" not in set(compiled) - programs, before
    assert all(compiled.count(name) == before.count(name) for name in programs), compiled


@pytest.mark.slow
def test_sixteen_trials_on_each_of_ten_tasks_compile_three_programs_once(tmp_path):
    """With heads of one size, whatever the classes; counted by JAX itself."""
    # no other test has compiled this one
    network = Network("mlp", (("hidden", (21,)),), resolution=8)
    search = RandomSearch(16, {"learning_rate": (0.01, 0.1), "label_smoothing": (0.0, 0.3)})
    datasets = [
        toy.blobs(f"task_{number}", classes=2 + number % 5, seed=number) for number in range(10)
    ]
    stream = Stream.from_datasets("ten", datasets, list(range(2000, 2010)), meta_test=2)
    with compiled_programs() as compiled:
        ledger = run(Baseline(FromRandom(), search, Recipe(network, 2, 1)), stream, tmp_path)
    assert sum(len(record.trials) for record in ledger.of_kind(TrainRecord)) == 160
    for word in ("initialise", "step", "probabilities"):
        assert sum(word in name for name in compiled) == 1, compiled


def test_one_compilation_an_architecture_not_one_a_trial_or_task(tmp_path):
    """Counted by JAX itself: tasks of both kinds, repeats, trials and two learners share their
    programs.
    """
    # no other test has compiled this one
    network = Network("mlp", (("hidden", (17,)),), resolution=8)
    search = RandomSearch(3, {"learning_rate": (0.01, 0.1), "label_smoothing": (0.0, 0.3)})
    learners = [
        Baseline(start, search, Recipe(network, 10, 5)) for start in (FromRandom(), FromPrevious())
    ]
    run(baseline(steps=5), toy.stream(), tmp_path / "warm")  # compiles JAX's own small helpers
    with compiled_programs() as compiled:
        for number, learner in enumerate(learners):
            run(learner, toy.stream(), tmp_path / str(number))
    programs = [model.initialise_program, model.step_program, model.make_prediction_program]
    # two more: a copy of the parameters has new shapes
    assert len(compiled) <= len(programs) + 2, compiled
    assert len(make_counted(learners[0].recipe.step(3), donate_argnums=0)._flops) == 1
    assert len(make_counted(model.make_prediction_program(network, 64))._flops) == 1
