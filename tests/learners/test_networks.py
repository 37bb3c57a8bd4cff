"""Backbones: parameter counts, shapes, normalisation, names and options."""

import functools

import jax
import numpy as np
import pytest
from flax import linen as nn
from jax import numpy as jnp

from learners.parts.networks import MLP, Head, ResNet, convolve, make_backbone, names
from nevis_stream.counted import CountedFunction
from nevis_stream.errors import BadInput

TINY = {"stage_sizes": (1, 1), "width": 4}
IMAGES = jax.ShapeDtypeStruct((1, 64, 64, 3), np.float32)
SMALL = {  # of each backbone: options of a tiny one, its features
    "mlp": ({"hidden": (5, 7)}, 7),
    "resnet": (TINY, 8),
    "resnet18": (TINY, 8),
    "resnet34": (TINY, 8),
    "resnet50": (TINY, 32),
}


@functools.cache
def initialised(module, size=8, n=2):
    images = jax.random.uniform(jax.random.key(1), (n, size, size, 3), minval=-1, maxval=1)
    return module.init(jax.random.key(0), images), images


def parameters(module, inputs):
    variables = jax.eval_shape(module.init, jax.random.key(0), inputs)
    return sum(leaf.size for leaf in jax.tree.leaves(variables["params"]))


def features_of(module, images=IMAGES):
    return jax.eval_shape(lambda x: module.init_with_output(jax.random.key(0), x), images)[0]


@pytest.mark.parametrize(
    ("name", "stem", "classes", "published"),
    [
        ("resnet34", "small", 10, 21_282_122),
        ("resnet34", "standard", 1000, 21_797_672),
        ("resnet18", "standard", 1000, 11_689_512),
        ("resnet18", "small", 10, 11_173_962),
        ("resnet34", "strided", 10, 21_282_122),
        ("resnet50", "standard", 1000, 25_557_032),
    ],
)
def test_parameters_are_as_many_as_published(name, stem, classes, published):
    module = make_backbone(name, stem=stem)
    assert parameters(module, IMAGES) + parameters(Head(classes), features_of(module)) == published


@pytest.mark.parametrize(("stem", "side"), [("small", 64), ("strided", 32), ("standard", 16)])
def test_stem_sets_the_resolution_of_the_first_stage(stem, side):
    module = make_backbone("resnet", stem=stem, **TINY)
    images = jax.ShapeDtypeStruct((1, 64, 64, 3), np.float32)
    _, state = jax.eval_shape(lambda x: module.init_with_output(jax.random.key(0), x, capture_intermediates=True), images)
    first, second = (state["intermediates"][f"BasicBlock_{i}"]["__call__"][0] for i in (0, 1))
    assert first.shape == (1, side, side, 4)
    assert second.shape == (1, side // 2, side // 2, 8)


@pytest.mark.parametrize("name", names())
def test_backbones_return_pooled_features(name):
    options, size = SMALL[name]
    module, head = make_backbone(name, **options), Head(3)
    for side in (8, 64):
        features = features_of(module, jax.ShapeDtypeStruct((2, side, side, 3), np.float32))
        assert (features.shape, features.dtype) == ((2, size), np.float32)
    assert features_of(head, features).shape == (2, 3)


@pytest.mark.parametrize("name", names())
def test_features_and_gradients_are_finite(name):
    module = make_backbone(name, **SMALL[name][0])
    variables, images = initialised(module, size=32)

    @jax.jit
    def loss(params):
        features, updated = module.apply({**variables, "params": params}, images, train=True, mutable=["batch_stats"])
        return (features**2).mean(), (features, updated)

    gradients, (features, updated) = jax.grad(loss, has_aux=True)(variables["params"])
    assert jax.tree.all(jax.tree.map(lambda leaf: bool(jnp.isfinite(leaf).all()), (gradients, features, updated)))
    assert features.std() > 0 and any(leaf.any() for leaf in jax.tree.leaves(gradients))
    assert set(updated) == set(variables) - {"params"}


def test_mlp_is_dense_layers_with_relu_and_has_no_statistics():
    module = make_backbone("mlp", hidden=(5, 7))
    variables, images = initialised(module)
    assert set(variables) == {"params"}
    expected = np.asarray(images).reshape(len(images), -1)
    for name in ("Dense_0", "Dense_1"):
        layer = variables["params"][name]
        expected = np.maximum(expected @ layer["kernel"] + layer["bias"], 0)
    np.testing.assert_allclose(module.apply(variables, images, train=True), expected, rtol=1e-5)


def test_training_moves_the_running_statistics_by_a_tenth_and_evaluation_reads_them():
    module = make_backbone("resnet", **TINY)
    variables, images = initialised(module)
    assert set(variables) == {"params", "batch_stats"}
    trained, updated = module.apply(variables, images, train=True, mutable=["batch_stats"])
    stem = {"params": variables["params"]["Conv_0"]}
    before = nn.Conv(4, (3, 3), use_bias=False).apply(stem, images)
    moved = updated["batch_stats"]["BatchNorm_0"]
    np.testing.assert_allclose(moved["mean"], 0.1 * before.mean((0, 1, 2)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(moved["var"], 0.9 + 0.1 * before.var((0, 1, 2)), rtol=1e-4)
    evaluated = module.apply(variables, images, train=False)
    assert not np.allclose(trained, evaluated)
    alone = module.apply(variables, images[:1], train=False)
    np.testing.assert_allclose(alone, evaluated[:1], rtol=1e-4, atol=1e-5)


def test_kernels_have_the_variance_of_he_initialisation():
    module = make_backbone("resnet", stage_sizes=(1,), width=64)
    variables, _ = initialised(module)
    kernel = variables["params"]["BasicBlock_0"]["Conv_0"]["kernel"]
    assert kernel.std() == pytest.approx(np.sqrt(2 / (9 * 64)), rel=0.02)


def test_zero_init_last_makes_blocks_the_identity():
    variables, _ = initialised(make_backbone("resnet", zero_init_last=True, **TINY))
    for block in ("BasicBlock_0", "BasicBlock_1"):
        assert not variables["params"][block]["BatchNorm_1"]["scale"].any()
    variables, _ = initialised(make_backbone("resnet", **TINY))
    assert variables["params"]["BasicBlock_0"]["BatchNorm_1"]["scale"].all()


def test_gradients_reach_every_parameter():
    module, head = make_backbone("resnet", **TINY), Head(3)
    variables, images = initialised(module)
    head_params = head.init(jax.random.key(0), jnp.zeros((1, 8)))

    def loss(params, head_params):
        stats = {"params": params, "batch_stats": variables["batch_stats"]}
        features, _ = module.apply(stats, images, train=True, mutable=["batch_stats"])
        return jax.nn.log_softmax(head.apply(head_params, features))[:, 0].mean()

    gradients = jax.grad(loss, argnums=(0, 1))(variables["params"], head_params)
    assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(gradients))


def test_modules_are_plain_values():
    assert make_backbone("resnet34") == make_backbone("resnet") == ResNet()
    assert make_backbone("resnet", stage_sizes=[1, 1]) == ResNet(stage_sizes=(1, 1))
    assert make_backbone("mlp", hidden=[3]) == MLP(hidden=(3,))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet43", {}, "unknown backbone 'resnet43'. Did you mean 'resnet34'.*mlp, resnet"),
        ("mlp", {"width": 3}, "backbone 'mlp': unknown option 'width'.*Valid: hidden"),
        ("resnet", {"stem": "smal"}, "unknown stem 'smal'. Did you mean 'small'.*strided"),
        ("resnet", {"width": 0}, "width is 0; it must be positive"),
        ("resnet", {"stage_sizes": ()}, "stage_sizes is ()"),
        ("resnet", {"stage_sizes": 3}, "stage_sizes is 3; it must be a list of positive whole numbers"),
        ("resnet", {"zero_init_last": "no"}, "zero_init_last is 'no'; it must be true or false"),
        ("resnet50", {"padding": "valid"}, "unknown padding 'valid'.*same, torch"),
        ("resnet50", {"block": "bottelneck"}, "unknown block .*Did you mean 'bottleneck'"),
        ("mlp", {"hidden": (8, -1)}, "hidden is"),
    ],
)  # fmt: skip
def test_wrong_names_and_options_say_what_is_valid(name, options, message):
    with pytest.raises(BadInput, match=message.replace("()", r"\(\)")):
        make_backbone(name, **options)


@pytest.mark.parametrize("side", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize("stride", [1, 2])
def test_small_maps_are_convolved_as_matrix_products(side, size, stride):
    """The same values and gradients as XLA's convolution, and the same FLOPs in the ledger."""
    random = np.random.RandomState(0)
    x, kernel = (random.normal(size=shape).astype(np.float32) for shape in ((2, side, side, 5), (size, size, 5, 3)))

    def plain(x, kernel):
        return jax.lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def faster(x, kernel):
        return convolve(x, kernel, stride)

    assert np.allclose(faster(x, kernel), plain(x, kernel), atol=1e-4)
    grads = [jax.grad(lambda x, k, f=f: (f(x, k) ** 2).sum(), (0, 1))(x, kernel) for f in (plain, faster)]
    assert all(np.allclose(a, b, atol=2e-3) for a, b in zip(*grads, strict=True))
    counted = [CountedFunction(f) for f in (plain, faster)]
    assert counted[0].flops(x, kernel) == counted[1].flops(x, kernel)
    assert np.allclose(counted[1](x, kernel), plain(x, kernel), atol=1e-4)
    used = "dot_general" in str(jax.make_jaxpr(faster)(x, kernel))
    assert used == ((-(-side // stride)) ** 2 <= 4)
    assert ("conv_general" in str(counted[1]._jitted.trace(x, kernel).jaxpr)) != used  # what runs is the faster form
