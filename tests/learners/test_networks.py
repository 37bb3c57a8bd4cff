"""Backbones: parameter counts, shapes, normalisation, names and options."""

import functools

import jax
import numpy as np
import pytest
from flax import linen as nn
from jax import numpy as jnp

from nevis_stream.cost.counted import CountedFunction, choose_convolution_options
from nevis_stream.errors import BadInput
from nevis_stream.learners.parts.augmentation import Augmentation
from nevis_stream.learners.parts.model import Network, step_program
from nevis_stream.learners.parts.networks import (
    MLP,
    Head,
    ResNet,
    convolve,
    list_names,
    make_backbone,
)
from nevis_stream.learners.parts.networks.convolution import compute_pads
from nevis_stream.learners.parts.networks.nfnet import NFBlock, StandardisedConv, activate
from nevis_stream.learners.parts.networks.vit import Attention

of_the_cpu = pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="the form that is faster on a CPU"
)
TINY = {"stage_sizes": (1, 1), "width": 4}
IMAGES = jax.ShapeDtypeStruct((1, 64, 64, 3), np.float32)
SMALL = {  # of each backbone: options of a tiny one, its features
    "mlp": ({"hidden": (5, 7)}, 7),
    "nfnet_f0": ({"stage_sizes": (1, 1), "width": 16, "group_width": 4}, 64),
    "resnet": (TINY, 8),
    "resnet18": (TINY, 8),
    "resnet34": (TINY, 8),
    "resnet50": (TINY, 32),
    "vgg11": ({"stage_sizes": (1, 2), "width": 4, "norm": True}, 8),
    "vgg16": ({"stage_sizes": (1, 2), "width": 4, "hidden": (6, 5)}, 5),
    "vit_b8": ({"patch": 4, "width": 12, "depth": 2, "heads": 3}, 12),
    "vit_tiny8": ({"width": 8, "depth": 1, "heads": 2}, 8),
}


@functools.cache
def initialised(module, size=8, n=2):
    images = jax.random.uniform(jax.random.key(1), (n, size, size, 3), minval=-1, maxval=1)
    # rbg compiles three times faster
    return jax.jit(module.init)(jax.random.key(0, impl="rbg"), images), images


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


@pytest.mark.parametrize(
    ("name", "options", "published"),
    [
        ("vgg11", {}, 9_220_480),  # the convolutions
        ("vgg16", {}, 14_714_688),
        # a scale instead of no scale; its offset is the bias
        ("vgg16", {"norm": True}, 14_714_688 + 4_224),
        # one place of the map instead of 7×7
        ("vgg16", {"hidden": (4096, 4096)}, 138_357_544 - 48 * 512 * 4096 - 4097 * 1000),
        # blocks; patches, positions, normalisation
        ("vit_b8", {}, 85_054_464 + (8 * 8 * 3 + 1) * 768 + 64 * 768 + 2 * 768),
        # timm's dm_nfnet_f0 with its head; DeepMind's paper gives 71.5 M.
        ("nfnet_f0", {}, 71_489_284 - 3073 * 1000),
    ],
)
def test_backbones_have_as_many_parameters_as_published(name, options, published):
    assert parameters(make_backbone(name, **options), IMAGES) == published


def test_blocks_of_a_vision_transformer_have_as_many_parameters_as_published():
    params = jax.eval_shape(make_backbone("vit_b8").init, jax.random.key(0), IMAGES)["params"]
    blocks = [tree for name, tree in params.items() if name.startswith("EncoderBlock")]
    assert len(blocks) == 12 and sum(leaf.size for leaf in jax.tree.leaves(blocks)) == 85_054_464


@pytest.mark.parametrize(("stem", "side"), [("small", 64), ("strided", 32), ("standard", 16)])
def test_stem_sets_the_resolution_of_the_first_stage(stem, side):
    module = make_backbone("resnet", stem=stem, **TINY)
    images = jax.ShapeDtypeStruct((1, 64, 64, 3), np.float32)
    _, state = jax.eval_shape(
        lambda x: module.init_with_output(jax.random.key(0), x, capture_intermediates=True), images
    )
    first, second = (state["intermediates"][f"BasicBlock_{i}"]["__call__"][0] for i in (0, 1))
    assert first.shape == (1, side, side, 4)
    assert second.shape == (1, side // 2, side // 2, 8)


@pytest.mark.parametrize("name", list_names())
def test_backbones_return_pooled_features(name):
    options, size = SMALL[name]
    module, head = make_backbone(name, **options), Head(3)
    for side in (8, 64):
        features = features_of(module, jax.ShapeDtypeStruct((2, side, side, 3), np.float32))
        assert (features.shape, features.dtype) == ((2, size), np.float32)
    assert features_of(head, features).shape == (2, 3)


@pytest.mark.parametrize(
    "name",
    [
        "mlp",
        "resnet",
        "vgg11",
        "vit_b8",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("nfnet_f0", "resnet50", "vgg16")),
    ],
)
def test_features_and_gradients_are_finite(name):
    module = make_backbone(name, **SMALL[name][0])
    variables, images = initialised(module, size=32)

    def loss(params):
        features, updated = module.apply(
            {**variables, "params": params}, images, train=True, mutable=["batch_stats"]
        )
        return (features**2).mean(), (features, updated)

    gradients, (features, updated) = jax.device_get(
        jax.jit(jax.grad(loss, has_aux=True))(variables["params"])
    )
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((gradients, features, updated)))
    assert features.std() > 0 and any(leaf.any() for leaf in jax.tree.leaves(gradients))
    assert set(updated) == set(variables) - {"params"}


def test_mlp_is_dense_layers_with_relu_and_has_no_statistics():
    module = make_backbone("mlp", hidden=(5, 7))
    variables, images = jax.device_get(initialised(module))
    assert set(variables) == {"params"}
    expected = images.reshape(len(images), -1)
    for name in ("Dense_0", "Dense_1"):
        layer = variables["params"][name]
        expected = np.maximum(expected @ layer["kernel"] + layer["bias"], 0)
    features = jax.jit(functools.partial(module.apply, train=True))(variables, images)
    np.testing.assert_allclose(features, expected, rtol=1e-5)


def test_training_moves_the_running_statistics_by_a_tenth_and_evaluation_reads_them():
    module = make_backbone("resnet", **TINY)
    variables, images = initialised(module)
    assert set(variables) == {"params", "batch_stats"}
    trained, updated = jax.jit(
        functools.partial(module.apply, train=True, mutable=["batch_stats"])
    )(variables, images)
    stem = {"params": variables["params"]["Conv_0"]}
    before = np.asarray(jax.jit(nn.Conv(4, (3, 3), use_bias=False).apply)(stem, images))
    moved = updated["batch_stats"]["BatchNorm_0"]
    np.testing.assert_allclose(moved["mean"], 0.1 * before.mean((0, 1, 2)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(moved["var"], 0.9 + 0.1 * before.var((0, 1, 2)), rtol=1e-4)
    evaluate = jax.jit(functools.partial(module.apply, train=False))
    evaluated = evaluate(variables, images)
    assert not np.allclose(trained, evaluated)
    alone = evaluate(variables, images[:1])
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
    head_params = jax.jit(head.init)(jax.random.key(0), np.zeros((1, 8), np.float32))

    def loss(params, head_params):
        stats = {"params": params, "batch_stats": variables["batch_stats"]}
        features, _ = module.apply(stats, images, train=True, mutable=["batch_stats"])
        return jax.nn.log_softmax(head.apply(head_params, features))[:, 0].mean()

    gradients = jax.jit(jax.grad(loss, argnums=(0, 1)))(variables["params"], head_params)
    assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(gradients))


def reference(x, kernel, stride, before, after):
    """Convolution of [n, h, w, c] with [k, k, c, channels], one place after the other."""
    x = np.pad(x, ((0, 0), (before, after), (before, after), (0, 0)))
    size, side = len(kernel), (x.shape[1] - len(kernel)) // stride + 1
    places = [
        [x[:, stride * i : stride * i + size, stride * j : stride * j + size] for j in range(side)]
        for i in range(side)
    ]
    return np.stack(
        [
            np.stack([np.einsum("nhwc,hwcd->nd", place, kernel) for place in row], 1)
            for row in places
        ],
        1,
    )


@pytest.mark.parametrize("side", [1, 7, 8])
@pytest.mark.parametrize(("size", "stride"), [(1, 2), (3, 1), (3, 2), (7, 2)])
def test_torch_pads_alike_on_both_sides(side, size, stride):
    random = np.random.RandomState(0)
    x, kernel = random.normal(size=(2, side, side, 5)), random.normal(size=(size, size, 5, 3))
    expected = reference(x, kernel, stride, (size - 1) // 2, (size - 1) // 2)
    program = jax.jit(convolve, static_argnums=(2, 3))
    result = program(x.astype(np.float32), kernel.astype(np.float32), stride, "torch")
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_padding_changes_what_strided_layers_see():
    same = make_backbone("resnet", stem="standard", **TINY)
    variables, images = initialised(same, size=16)
    torch = make_backbone("resnet", stem="standard", padding="torch", **TINY)
    features = [jax.jit(module.apply)(variables, images) for module in (same, torch)]
    assert features[0].shape == features[1].shape and not np.allclose(*features, rtol=1e-3)


def test_grouped_convolutions_are_convolutions_of_groups():
    random = np.random.RandomState(0)
    x, kernel = (
        random.normal(size=shape).astype(np.float32) for shape in ((2, 4, 4, 6), (3, 3, 2, 9))
    )
    parts = [
        reference(x[..., 2 * g : 2 * g + 2], kernel[..., 3 * g : 3 * g + 3], 2, 0, 1)
        for g in range(3)
    ]
    np.testing.assert_allclose(
        convolve(x, kernel, 2, groups=3), np.concatenate(parts, -1), rtol=1e-4, atol=1e-5
    )
    counted = [CountedFunction(lambda x, k, g=g: convolve(x, k, 1, groups=g)) for g in (1, 3)]
    assert counted[0].flops(x, np.zeros((3, 3, 6, 9), np.float32)) == 3 * counted[1].flops(
        x, kernel
    )


def test_standardised_kernels_have_mean_0_and_a_variance_of_the_squared_gain_over_the_fan_in():
    conv = StandardisedConv(8, 3, groups=2)
    images = np.zeros((2, 1, 3, 3, 4), np.float32)
    for number in range(2):  # an image of each input of a group
        images[number, :, 1, 1, number::2] = 1
    params = jax.device_get(jax.jit(conv.init)(jax.random.key(0), images[0])["params"])
    numbers = np.arange(8, dtype=np.float32)
    params |= {"kernel": 5 * params["kernel"] + 1, "gain": numbers, "bias": numbers}
    apply = jax.jit(conv.apply)
    taps = np.stack([apply({"params": params}, image) for image in images]) - params["bias"]
    kernel = taps[:, 0].reshape(-1, 8)  # of both inputs of a group, at 3×3 places
    np.testing.assert_allclose(kernel.mean(0), np.zeros(8), atol=1e-5)
    np.testing.assert_allclose(kernel.var(0), np.arange(8.0) ** 2 / 18, rtol=1e-4)


def test_the_activation_keeps_the_variance():
    x = np.random.RandomState(0).normal(size=100_000).astype(np.float32)
    assert activate(x).std() == pytest.approx(1, abs=0.01)


def test_blocks_without_normalisation_start_as_their_shortcut_and_keep_the_expected_variance():
    module = make_backbone("nfnet_f0", stage_sizes=(2,), width=16, group_width=4)
    variables, images = initialised(module, size=16)
    assert set(variables) == {"params"}
    assert set(variables["params"]["NFBlock_1"]) == {
        "skip", "SqueezeExcite_0", *(f"StandardisedConv_{i}" for i in range(4)),
    }  # fmt: skip
    _, state = jax.jit(lambda x: module.apply(variables, x, capture_intermediates=True))(images)
    outputs = [state["intermediates"][f"NFBlock_{i}"]["__call__"][0] for i in range(2)]
    np.testing.assert_array_equal(outputs[0], outputs[1])
    betas = []

    def remember(run, args, kwargs, context):
        if isinstance(context.module, NFBlock):
            betas.append(context.module.beta)
        return run(*args, **kwargs)

    with nn.intercept_methods(remember):
        jax.eval_shape(
            make_backbone("nfnet_f0", stage_sizes=(3, 1)).init, jax.random.key(0), IMAGES
        )
    np.testing.assert_allclose(betas, [1, 1.04**-0.5, 1.08**-0.5, 1.12**-0.5])


def test_attention_mixes_tokens_as_in_the_formula():
    attention, random = Attention(2), np.random.RandomState(0)
    x = random.normal(size=(1, 3, 4)).astype(np.float32)
    params = jax.device_get(jax.jit(attention.init)(jax.random.key(0), x)["params"])
    q, k, v = np.split(x[0] @ params["qkv"]["kernel"], 3, -1)
    heads = []
    for part in (slice(0, 2), slice(2, 4)):
        weights = np.exp(q[:, part] @ k[:, part].T / np.sqrt(2))
        heads.append(weights / weights.sum(-1, keepdims=True) @ v[:, part])
    expected = np.concatenate(heads, -1) @ params["out"]["kernel"]
    np.testing.assert_allclose(
        jax.jit(attention.apply)({"params": params}, x)[0], expected, rtol=1e-4, atol=1e-5
    )


def test_patches_are_squares_of_the_image():
    """Only the token of the patch that changes is embedded differently."""
    module = make_backbone("vit_b8", patch=4, width=8, depth=1, heads=1)
    variables, images = initialised(module, size=8)
    changed = images.at[:, 1:4, 5].add(1.0)
    program = jax.jit(
        lambda x: module.apply(variables, x, capture_intermediates=True)[1]["intermediates"][
            "patches"
        ]
    )
    embedded = [program(x)["__call__"][0] for x in (images, changed)]
    assert np.argwhere(np.abs(embedded[0] - embedded[1]).max((0, 2)) > 1e-6).tolist() == [[1]]


def test_images_must_consist_of_patches():
    with pytest.raises(BadInput, match="12×12 pixels; patch, 8, must divide both"):
        make_backbone("vit_tiny8").init(jax.random.key(0), jnp.zeros((1, 12, 12, 3)))


def test_modules_are_plain_values():
    assert make_backbone("resnet34") == make_backbone("resnet") == ResNet()
    assert make_backbone("resnet", stage_sizes=[1, 1]) == ResNet(stage_sizes=(1, 1))
    assert make_backbone("mlp", hidden=[3]) == MLP(hidden=(3,))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet43", {}, "'resnet43'.*'resnet34'.*mlp, nfnet_f0, resnet"),
        ("mlp", {"width": 3}, "backbone 'mlp': .*'width'.*hidden"),
        ("resnet", {"stem": "smal"}, "'smal'.*'small'.*strided"),
        ("resnet", {"width": 0}, "width is 0; it must be positive"),
        ("resnet", {"stage_sizes": ()}, "stage_sizes is ()"),
        ("resnet", {"stage_sizes": 3}, "stage_sizes is 3"),
        ("resnet", {"zero_init_last": "no"}, "zero_init_last is 'no'; it must be true or false"),
        ("resnet50", {"padding": "valid"}, "'valid'.*same, torch"),
        ("resnet50", {"block": "bottelneck"}, "'bottelneck'.*'bottleneck'"),
        ("mlp", {"hidden": (8, -1)}, "hidden is"),
        ("mlp", {"hidden": ()}, "hidden is ()"),
        ("vgg16", {"norm": 1}, "norm is 1"),
        ("vgg11", {"stem": "small"}, "'stem'.*hidden, norm, stage_sizes, width"),
        ("vgg11", {"hidden": (0,)}, "hidden is"),
        ("vit_b8", {"heads": 7}, "width is 768; .*heads, 7"),
        ("vit_b8", {"patch": -8}, "patch is -8"),
        ("vit_b8", {"depth": True}, "depth is True"),
        ("nfnet_f0", {"stage_sizes": (1,) * 5}, "at most 4 stages"),
        ("nfnet_f0", {"width": 64}, "width is 64; .*16, .*group_width, 128"),
    ],
)  # fmt: skip
def test_wrong_names_and_options_say_what_is_valid(name, options, message):
    with pytest.raises(BadInput, match=message.replace("()", r"\(\)")):
        make_backbone(name, **options)


@of_the_cpu
@pytest.mark.parametrize("side", [1, 4])
@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize("stride", [1, 2])
def test_small_maps_are_convolved_as_matrix_products(side, size, stride):
    """The same values and gradients as XLA's convolution, and the same FLOPs in the ledger."""
    random = np.random.RandomState(0)
    x, kernel = (
        random.normal(size=shape).astype(np.float32)
        for shape in ((2, side, side, 5), (size, size, 5, 3))
    )

    def plain(x, kernel):
        return jax.lax.conv_general_dilated(
            x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def faster(x, kernel):
        return convolve(x, kernel, stride)

    def squares(function):
        def of(x, kernel):
            values = function(x, kernel)
            return (values**2).sum(), values

        return jax.jit(jax.grad(of, (0, 1), has_aux=True))

    (expected_gradients, expected), (gradients, values) = (
        squares(function)(x, kernel) for function in (plain, faster)
    )
    assert np.allclose(values, expected, atol=1e-4)
    assert all(
        np.allclose(a, b, atol=2e-3) for a, b in zip(gradients, expected_gradients, strict=True)
    )
    counted = [CountedFunction(f) for f in (plain, faster)]
    assert counted[0].flops(x, kernel) == counted[1].flops(x, kernel)
    assert np.allclose(counted[1](x, kernel), expected, atol=1e-4)
    used = "dot_general" in str(jax.make_jaxpr(faster)(x, kernel))
    assert used == ((-(-side // stride)) ** 2 <= 4)
    # what runs is the faster form
    assert ("conv_general" in str(counted[1]._jitted.trace(x, kernel).jaxpr)) != used


@of_the_cpu
@pytest.mark.parametrize("padding", ["same", "torch"])
@pytest.mark.parametrize("size, stride", [(3, 1), (3, 2), (1, 2), (7, 2)])
def test_counted_gradients_are_exact_and_not_of_the_slow_library(size, stride, padding):
    """Against sums in float64; YNN's gradients of kernels run far below peak
    (docs/decisions/0030).
    """
    random = np.random.RandomState(0)
    x, kernel = (
        random.normal(size=shape).astype(np.float32)
        for shape in ((4, 14, 14, 8), (size, size, 8, 16))
    )
    change = random.normal(size=(4, 14 // stride, 14 // stride, 16)).astype(np.float32)

    def gradients(x, kernel, change):
        return jax.vjp(lambda x, kernel: convolve(x, kernel, stride, padding), x, kernel)[1](change)

    gradients.compiler_options = choose_convolution_options()
    program = CountedFunction(gradients)
    compiled = program._jitted.lower(x, kernel, change).compile().as_text()
    assert "convolution(" in compiled and "ynn" not in compiled
    around = compute_pads(14, size, stride, padding)
    padded = np.pad(x.astype(np.float64), ((0, 0), around, around, (0, 0)))
    of_padded, of_kernel = np.zeros_like(padded), np.zeros(kernel.shape)
    for row in range(size):
        for column in range(size):
            tap = np.s_[
                :, row : row + 14 - stride + 1 : stride, column : column + 14 - stride + 1 : stride
            ]
            of_kernel[row, column] = np.einsum("nhwc,nhwd->cd", padded[tap], change)
            of_padded[tap] += change @ kernel[row, column].T.astype(np.float64)
    result = program(x, kernel, change)
    np.testing.assert_allclose(
        result[0], of_padded[:, around[0] : around[0] + 14, around[0] : around[0] + 14], atol=1e-4
    )
    np.testing.assert_allclose(result[1], of_kernel, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    "name, options, resolution, plain",
    [
        ("resnet34", {"stem": "small"}, 64, True),
        ("resnet18", {"stem": "standard"}, 64, False),
        ("resnet", {"stem": "strided", "width": 16}, 32, False),
        ("vgg11", {}, 32, True),
        ("vit_tiny8", {}, 64, False),
    ],
)
def test_steps_on_large_maps_only_leave_the_library(name, options, resolution, plain):
    network = Network(name, tuple(sorted(options.items())), resolution)
    step = step_program(network, 64, Augmentation(), 0.9, 1e-4)
    assert getattr(step, "compiler_options", None) == (
        choose_convolution_options() if plain else None
    )
