"""The learner `closed_form`: its features, its algebra, its costs and its choices."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from nevis_stream import learners
from nevis_stream.configs import run_config
from nevis_stream.cost.flops import count
from nevis_stream.cost.meter import total
from nevis_stream.datasets.images import ArrayImages
from nevis_stream.errors import BadInput
from nevis_stream.learner import Context
from nevis_stream.learners.closed_form import learner as closed_form
from nevis_stream.learners.closed_form import maps, patches, ridge
from nevis_stream.learners.closed_form.config import ClosedFormConfig
from nevis_stream.learners.closed_form.embedding import (
    Embedding,
    FeaturePlan,
    ImageSelection,
    make_projection_program,
)
from nevis_stream.learners.closed_form.learner import (
    ChosenKernel,
    ClosedForm,
    LeaveOneOutPredictions,
    TrainingImages,
    _judge,
    _temperature,
)
from nevis_stream.learners.closed_form.ridge import compute_kernel
from nevis_stream.storage.checkpoint import to_host
from nevis_stream.streams.task import LabelledImages, TaskView

VALUES = (0.8, 1.0, 0.05)  # width, mirrored, regularisation

# One program each, as in the learner: of every operation alone JAX would compile a program.
solve, predict_left_out, predict_scores = (
    jax.jit(each) for each in (ridge.solve, ridge.predict_left_out, ridge.predict_scores)
)
encode = jax.jit(patches.encode, static_argnames=("stride", "contrast"))
orient = jax.jit(maps.compute_oriented_gradients, static_argnums=1)


def embedded(n, seed=0, width=6):
    draw = np.random.RandomState(seed).standard_normal
    return {name: (draw((n, width)) / 4).astype(np.float32) for name in ("even", "odd")}


def histograms(images, cell):
    return np.asarray(orient(images, (cell,))[cell])


def ramp(degrees, side=32):
    """An image whose brightness rises in one direction."""
    y, x = np.mgrid[:side, :side] / side
    angle = np.deg2rad(degrees)
    values = 0.3 * (np.cos(angle) * x + np.sin(angle) * y) + 0.3
    return np.repeat(values[None, ..., None], 3, axis=3).astype(np.float32)


def noise(n, side, seed=0):
    return np.random.RandomState(seed).uniform(size=(n, side, side, 3)).astype(np.float32)


@pytest.mark.parametrize(
    ("degrees", "shares"),
    [(0, {0: 1}), (40, {2: 1}), (30, {1: 0.5, 2: 0.5}), (170, {8: 0.5, 0: 0.5}), (220, {2: 1})],
)
def test_a_ramp_is_in_the_bins_of_its_direction(degrees, shares):
    inner = histograms(ramp(degrees), 4)[0, 2:-2, 2:-2]
    expected = np.zeros(maps.BINS)
    for number, share in shares.items():
        expected[number] = share
    actual = inner / inner.sum(-1, keepdims=True)
    assert np.allclose(actual, expected, atol=1e-3)


def test_the_steepest_colour_counts():
    image = ramp(0) * 0.1
    image[..., 1] = ramp(80)[..., 1]
    inner = histograms(image, 4)[0, 2:-2, 2:-2]
    assert (inner.argmax(-1) == 4).all()


def test_a_gradient_between_two_cells_belongs_to_both():
    edge = np.zeros((1, 32, 32, 3), np.float32)
    edge[:, :, 16:] = 1.0
    columns = jax.jit(lambda edge: maps._windows(maps._half_cell_sums(edge, (4,))[4], 4))(edge)
    columns = np.asarray(columns)[0, 4, :, 0]
    assert np.allclose(columns[3:5], columns[3]) and columns[3] > 0
    assert np.allclose(np.delete(columns, [3, 4]), 0)


def gradients_of(images):
    return maps.compute_oriented_gradients(images, (4,))[4]


def reduced_pixels(images):
    return maps.shrink(images, 8)


@functools.cache
def dictionary():
    program = jax.jit(patches.make_dictionary_program(10, 40, contrast=True))
    return program(noise(50, 6, 1), np.arange(3))


@pytest.mark.parametrize(
    ("side", "cells"),
    [
        (32, (4,)),
        (64, (4, 8)),
        *(pytest.param(48, cells, marks=pytest.mark.slow) for cells in ((6,), (4, 6))),
    ],
)
def test_the_faster_histograms_are_the_canonical_ones_and_cost_as_much(side, cells):
    images = noise(5, side)
    images[0] = 0.5  # no gradient
    images[1, :, : side // 2] = 0.2  # an edge

    @jax.jit
    def both(images):
        shares = maps._by_orientation(*maps._steepest(images))
        faster = maps._half_cell_sums(images, cells)
        plain = {cell: maps._add(shares, cell // 2) for cell in cells}
        return [
            {cell: maps._windows(sums[cell], cell) for cell in cells} for sums in (plain, faster)
        ]

    canonical, faster = both(images)
    for cell in cells:
        apart = np.abs(canonical[cell] - faster[cell]).max()
        assert apart < 1e-6 < canonical[cell].max()
    ctx = Context.standalone()
    ctx.jit(functools.partial(maps.compute_oriented_gradients, cells=cells))(images)

    def plain(x):
        shares = maps._by_orientation(*maps._steepest(x))
        sums = {cell: maps._add(shares, cell // 2) for cell in cells}
        if cells == (4, 8):  # sums of the smaller ones' sums
            sums[8] = maps._add(sums[4], 2)
        return [maps._normalise(maps._windows(sums[cell], cell)) for cell in cells]

    assert total(ctx.meter.counts()) == count(plain, images)


def test_the_place_of_a_gradient_is_its_angle():
    x, y = np.meshgrid(*(np.float32([0, 1e-20, 0.3, 1, -1e-20, -0.3, -1]),) * 2)
    expected = np.arctan2(y, x) * maps.BINS / np.pi
    apart = (np.asarray(maps._place(x, y)) - expected) % maps.BINS
    assert np.minimum(apart, maps.BINS - apart).max() < 2e-6


def of_patches(images):
    return patches.encode(images, **dictionary(), stride=2, contrast=True)


@pytest.mark.parametrize(
    ("feature_map", "mirrored"),
    [
        (gradients_of, maps.MIRRORED_BINS),
        (reduced_pixels, None),
        (of_patches, patches.match_mirrored_words(10)),
    ],
)
def test_a_mirrored_image_has_the_same_even_and_the_opposite_odd_part(feature_map, mirrored):
    images = noise(3, 32)

    @jax.jit
    def read(images):
        features = feature_map(images)
        return *maps.split_by_symmetry(features, mirrored), features

    even, odd, features = read(images)
    other_even, other_odd, _ = read(images[:, :, ::-1])
    assert np.allclose(even, other_even, atol=1e-4) and np.allclose(odd, -other_odd, atol=1e-4)
    assert np.abs(odd).max() > 0.01
    whole = np.asarray(features).reshape(3, -1)
    between = ((whole[0] - whole[1]) ** 2).sum()
    apart = ((even[0] - even[1]) ** 2).sum() + ((odd[0] - odd[1]) ** 2).sum()
    assert np.allclose(between, apart, rtol=1e-4)


@pytest.mark.parametrize("contrast", [False, True])
def test_words_are_activated_by_the_patches_near_them(contrast):
    drawn = noise(4000, 4, 3)
    drawn[:, :, 1:] = (drawn[:, :, 1:] + 3 * drawn[:, :, :-1]) / 4  # neighbours are alike
    fit = jax.jit(patches.make_dictionary_program(16, 12, contrast))(drawn, np.arange(3))
    image = noise(1, 16, 5)
    encoded = encode(image, **fit, stride=4, contrast=contrast)

    def components(cut):
        flat = cut.reshape(len(cut), -1)
        if contrast:
            flat = flat - flat.mean(1, keepdims=True)
            flat = flat / np.sqrt((flat**2).mean(1, keepdims=True) + 1e-3)
        return flat @ np.asarray(fit["filters"]).reshape(-1, 12) - np.asarray(fit["offsets"])

    both = components(np.concatenate([drawn, drawn[:, :, ::-1]]))
    covariance = np.cov(both.T)
    assert np.abs(both.mean(0)).max() < 0.01
    assert np.abs(covariance - np.diag(np.diag(covariance))).max() < 0.01
    assert np.diag(covariance).min() > 0.7
    words = np.asarray(fit["words"])
    distances = np.linalg.norm(components(image[:, :4, :4])[0] - words, axis=1)
    features = np.sqrt(np.maximum(0.85 * distances.mean() - distances, 0))
    assert encoded.shape == (1, patches.GRID, patches.GRID, 16)  # four places in each direction
    assert np.allclose(encoded[0, 0, 0], features / np.linalg.norm(features), atol=5e-3)


def test_words_are_the_means_of_clusters_and_of_their_mirror_images():
    kinds = noise(3, 4, 1)
    drawn = kinds[np.arange(300) % 3] + 0.02 * noise(300, 4, 2)
    drawn[150:] = drawn[150:, :, ::-1]
    fit = jax.jit(patches.make_dictionary_program(6, 48, False))(drawn, np.arange(3))
    filters, words = np.asarray(fit["filters"]).reshape(-1, 48), np.asarray(fit["words"])

    def distances(cut):
        found = cut.reshape(len(cut), -1) @ filters - np.asarray(fit["offsets"])
        return np.linalg.norm(found[:, None] - words, axis=2)

    plain, mirrored = distances(drawn), distances(drawn[:, :, ::-1])
    assert plain.min(1).max() < 0.3 * np.median(plain)
    assert np.allclose(plain, mirrored[:, patches.match_mirrored_words(6)], atol=0.01)


@pytest.mark.parametrize("contrast", [False, True])
def test_equal_patches_give_finite_features(contrast):
    flat = np.full((40, 6, 6, 3), 0.5, np.float32)
    fit = jax.jit(patches.make_dictionary_program(8, 12, contrast))(flat, np.arange(3))
    encoded = encode(noise(2, 32), **fit, stride=3, contrast=contrast)
    grey = np.full((2, 32, 32, 3), 0.5, np.float32)
    again = np.asarray(encode(grey, **fit, stride=3, contrast=contrast))
    assert np.isfinite(encoded).all() and (again == 0).all()


@pytest.mark.parametrize(
    ("gradients", "expected"),
    [
        pytest.param((16,), ["colour"], marks=pytest.mark.slow),
        ((32, 64), ["colour", "gradients_4"]),
        pytest.param(
            (32, 64, 128), ["colour", "gradients_4", "gradients_8"], marks=pytest.mark.slow
        ),
    ],
)
def test_larger_images_have_more_dictionaries(gradients, expected):
    ctx = Context.standalone()
    plan = FeaturePlan(gradients, pixels=8, patches=6)
    images = noise(70, gradients[-1], 4) * 255
    selection = ImageSelection.all_of(ArrayImages(images.astype(np.uint8)))
    embedding, embedded = Embedding.fit(ctx, plan, selection, components=10)
    assert list(embedding.tree["dictionaries"]) == expected
    again = embedding(ctx, selection)
    assert all(np.allclose(again[half], embedded[half], atol=1e-3) for half in embedded)
    assert len(plan.weights) == len(gradients) + 1 + len(expected)


def test_the_components_of_each_half_are_as_many_as_there_are_images():
    ctx, plan = Context.standalone(), FeaturePlan((32,), pixels=8, patches=0)
    images = ImageSelection.all_of(ArrayImages((noise(20, 32, 4) * 255).astype(np.uint8)))
    _, embedded = Embedding.fit(ctx, plan, images, components=100)
    assert embedded["even"].shape == embedded["odd"].shape == (20, 20)


@pytest.mark.parametrize("mirrored", [0.0, 1.0])
def test_the_kernel_is_that_of_the_images_and_their_mirror_images(mirrored):
    left, right = embedded(4), embedded(5, seed=1)
    plain = np.concatenate([left["even"], left["odd"]], 1)
    expected = 0
    for sign, weight in ((1, 1 - mirrored / 2), (-1, mirrored / 2)):
        other = np.concatenate([right["even"], sign * right["odd"]], 1)
        squares = ((plain[:, None] - other[None]) ** 2).sum(-1)
        expected = expected + weight * np.exp(-squares / 0.8)
    assert np.allclose(jax.jit(compute_kernel)(left, right, 0.8, mirrored), expected, atol=1e-5)


def test_answers_to_those_left_out_are_those_of_fits_without_them():
    n = 20
    points, targets = embedded(n), np.random.RandomState(2).standard_normal((n, 3))
    factor, coefficients = solve(points, targets, *VALUES)
    quick = predict_left_out(factor, coefficients, targets, np.arange(n)[::2])
    for row, i in enumerate(range(0, n, 2)):
        rest = np.arange(n) != i
        others = {name: half[rest] for name, half in points.items()}
        _, fitted = solve(others, targets[rest], *VALUES)
        alone = {name: half[i : i + 1] for name, half in points.items()}
        slow = predict_scores(alone, others, fitted, 0.0, *VALUES[:2])
        assert np.allclose(quick[row], slow[0], atol=2e-4)


def nystrom(points, targets, centres, iterations=12):
    blocks = {name: ridge.split_into_blocks(half) for name, half in points.items()}
    weights = ridge.split_into_blocks(np.ones(len(targets), np.float32))
    subset = {name: half[:centres] for name, half in points.items()}
    fit = jax.jit(functools.partial(ridge.fit_nystrom, iterations=iterations))
    targets = ridge.split_into_blocks(targets)
    return subset, fit(subset, blocks, targets, weights, ridge.JITTERS[0], *VALUES)


def test_nystrom_with_all_images_as_centres_is_the_exact_fit(monkeypatch):
    monkeypatch.setattr(ridge, "BLOCK", 32)  # 150 images: five blocks
    points = embedded(150)
    targets = np.random.RandomState(2).standard_normal((150, 3)).astype(np.float32)
    _, exact = solve(points, targets, *VALUES)
    centres, fitted = nystrom(points, targets, 150)
    asked = embedded(40, seed=5)
    expected = predict_scores(asked, points, exact, 0.0, *VALUES[:2])
    result = predict_scores(asked, centres, fitted, 0.0, *VALUES[:2])
    assert np.abs(expected - result).max() < 0.01 * np.abs(expected).max()


def test_nystrom_with_few_centres_solves_its_equations():
    points = embedded(300)
    targets = np.random.RandomState(2).standard_normal((300, 2)).astype(np.float32)
    centres, fitted = nystrom(points, targets, 40, iterations=25)
    wide = np.asarray(compute_kernel(points, centres, *VALUES[:2]), np.float64)
    square = np.asarray(compute_kernel(centres, centres, *VALUES[:2]), np.float64)
    expected = np.linalg.solve(wide.T @ wide + VALUES[2] * square, wide.T @ targets)
    assert np.abs(wide @ expected - wide @ fitted).max() < 0.01 * np.abs(wide @ expected).max()


def test_flops_of_a_fit_are_those_of_its_algebra():
    n, k, c, j = 512, 64, 5, 100
    shapes = {name: jax.ShapeDtypeStruct((n, k), np.float32) for name in ("even", "odd")}
    targets = jax.ShapeDtypeStruct((n, c), np.float32)
    products, cholesky, solved = 2 * 2 * n**2 * k, n**3 / 3, 2 * n**2 * c
    counted = count(ridge.solve, shapes, targets, *VALUES)
    assert 0 < counted - (products + cholesky + solved) < 30 * n**2  # element by element
    factor = jax.ShapeDtypeStruct((n, n), np.float32)
    judged = jax.ShapeDtypeStruct((j,), np.int32)
    left_out = count(ridge.predict_left_out, factor, targets, targets, judged)
    assert 0 < left_out - n**2 * j < 5 * n * j


def test_flops_of_nystrom_grow_with_the_images_not_with_their_square():
    def flops(n, iterations):
        fit = functools.partial(ridge.fit_nystrom, iterations=iterations)
        half = jax.ShapeDtypeStruct((n // 100, 100, 8), np.float32)
        centre = jax.ShapeDtypeStruct((50, 8), np.float32)
        rest = (jax.ShapeDtypeStruct((n // 100, 100, *s), np.float32) for s in ((3,), ()))
        pair, few = ({"even": h, "odd": h} for h in (half, centre))
        return count(fit, few, pair, *rest, ridge.JITTERS[0], *VALUES)

    assert flops(4000, 1) - flops(2000, 1) == flops(3000, 1) - flops(1000, 1)
    products = 4 * 1000 * 50 * 3  # a block times the coefficients, and back
    extra = (flops(3000, 6) - flops(3000, 5)) - (flops(2000, 6) - flops(2000, 5))
    assert products <= extra < 1.05 * products


def test_an_embedding_keeps_distances_and_does_not_depend_on_batches():
    images = ArrayImages((noise(300, 32) * 255).astype(np.uint8))
    ctx = Context.standalone()
    plan = FeaturePlan((32,), 8, 0)
    embedding, fitted = Embedding.fit(ctx, plan, ImageSelection.all_of(images), 300)
    whole = embedding(ctx, ImageSelection.all_of(images))
    assert whole["even"].shape == (300, 150)
    assert all(np.allclose(whole[name], fitted[name], atol=1e-4) for name in whole)
    joined = np.concatenate([whole["even"], whole["odd"]], 1)
    assert np.isclose(2 * joined.var(0).sum(), 1, rtol=1e-3)
    order = np.random.RandomState(0).permutation(300)[:77]
    part = embedding(ctx, ImageSelection.all_of(images).take(order))
    assert np.allclose(part["even"], whole["even"][order], atol=1e-5)
    joint = ImageSelection.all_of(images.take(np.arange(100)), images.take(np.arange(100, 300)))
    again = embedding(ctx, joint.take(order))
    assert np.allclose(again["odd"], whole["odd"][order], atol=1e-5)


def view(images, labels, classes, kind="single_label"):
    n = len(labels) * 4 // 5
    halves = [
        LabelledImages(ArrayImages(images[rows]), labels[rows])
        for rows in (slice(None, n), slice(n, None))
    ]
    return TaskView("stripes", 2000, kind, "object", classes, *halves)


def stripes(n, seed=0):
    """Stripes that rise or fall; mirrored, each looks like the other."""
    draw = np.random.RandomState(seed)
    labels = draw.randint(2, size=n).astype(np.int32)
    y, x = np.mgrid[:32, :32]
    phase = draw.uniform(0, 6, size=n)[:, None, None]
    waves = np.sin((x + (2 * labels[:, None, None] - 1) * y) / 3 + phase)
    images = 120 + 60 * waves + draw.normal(0, 30, size=(n, 32, 32))
    return np.repeat(images[..., None], 3, axis=3).clip(0, 255).astype(np.uint8), labels


def learner(**values):
    config = run_config.make_default("closed_form")
    config.update(values)
    return run_config.resolve(config).build()


def trained(task, **values):
    ctx = Context.standalone(phase="train")
    _, predictors = learner(**values).train(task, {}, ctx)
    return to_host(predictors[0].tree), predictors[0].info, ctx


def test_it_distinguishes_directions_and_sees_that_mirrored_images_differ():
    images, labels = stripes(120)
    tree, info, _ = trained(view(images, labels, 2))
    assert info["hyper"]["mirrored"] is False
    assert info["dev_error"] < 0.1
    test_images, test_labels = stripes(100, seed=1)
    other = learner(pixels=0, gradients=(16,))  # the predictor knows what its features are
    answers = other.predict(tree, ArrayImages(test_images), Context.standalone())
    assert (answers.argmax(1) != test_labels).mean() < 0.1


def test_patches_are_tried_only_where_the_error_without_them_is_high():
    images, labels = stripes(120)
    _, easy, cheap = trained(view(images, labels, 2), patches=8, patches_above=0.5)
    shuffled = np.random.RandomState(0).permutation(labels)
    _, _, costly = trained(view(images, shuffled, 2), patches=8, patches_above=0.2)
    assert easy["hyper"]["patches"] == 0
    assert total(costly.meter.counts()) > 2 * total(cheap.meter.counts())


@pytest.mark.parametrize("patch_count", [pytest.param(0, marks=pytest.mark.slow), 8])
def test_more_images_than_centres_and_grey_or_empty_images_work(patch_count):
    images, labels = stripes(200)
    images[:20] = 0
    tree, info, _ = trained(
        view(images, labels, 2), centres=50, patches=patch_count, patches_above=0.0
    )
    assert len(tree["coefficients"]) == 50
    answers = learner(patches=patch_count).predict(tree, ArrayImages(images), Context.standalone())
    assert np.isfinite(answers).all()
    assert (answers[20:].argmax(1) != labels[20:]).mean() < 0.1


def test_images_of_one_colour_get_finite_answers_with_patches():
    draw = np.random.RandomState(0)
    colours = np.repeat(draw.randint(256, size=(60, 1, 3)), 32 * 32, axis=1)
    images = colours.reshape(60, 32, 32, 3).astype(np.uint8)
    tree, _, _ = trained(view(images, draw.randint(3, size=60), 3), patches=8, patches_above=0.0)
    answers = learner(patches=8).predict(tree, ArrayImages(images), Context.standalone())
    assert np.isfinite(answers).all()


def test_a_fit_that_fails_is_not_chosen():
    images, labels = stripes(40)
    task = view(images, labels, 2)
    found = TrainingImages(
        ImageSelection.all_of(task.train.images),
        labels,
        np.eye(2, dtype=np.float32)[labels] - 0.5,
        np.full(2, 0.5, np.float32),
        np.zeros(40, bool),
        np.arange(40),
    )
    answers = np.zeros((40, 2), np.float32)
    poor = _judge(task, found, np.arange(40), answers)
    answers[7] = np.nan
    failed = _judge(task, found, np.arange(40), answers)
    assert (failed.error, failed.loss) > (poor.error, poor.loss)
    assert np.isfinite(failed.scores).all()


def test_equal_images_are_answered_with_the_frequencies():
    labels = np.asarray([0, 0, 0, 1, 0] * 8, np.int32)
    tree, _, _ = trained(view(np.full((40, 20, 30), 7, np.uint8), labels, 2))
    scores = learner().predict(
        tree, ArrayImages(np.full((3, 20, 30), 7, np.uint8)), Context.standalone()
    )
    assert (scores.argmax(1) == 0).all() and np.isfinite(scores).all()


def test_the_rounds_of_clustering_bring_words_near_to_patches(monkeypatch):
    plain = np.sort(np.random.RandomState(0).uniform(size=(400, 1))).astype(np.float32)
    distances = []
    for rounds in (patches._ROUNDS, 1):
        monkeypatch.setattr(patches, "_ROUNDS", rounds)
        words = patches._find_clusters(plain, plain + 100, 8)[:8]  # they begin at one end
        distances.append(np.abs(plain - words.T).min(1).mean())
    assert distances[0] < 0.8 * distances[1]


@pytest.mark.slow
def test_thousands_of_equal_images_do_not_spoil_the_others():
    n = 2300
    images, labels = np.zeros((n, 16, 16), np.uint8), np.zeros(n, np.int32)
    others = np.random.RandomState(0).permutation(n)[: n // 20]
    images[others] = np.random.RandomState(1).randint(256, size=(len(others), 16, 16))
    labels[others] = 1
    values = {"pictures": n, "centres": 2200, "components": 8, "sample": 60, "gradients": (16,)}
    tree, _, _ = trained(view(images, labels, 2), **values, pixels=0)
    scores = learner().predict(tree, ArrayImages(images[others[0] :][:400]), Context.standalone())
    assert (scores.argmax(1) == labels[others[0] :][:400]).all()


@pytest.mark.parametrize("centres", [30, 400])
def test_a_fit_that_fails_is_answered_with_the_frequencies(monkeypatch, centres):
    def failed(function):
        return lambda *words, **named: jax.tree.map(
            lambda array: array + np.nan, function(*words, **named)
        )

    monkeypatch.setattr(ridge, "solve", failed(ridge.solve))
    monkeypatch.setattr(ridge, "fit_nystrom", failed(ridge.fit_nystrom))
    images, labels = stripes(120)
    labels = (np.arange(120) % 4 == 0).astype(np.int32)
    monkeypatch.setattr(closed_form, "_nystrom", closed_form._nystrom.__wrapped__)  # no cache
    tree, _, _ = trained(view(images, labels, 2), centres=centres)
    scores = learner().predict(tree, ArrayImages(images[:5]), Context.standalone())
    assert scores == pytest.approx(np.tile([0.75, 0.25], (5, 1)), abs=0.05)


def test_the_kernel_matrix_has_a_largest_size(monkeypatch):
    images, labels = stripes(200)
    monkeypatch.setattr(closed_form, "_MOST_CELLS", 200 * 30)
    tree, _, _ = trained(view(images, labels, 2), centres=100)
    assert len(tree["coefficients"]) == 30


def test_large_gradients_are_used_only_where_images_are_large():
    sides = []
    for side in (64, 96):
        images, labels = stripes(40)
        enlarged = images.repeat(side // 32, axis=1).repeat(side // 32, axis=2)
        tree, _, _ = trained(view(enlarged, labels, 2), gradients=(32, 64, 96))
        sides.append(tree["gradients"])
    assert sides == [[32, 64], [32, 64, 96]]


def test_the_sample_that_calibrates_an_exact_fit_has_all_of_dev():
    images, labels = stripes(100)
    task = view(images, labels, 2)
    other = LabelledImages(task.dev.images, 1 - task.dev.labels)
    few, ctx = learner(sample=30), Context.standalone(phase="train")
    tree, examples, left_out = few._learn(dataclasses.replace(task, dev=other), ctx)
    from_dev = examples.from_dev[left_out.positions]
    assert (from_dev.sum(), (~from_dev).sum()) == (20, 10)
    wrong = left_out.scores.argmax(1) != examples.labels[left_out.positions]
    assert tree["facts"]["dev_error"] == pytest.approx(wrong[from_dev].mean())
    assert wrong[from_dev].mean() > wrong.mean()


def test_the_lowest_error_decides_and_then_the_lowest_loss(monkeypatch):
    def chosen_patches(*judged):
        results = iter(judged)

        def best(self, task, examples, plan, ctx):
            left_out = LeaveOneOutPredictions(np.arange(1), np.zeros((1, 2)), *next(results))
            return ChosenKernel(Embedding(plan, {}), {}, (1.0, 0.0, 0.01), left_out)

        monkeypatch.setattr(ClosedForm, "_best", best)
        images, labels = stripes(20)
        few = learner(patches=8, patches_above=0.1)
        choice = few._choose(view(images, labels, 2), None, Context.standalone())
        return choice.embedding.plan.patches

    assert chosen_patches((0.3, 1.0), (0.2, 2.0)) == 8
    assert chosen_patches((0.3, 1.0), (0.4, 0.5)) == 0
    assert chosen_patches((0.3, 1.0), (0.3, 0.5)) == 8
    assert chosen_patches((0.3, 1.0), (0.3, 2.0)) == 0
    assert chosen_patches((0.1, 1.0)) == 0  # not tried


def test_each_kind_of_features_has_its_share_of_the_distances():
    draw = np.random.RandomState(0).standard_normal
    parts = [(scale * draw((50, 5)), scale * draw((50, 5))) for scale in (1.0, 7.0)]
    projection, _ = jax.jit(make_projection_program(10, (1.0, 3.0)))(parts)
    shares = []
    for number in (0, 1):  # only one kind differs from image to image
        alone = [
            [half if kind == number else 0 * half for half in pair]
            for kind, pair in enumerate(parts)
        ]
        halves = [
            np.concatenate([pair[half] for pair in alone], 1) @ projection[name]
            for half, name in enumerate(("even", "odd"))
        ]
        shares.append(sum(2 * half.var(0).sum() for half in halves))
    assert shares == pytest.approx([0.25, 0.75], rel=1e-3)
    assert FeaturePlan((32,), pixels=8, patches=6).weights == (1.0, 0.3, 3.0)
    assert set(FeaturePlan((32,), pixels=8, patches=0).weights) == {1.0}


def test_the_temperature_is_the_likeliest():
    draw = np.random.RandomState(0)
    scores = draw.standard_normal((4000, 3)).astype(np.float32)
    for true in (0.1, 0.5):
        chances = np.exp(scores / true)
        chances /= chances.sum(1, keepdims=True)
        labels = (draw.uniform(size=(4000, 1)) > chances.cumsum(1)).sum(1).clip(0, 2)
        fitted = _temperature(Context.standalone(), labels, scores, "single_label")
        assert true / 1.5 < fitted < true * 1.5


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"gradients": (40,)}, "increasing multiples of 16"),
        ({"gradients": (64, 32)}, "increasing multiples of 16"),
        ({"widths": ()}, "config.widths is empty"),
        ({"pixels": 5}, "must be even and a divisor of 32"),
        ({"patches": 3}, "config.patches is 3"),
        ({"components": 0}, "between 2 and"),
        ({"components": 5}, "config.components is 5"),
        ({"widths": (1.0, 1.0)}, "config.widths is .*; give each value once"),
        ({"mirrored": (True, True)}, "config.mirrored is .*; give each value once"),
    ],
)
def test_values_that_make_no_sense_are_refused(values, message):
    with pytest.raises(BadInput, match=message):
        learner(**values)


def test_the_budget_fills_only_what_is_open():
    assert learner(components=10).config.components == 10
    open_values = learners.check_values(ClosedFormConfig, {"components": None})
    assert ClosedFormConfig.fill(open_values, ClosedFormConfig.PRESETS["huge"])["components"] > 64
