"""Files of pre-trained weights, a backbone and the facts that results must state; and weights of
other libraries, which are converted to the variables of a backbone.

The values are not changed. A network computes the original features only with the same padding and
the same scaling of pixels: the ResNets of torchvision and timm need `padding="torch"` and
`stem="standard"`, and all were trained on pixels normalised by ImageNet's mean and standard
deviation instead of [-1, 1].
"""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors
import safetensors.numpy
from flax import linen as nn
from flax.traverse_util import flatten_dict, unflatten_dict

from nevis_stream.errors import BadInput, unknown
from nevis_stream.learners.parts.model import Network, initialise_program
from nevis_stream.learners.parts.networks import NFNet, ResNet
from nevis_stream.storage.checkpoint import Tree
from nevis_stream.storage.reading import open_file, parse_json

_FACTS = "nevis_stream"


@dataclass(frozen=True)
class Facts:
    """The facts in a file of weights.

    Attributes:
      network: name, options and resolution of the network (`Network` as JSON).
      trained_on: description of the training data.
      flops: FLOPs of pre-training, including all trials and evaluations; of imported weights, what
        the user stated.
      stand_in: the data set that these weights replace because it is not available; else empty.
    """

    network: Mapping[str, Any]
    trained_on: str
    flops: int
    stand_in: str = ""


def describe_network(network: Network) -> dict[str, Any]:
    """Returns name, options and resolution of a network as JSON, without its precision."""
    options = json.loads(json.dumps(dict(network.options)))
    return {"name": network.name, "options": options, "resolution": network.resolution}


def encode(variables: Mapping[str, Any], facts: Facts) -> bytes:
    """Returns the content of a file of {"params": {"backbone"}, "batch_stats"}, without a head."""
    tree = {"backbone": variables["params"]["backbone"], "batch_stats": variables["batch_stats"]}
    arrays = {
        name: np.ascontiguousarray(array) for name, array in flatten_dict(tree, sep="/").items()
    }
    return safetensors.numpy.save(arrays, {_FACTS: json.dumps(dataclasses.asdict(facts))})


def read_facts(path: Path) -> Facts:
    """Returns the facts in a file of weights.

    Raises:
      BadInput: no such file, or `launch.pretrain` did not write it; the message says what to do.
    """
    try:
        # the errors of open() say why a file cannot be read
        with open_file(path), safetensors.safe_open(path, "numpy") as file:
            return Facts(**parse_json(file.metadata()[_FACTS]))
    except FileNotFoundError:
        raise BadInput(
            f"{path}: no such file of weights; make one with python -m launch.pretrain."
        ) from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error}).") from None
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError):
        raise BadInput(
            f"{path}: not a file of weights that launch.pretrain wrote. To import weights of"
            " another library: python -m launch.pretrain --import_file."
        ) from None


def digest(path: Path) -> str:
    """Returns the first 16 hex digits of the file's sha256."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


@functools.lru_cache(maxsize=2)
def load(path: Path, network: Network, expected_digest: str = "") -> Tree:
    """Returns {"params": {"backbone"}, "batch_stats"} for a network.

    Raises:
      BadInput: the weights belong to another network (the message names both, and the first array
        that differs), or the file has another digest.
    """
    facts = read_facts(path)
    if expected_digest and (actual := digest(path)) != expected_digest:
        raise BadInput(
            f"{path}: the file has changed since the run began (its digest is {actual}, it was"
            f" {expected_digest})."
        )
    arrays = safetensors.numpy.load_file(path)
    expected = jax.eval_shape(
        initialise_program(network, 64), jax.ShapeDtypeStruct((4,), np.uint32)
    )
    expected = {"backbone": expected["params"]["backbone"], "batch_stats": expected["batch_stats"]}
    for name, array in flatten_dict(expected, sep="/").items():
        shape = arrays[name].shape if name in arrays else "missing"
        if shape != array.shape:
            raise BadInput(
                f"{path}: these weights belong to {facts.network}, but the config has"
                f" {describe_network(network)} ({name}: {array.shape} expected, {shape} found). Set"
                " config.network as in the file."
            )
    tree = unflatten_dict(arrays, sep="/")
    return {"params": {"backbone": tree["backbone"]}, "batch_stats": tree.get("batch_stats", {})}


_IGNORED = ("fc.", "head.", "classifier.")  # each task has its own head
_ParameterPath = tuple[str, ...]


@dataclass(frozen=True)
class _Form:
    """How another library stores a parameter: its shape there, given ours, and its conversion."""

    shape: Callable[[tuple[int, ...]], tuple[int, ...]]
    load: Callable[[np.ndarray], np.ndarray]


_SAME = _Form(lambda shape: shape, lambda array: array)
# OIHW
_KERNEL = _Form(
    lambda shape: (shape[3], shape[2], *shape[:2]), lambda array: array.transpose(2, 3, 1, 0)
)
# a 1×1 convolution
_DENSE = _Form(lambda shape: (shape[1], shape[0], 1, 1), lambda array: array[:, :, 0, 0].T)
_GAIN = _Form(lambda shape: (*shape, 1, 1, 1), lambda array: array[:, 0, 0, 0])
_Rule = tuple[str, _ParameterPath, _Form]


def _norm(name: str, path: _ParameterPath) -> Iterator[_Rule]:
    for theirs, collection, ours in (
        ("weight", "params", "scale"),
        ("bias", "params", "bias"),
        ("running_mean", "batch_stats", "mean"),
        ("running_var", "batch_stats", "var"),
    ):
        yield f"{name}.{theirs}", (collection, *path, ours), _SAME


def _resnet(network: ResNet) -> Iterator[_Rule]:
    yield "conv1.weight", ("params", "Conv_0", "kernel"), _KERNEL
    yield from _norm("bn1", ("BatchNorm_0",))
    kind, convolutions = ("BasicBlock", 2) if network.block == "basic" else ("BottleneckBlock", 3)
    for (stage, block), number in _blocks(network):
        for i in range(convolutions + 1):
            shortcut = i == convolutions
            names = ("downsample.0", "downsample.1") if shortcut else (f"conv{i + 1}", f"bn{i + 1}")
            prefix, path = f"layer{stage + 1}.{block}", f"{kind}_{number}"
            if shortcut and (block > 0 or (stage == 0 and kind == "BasicBlock")):
                continue
            yield f"{prefix}.{names[0]}.weight", ("params", path, f"Conv_{i}", "kernel"), _KERNEL
            yield from _norm(f"{prefix}.{names[1]}", (path, f"BatchNorm_{i}"))


def _standardise(name: str, path: _ParameterPath) -> Iterator[_Rule]:
    for theirs, ours, form in (
        ("weight", "kernel", _KERNEL),
        ("gain", "gain", _GAIN),
        ("bias", "bias", _SAME),
    ):
        yield f"{name}.{theirs}", ("params", *path, ours), form


def _nfnet(network: NFNet) -> Iterator[_Rule]:
    for i in range(4):
        yield from _standardise(f"stem.conv{i + 1}", (f"StandardisedConv_{i}",))
    for (stage, block), number in _blocks(network):
        name, path = f"stages.{stage}.{block}", f"NFBlock_{number}"
        if block == 0:
            yield from _standardise(f"{name}.downsample.conv", (path, "shortcut"))
        for i, convolution in enumerate(("conv1", "conv2", "conv2b", "conv3")):
            yield from _standardise(f"{name}.{convolution}", (path, f"StandardisedConv_{i}"))
        for i in range(2):
            dense = ("params", path, "SqueezeExcite_0", f"Dense_{i}")
            yield f"{name}.attn_last.fc{i + 1}.weight", (*dense, "kernel"), _DENSE
            yield f"{name}.attn_last.fc{i + 1}.bias", (*dense, "bias"), _SAME
        yield f"{name}.skipinit_gain", ("params", path, "skip"), _SAME
    yield from _standardise("final_conv", ("StandardisedConv_4",))


def _blocks(network: ResNet | NFNet) -> Iterator[tuple[tuple[int, int], int]]:
    """Yields (stage, block of it) and the block's number in the network."""
    places = [
        (stage, block)
        for stage, blocks in enumerate(network.stage_sizes)
        for block in range(blocks)
    ]
    return zip(places, range(len(places)), strict=True)


_LAYOUTS: dict[str, tuple[type[nn.Module], Callable[[Any], Iterator[_Rule]]]] = {
    "timm_nfnet": (NFNet, _nfnet),
    "timm_resnet": (ResNet, _resnet),
    "torchvision_resnet": (ResNet, _resnet),
}


def convert(arrays: Mapping[str, np.ndarray], layout: str, network: nn.Module) -> dict[str, Any]:
    """Returns {"params": {"backbone": …}, "batch_stats": …} in float32 from others' tensors.

    "torchvision_resnet" and "timm_resnet" (the same names; ResNet-18, 34, 50 and others of these
    blocks):
      conv1.weight [O, I, H, W], bn1.{weight, bias, running_mean, running_var}, and of each block
      layer1.0, layer1.1, …: conv1.weight, bn1.*, conv2.weight, bn2.* (and conv3.weight, bn3.* of
      bottlenecks), and where its shape changes downsample.0.weight, downsample.1.*.
    "timm_nfnet" (timm's dm_nfnet_f0):
      NAME.{weight [O, I / groups, H, W], gain [O, 1, 1, 1], bias [O]}, where NAME is stem.conv1 to
      stem.conv4, final_conv, and of each block (stages.0.0, …) conv1, conv2, conv2b and conv3, and
      of a stage's first block downsample.conv; of each block also attn_last.{fc1, fc2}.{weight
      [O, I, 1, 1], bias} and skipinit_gain []. timm computes GELU by erf and adds 1e-5 to the
      kernels' variances; `NFNet` does as the code that the weights were trained with.

    Args:
      arrays: tensors by name. Classifiers (fc.*, head.*, classifier.*) and *.num_batches_tracked
        are left out.
      layout: its name, one of these.
      network: the backbone, as of `make_backbone`, whose variables are wanted.

    Raises:
      BadInput: the layout is unknown or of another network; or a tensor is missing, superfluous,
        has another shape, or contains a value that is not finite or a negative variance.
    """
    if layout not in _LAYOUTS:
        raise BadInput(unknown("layout", layout, _LAYOUTS))
    family, rules = _LAYOUTS[layout]
    if not isinstance(network, family):
        raise BadInput(
            f"layout {layout!r} is for {family.__name__}, but the network is"
            f" {type(network).__name__}."
        )
    images = jax.ShapeDtypeStruct((1, 64, 64, 3), np.float32)
    variables = flatten_dict(dict(jax.eval_shape(network.init, jax.random.key(0), images)))
    filled: dict[_ParameterPath, np.ndarray] = {}
    tensor_names = set()
    for name, path, form in rules(network):
        tensor_names.add(name)
        expected = form.shape(variables[path].shape)
        if name not in arrays:
            raise BadInput(f"layout {layout!r}: tensor {name!r} of shape {expected} is missing.")
        if (shape := np.shape(arrays[name])) != expected:
            raise BadInput(
                f"layout {layout!r}: tensor {name!r} has shape {shape}; the network needs"
                f" {expected}."
            )
        values = _numbers(arrays[name], f"layout {layout!r}: tensor {name!r}")
        if path[-1] == "var" and (values < 0).any():
            raise BadInput(
                f"layout {layout!r}: tensor {name!r} contains variances, but {values.min():g} is"
                " negative."
            )
        filled[path] = form.load(values)
    for name in sorted(set(arrays) - tensor_names):
        if not name.startswith(_IGNORED) and not name.endswith("num_batches_tracked"):
            raise BadInput(
                f"layout {layout!r}: tensor {name!r} of shape {np.shape(arrays[name])} does not"
                " belong to the network."
            )
    assert filled.keys() == variables.keys(), sorted(filled.keys() ^ variables.keys())
    tree = unflatten_dict(filled)
    return {"params": {"backbone": tree["params"]}, "batch_stats": tree.get("batch_stats", {})}


def _numbers(array: np.ndarray, name: str) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):
            array = np.asarray(array, np.float32)
    except (TypeError, ValueError):
        raise BadInput(f"{name} contains {np.asarray(array).dtype} instead of numbers.") from None
    if wrong := np.size(array) - np.count_nonzero(np.isfinite(array)):
        raise BadInput(
            f"{name} has {wrong} of {np.size(array)} values that are not finite in float32."
        )
    return array
