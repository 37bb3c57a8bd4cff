"""Pre-trained weights: every parameter is filled from the right tensor, and what does not fit is
named.
"""

import jax
import numpy as np
import pytest
from flax.traverse_util import flatten_dict

from nevis_stream.errors import BadInput
from nevis_stream.learners.parts.networks import make_backbone
from nevis_stream.learners.parts.weights import convert

TINY = make_backbone("resnet", stage_sizes=(1, 1), width=4, stem="standard", padding="torch")


def norm(name, channels):
    return {
        f"{name}.{part}": (channels,) for part in ("weight", "bias", "running_mean", "running_var")
    } | {f"{name}.num_batches_tracked": ()}


def resnet_shapes(stage_sizes, width=64, bottleneck=False, classes=10):
    """Names and shapes of torchvision's ResNets."""
    shapes = {"conv1.weight": (width, 3, 7, 7)} | norm("bn1", width)
    before = width
    for stage, blocks in enumerate(stage_sizes):
        channels = width * 2**stage
        sizes = (
            [(channels, 1), (channels, 3), (4 * channels, 1)]
            if bottleneck
            else [(channels, 3), (channels, 3)]
        )
        for block in range(blocks):
            name, inputs = f"layer{stage + 1}.{block}", before
            for number, (outputs, size) in enumerate(sizes, 1):
                shapes |= {f"{name}.conv{number}.weight": (outputs, inputs, size, size)} | norm(
                    f"{name}.bn{number}", outputs
                )
                inputs = outputs
            if block == 0 and (stage > 0 or bottleneck):
                shapes |= {f"{name}.downsample.0.weight": (inputs, before, 1, 1)} | norm(
                    f"{name}.downsample.1", inputs
                )
            before = inputs
    return shapes | {"fc.weight": (classes, before), "fc.bias": (classes,)}


def nfnet_shapes(stage_sizes, width=256, group_width=128):
    """Names and shapes of timm's dm_nfnet_f0."""
    shapes = {}

    def convolution(name, outputs, inputs, size):
        shapes.update(
            {f"{name}.weight": (outputs, inputs, size, size), f"{name}.gain": (outputs, 1, 1, 1)}
        )
        shapes[f"{name}.bias"] = (outputs,)

    before = 3
    for number in range(4):
        convolution(f"stem.conv{number + 1}", width * 2**number // 16, before, 3)
        before = width * 2**number // 16
    for stage, blocks in enumerate(stage_sizes):
        channels = width * (1, 2, 6, 6)[stage]
        for block in range(blocks):
            name, middle = f"stages.{stage}.{block}", channels // 2
            convolution(f"{name}.conv1", middle, before, 1)
            convolution(f"{name}.conv2", middle, group_width, 3)
            convolution(f"{name}.conv2b", middle, group_width, 3)
            convolution(f"{name}.conv3", channels, middle, 1)
            if block == 0:
                convolution(f"{name}.downsample.conv", channels, before, 1)
            shapes |= {
                f"{name}.attn_last.fc1.weight": (middle, channels, 1, 1),
                f"{name}.attn_last.fc1.bias": (middle,),
            }
            shapes |= {
                f"{name}.attn_last.fc2.weight": (channels, middle, 1, 1),
                f"{name}.attn_last.fc2.bias": (channels,),
            }
            shapes[f"{name}.skipinit_gain"] = ()
            before = channels
    convolution("final_conv", 2 * before, before, 1)
    return shapes | {"head.fc.weight": (1000, 2 * before), "head.fc.bias": (1000,)}


def numbered(shapes):
    """Tensors of one number each, which take no memory, and the names by number."""
    names = dict(enumerate(shapes, 1))
    return {
        name: np.broadcast_to(np.float32(number), shapes[name]) for number, name in names.items()
    }, names


def sources(converted, names):
    """The name of the tensor that each parameter was filled from."""
    out = {}
    for path, leaf in flatten_dict(converted).items():
        assert leaf.dtype == np.float32 and leaf.min() == leaf.max()
        out["/".join(path)] = names[int(leaf.min())]
    return out


def expected_tree(network):
    variables = jax.eval_shape(
        network.init, jax.random.key(0), jax.ShapeDtypeStruct((1, 64, 64, 3), np.float32)
    )
    return {
        "params": {"backbone": variables["params"]},
        "batch_stats": variables.get("batch_stats", {}),
    }


def assert_fills(network, converted):
    shape = flatten_dict(jax.tree.map(lambda leaf: leaf.shape, converted))
    assert shape == flatten_dict(jax.tree.map(lambda leaf: leaf.shape, expected_tree(network)))


@pytest.mark.parametrize("layout", ["torchvision_resnet", "timm_resnet"])
@pytest.mark.parametrize("name", ["resnet18", "resnet34", "resnet50"])
def test_every_parameter_of_a_resnet_comes_from_its_tensor(layout, name):
    sizes = (2, 2, 2, 2) if name == "resnet18" else (3, 4, 6, 3)
    bottleneck = name == "resnet50"
    shapes = resnet_shapes(sizes, bottleneck=bottleneck)
    arrays, names = numbered(shapes)
    network = make_backbone(name, stem="standard", padding="torch")
    converted = convert(arrays, layout, network)
    assert_fills(network, converted)
    result = sources(converted, names)
    used = [
        name
        for name in shapes
        if not name.startswith("fc.") and not name.endswith("num_batches_tracked")
    ]
    assert sorted(result.values()) == sorted(used)
    block, last = ("BottleneckBlock", 3) if bottleneck else ("BasicBlock", 2)
    first = sizes[0]  # the number of layer2.0
    assert result["params/backbone/Conv_0/kernel"] == "conv1.weight"
    assert result["batch_stats/BatchNorm_0/var"] == "bn1.running_var"
    for i in range(last):
        assert (
            result[f"params/backbone/{block}_{first}/Conv_{i}/kernel"]
            == f"layer2.0.conv{i + 1}.weight"
        )
        assert (
            result[f"params/backbone/{block}_{first + 1}/BatchNorm_{i}/scale"]
            == f"layer2.1.bn{i + 1}.weight"
        )
        assert (
            result[f"params/backbone/{block}_{sum(sizes) - 1}/BatchNorm_{i}/bias"]
            == f"layer4.{sizes[3] - 1}.bn{i + 1}.bias"
        )
    assert (
        result[f"params/backbone/{block}_{first}/Conv_{last}/kernel"]
        == "layer2.0.downsample.0.weight"
    )
    assert (
        result[f"batch_stats/{block}_{first}/BatchNorm_{last}/mean"]
        == "layer2.0.downsample.1.running_mean"
    )


def test_every_parameter_of_an_nfnet_comes_from_its_tensor():
    shapes = nfnet_shapes((1, 2, 6, 3))
    assert sum(int(np.prod(shape)) for shape in shapes.values()) == 71_489_284
    arrays, names = numbered(shapes)
    network = make_backbone("nfnet_f0")
    converted = convert(arrays, "timm_nfnet", network)
    assert_fills(network, converted)
    result = sources(converted, names)
    assert sorted(result.values()) == sorted(
        name for name in shapes if not name.startswith("head.")
    )
    part = "params/backbone/"
    assert result[f"{part}StandardisedConv_2/gain"] == "stem.conv3.gain"
    assert result[f"{part}StandardisedConv_4/bias"] == "final_conv.bias"
    for number, place in ((0, "0.0"), (1, "1.0"), (2, "1.1"), (3, "2.0"), (11, "3.2")):
        for i, convolution in enumerate(("conv1", "conv2", "conv2b", "conv3")):
            assert (
                result[f"{part}NFBlock_{number}/StandardisedConv_{i}/kernel"]
                == f"stages.{place}.{convolution}.weight"
            )
        assert (
            result[f"{part}NFBlock_{number}/SqueezeExcite_0/Dense_1/kernel"]
            == f"stages.{place}.attn_last.fc2.weight"
        )
        assert result[f"{part}NFBlock_{number}/skip"] == f"stages.{place}.skipinit_gain"
    assert result[f"{part}NFBlock_3/shortcut/kernel"] == "stages.2.0.downsample.conv.weight"


def random_arrays(shapes):
    random = np.random.RandomState(0)
    drawn = {name: np.asarray(random.normal(size=shape)) for name, shape in shapes.items()}
    return {
        name: abs(array) if name.endswith("running_var") else array for name, array in drawn.items()
    }


def test_axes_are_turned():
    arrays = random_arrays(nfnet_shapes((1,), width=16, group_width=4))
    params = convert(
        arrays, "timm_nfnet", make_backbone("nfnet_f0", stage_sizes=(1,), width=16, group_width=4)
    )["params"]
    block = params["backbone"]["NFBlock_0"]
    theirs = arrays["stages.0.0.conv2.weight"]  # channels of the result, of a group, rows, columns
    np.testing.assert_allclose(
        block["StandardisedConv_1"]["kernel"][0, 2, 3, 7], theirs[7, 3, 0, 2], rtol=1e-6
    )
    theirs = arrays["stages.0.0.attn_last.fc1.weight"]
    np.testing.assert_allclose(
        block["SqueezeExcite_0"]["Dense_0"]["kernel"][11, 5], theirs[5, 11, 0, 0], rtol=1e-6
    )
    np.testing.assert_allclose(
        block["StandardisedConv_1"]["gain"][3],
        arrays["stages.0.0.conv2.gain"][3, 0, 0, 0],
        rtol=1e-6,
    )


def torch_convolution(x, weight, stride, before=None):
    """Cross-correlation of [n, c, h, w] with [o, c, k, k], padded by k - 1 in all; half of it, or
    `before`, comes first.
    """
    size = weight.shape[-1]
    before = (size - 1) // 2 if before is None else before
    x = np.pad(x, ((0, 0), (0, 0), *2 * ((before, size - 1 - before),)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))[
        :, :, ::stride, ::stride
    ]
    return np.einsum("nchwij,ocij->nohw", windows, weight)


def test_a_converted_resnet_computes_what_its_tensors_mean():
    arrays = random_arrays(resnet_shapes((1, 1), width=4))
    arrays = {
        name: np.abs(array) + 0.5 if name.endswith("running_var") else array
        for name, array in arrays.items()
    }
    images = np.random.RandomState(1).uniform(-1, 1, (2, 3, 18, 18))

    def normalised(name, x):
        scale, bias, mean, var = (
            arrays[f"{name}.{part}"] for part in ("weight", "bias", "running_mean", "running_var")
        )
        return ((x.swapaxes(1, 3) - mean) / np.sqrt(var + 1e-5) * scale + bias).swapaxes(1, 3)

    x = np.maximum(normalised("bn1", torch_convolution(images, arrays["conv1.weight"], 2)), 0)
    # max-pooling 3×3 of stride 2
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    x = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))[:, :, ::2, ::2].max((-1, -2))
    for stage, stride in ((1, 1), (2, 2)):
        name = f"layer{stage}.0"
        y = np.maximum(
            normalised(f"{name}.bn1", torch_convolution(x, arrays[f"{name}.conv1.weight"], stride)),
            0,
        )
        y = normalised(f"{name}.bn2", torch_convolution(y, arrays[f"{name}.conv2.weight"], 1))
        if stage > 1:
            x = normalised(
                f"{name}.downsample.1",
                torch_convolution(x, arrays[f"{name}.downsample.0.weight"], stride),
            )
        x = np.maximum(x + y, 0)
    converted = convert(arrays, "torchvision_resnet", TINY)
    variables = {"params": converted["params"]["backbone"], "batch_stats": converted["batch_stats"]}
    result = jax.jit(TINY.apply)(variables, images.transpose(0, 2, 3, 1).astype(np.float32))
    np.testing.assert_allclose(result, x.mean((2, 3)), rtol=1e-3, atol=1e-3)


def test_a_converted_nfnet_computes_what_its_tensors_mean():
    options = {"width": 16, "group_width": 4}
    arrays = random_arrays(nfnet_shapes((2, 1), **options))
    images = np.random.RandomState(1).uniform(-1, 1, (2, 3, 32, 32))

    def act(x):
        return (
            1.7015043497085571 * 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
        )

    def convolution(name, x, stride=1):
        weight, gain, bias = (arrays[f"{name}.{part}"] for part in ("weight", "gain", "bias"))
        fan_in = weight[0].size
        weight = (
            (weight - weight.mean((1, 2, 3), keepdims=True))
            / weight.std((1, 2, 3), keepdims=True)
            * gain
            / fan_in**0.5
        )
        groups = x.shape[1] // weight.shape[1]
        before = 0 if stride == 2 else None  # even sides: the odd pixel comes after
        parts = zip(np.split(x, groups, 1), np.split(weight, groups), strict=True)
        return (
            np.concatenate([torch_convolution(*part, stride, before) for part in parts], 1)
            + bias[:, None, None]
        )

    def block(name, x, stride, variance, first):
        y = act(x) / np.sqrt(variance)
        if first:
            n, c, h, w = y.shape
            x = convolution(
                f"{name}.downsample.conv",
                y.reshape(n, c, h // stride, stride, w // stride, stride).mean((3, 5)),
            )
        y = convolution(f"{name}.conv2", act(convolution(f"{name}.conv1", y)), stride)
        y = convolution(f"{name}.conv3", act(convolution(f"{name}.conv2b", act(y))))
        excite = y.mean((2, 3))
        for layer, between in (
            ("fc1", lambda z: np.maximum(z, 0)),
            ("fc2", lambda z: 1 / (1 + np.exp(-z))),
        ):
            weight, bias = (
                arrays[f"{name}.attn_last.{layer}.{part}"] for part in ("weight", "bias")
            )
            excite = between(excite @ weight[:, :, 0, 0].T + bias)
        return x + 0.2 * 2 * arrays[f"{name}.skipinit_gain"] * y * excite[:, :, None, None]

    x = images
    for number, stride in ((1, 2), (2, 1), (3, 1), (4, 2)):
        x = convolution(f"stem.conv{number}", act(x) if number > 1 else x, stride)
    x = block("stages.0.0", x, 1, 1.0, True)
    x = block("stages.0.1", x, 1, 1.04, False)
    x = block("stages.1.0", x, 2, 1.08, True)
    expected = act(convolution("final_conv", x)).mean((2, 3))
    network = make_backbone("nfnet_f0", stage_sizes=(2, 1), **options)
    params = convert(arrays, "timm_nfnet", network)["params"]["backbone"]
    result = jax.jit(network.apply)(
        {"params": params}, images.transpose(0, 2, 3, 1).astype(np.float32)
    )
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bn1.weight": None}, r"tensor 'bn1.weight' of shape \(4,\) is missing"),
        (
            {"layer3.0.conv1.weight": (8, 8, 3, 3)},
            r"tensor 'layer3.0.conv1.weight' of shape \(8, 8, 3, 3\) does not belong",
        ),
        (
            {"conv1.weight": (4, 3, 3, 3)},
            r"'conv1.weight' has shape \(4, 3, 3, 3\); the network needs \(4, 3, 7, 7\)",
        ),
        (
            {"layer2.0.downsample.0.weight": (8, 4)},
            r"has shape \(8, 4\); the network needs \(8, 4, 1, 1\)",
        ),
    ],
)
def test_what_does_not_fit_is_named(change, message):
    shapes = resnet_shapes((1, 1), width=4) | change
    arrays, _ = numbered({name: shape for name, shape in shapes.items() if shape is not None})
    with pytest.raises(BadInput, match=message):
        convert(arrays, "torchvision_resnet", TINY)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, "tensor 'conv1.weight' has 1 of 588 values that are not finite"),
        (-np.inf, "tensor 'conv1.weight' has 1 of 588 values that are not finite"),
        (1e300, "tensor 'conv1.weight' has 1 of 588 values that are not finite in float32"),
        ("much", "tensor 'conv1.weight' contains .* instead of numbers"),
    ],
)
def test_values_that_are_no_finite_numbers_are_refused(value, message):
    arrays = random_arrays(resnet_shapes((1, 1), width=4))
    convert(arrays, "torchvision_resnet", TINY)
    arrays["conv1.weight"] = arrays["conv1.weight"].astype(
        object if isinstance(value, str) else float
    )
    arrays["conv1.weight"][1, 2, 3, 4] = value
    with pytest.raises(BadInput, match=message):
        convert(arrays, "torchvision_resnet", TINY)


def test_a_variance_below_nought_is_refused():
    arrays = random_arrays(resnet_shapes((1, 1), width=4))
    arrays["bn1.running_var"][0] = -0.5
    with pytest.raises(
        BadInput, match="tensor 'bn1.running_var' contains variances, but -0.5 is negative"
    ):
        convert(arrays, "torchvision_resnet", TINY)


def test_layouts_and_networks_go_together():
    with pytest.raises(BadInput, match="'torch_resnet'.*'torchvision_resnet'"):
        convert({}, "torch_resnet", TINY)
    with pytest.raises(
        BadInput, match="layout 'timm_nfnet' is for NFNet, but the network is ResNet"
    ):
        convert({}, "timm_nfnet", TINY)
