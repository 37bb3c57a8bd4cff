"""Backbones, which turn images into features, and the linear head that turns features into logits.

`make_backbone("resnet34")` builds one by name; its options are the attributes of its class. All are
called as `module.apply(variables, images, train=...)`. A network with batch normalisation keeps its
running statistics in the collection `batch_stats`, which must be mutable where `train=True`.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from nevis_stream.counted import faster_form
from nevis_stream.errors import BadInput, unknown

STEMS = {"small": (3, 1), "strided": (3, 2), "standard": (7, 2)}  # kernel size, stride
SMALL_MAP = 4  # pixels
_kaiming = nn.initializers.variance_scaling(2.0, "fan_out", "normal")


def convolve(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    """Returns the convolution with padding "SAME" of float32[n, h, w, c] with float32[k, k, c, channels].

    On a CPU, where XLA's convolutions of maps of 2×2 and less run at a hundredth of peak, those are one matrix product of the
    taps; what is counted is the convolution.
    """
    size = kernel.shape[0]
    out = [-(-side // stride) for side in x.shape[1:3]]
    if out[0] * out[1] > SMALL_MAP or jax.default_backend() != "cpu" or not faster_form():
        return jax.lax.conv_general_dilated(
            x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
    missing = [max((o - 1) * stride + size - side, 0) for o, side in zip(out, x.shape[1:3], strict=True)]
    padded = jnp.pad(x, ((0, 0), *((m // 2, m - m // 2) for m in missing), (0, 0)))
    taps = [
        padded[:, row : row + (out[0] - 1) * stride + 1 : stride, column : column + (out[1] - 1) * stride + 1 : stride]
        for row in range(size)
        for column in range(size)
    ]
    return jnp.concatenate(taps, axis=-1) @ kernel.reshape(-1, kernel.shape[-1])


class Conv(nn.Module):
    """A convolution without a bias: the normalisation that follows has one.

    Attributes:
      channels: of the result.
      size: of the kernel, in pixels.
      stride: in pixels.
    """

    channels: int
    size: int
    stride: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        kernel = self.param("kernel", _kaiming, (self.size, self.size, x.shape[-1], self.channels))
        return convolve(x, kernel, self.stride)


def _norm(train: bool, scale_init: Callable = nn.initializers.ones) -> nn.BatchNorm:
    return nn.BatchNorm(not train, momentum=0.9, epsilon=1e-5, scale_init=scale_init)


class BasicBlock(nn.Module):
    """Two 3×3 convolutions added to their input, which is projected (1×1) where its shape changes.

    Source: He et al., Deep Residual Learning (2016), figure 5 left and option B.
    """

    channels: int
    stride: int
    zero_init_last: bool

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        last = nn.initializers.zeros if self.zero_init_last else nn.initializers.ones
        y = nn.relu(_norm(train)(Conv(self.channels, 3, self.stride)(x)))
        y = _norm(train, last)(Conv(self.channels, 3, 1)(y))
        if x.shape != y.shape:
            x = _norm(train)(Conv(self.channels, 1, self.stride)(x))
        return nn.relu(x + y)


class ResNet(nn.Module):
    """Residual network of basic blocks.

    Attributes:
      stage_sizes: blocks in each stage; each stage but the first halves the resolution.
      width: channels of the first stage; each later stage doubles them.
      stem: "small" (3×3, stride 1), "strided" (3×3, stride 2: a quarter of the cost), or "standard"
        (7×7, stride 2, then 3×3 max-pooling of stride 2).
      zero_init_last: start every block as the identity (its last normalisation scales by 0).

    Called with float32[n, size, size, 3] in [-1, 1] and `train` (normalise with the statistics of
    the batch, or with the running ones), it returns float32[n, width * 2 ** (stages - 1)].

    Source: He et al. (2016), table 1; the small stem and the normalisation's constants: NEVIS'22.
    """

    stage_sizes: tuple[int, ...] = (3, 4, 6, 3)
    width: int = 64
    stem: str = "small"
    zero_init_last: bool = False

    @nn.compact
    def __call__(self, images: jax.Array, train: bool = False) -> jax.Array:
        x = nn.relu(_norm(train)(Conv(self.width, *STEMS[self.stem])(images)))
        if self.stem == "standard":
            x = nn.max_pool(x, (3, 3), (2, 2), "SAME")
        for stage, blocks in enumerate(self.stage_sizes):
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                x = BasicBlock(self.width * 2**stage, stride, self.zero_init_last)(x, train)
        return x.mean(axis=(1, 2))


class MLP(nn.Module):
    """Flattened pixels through hidden layers with ReLU: the cheapest backbone.

    Attributes:
      hidden: units of each hidden layer.

    Called with float32[n, size, size, 3] in [-1, 1] (`train` changes nothing), it returns
    float32[n, hidden[-1]].
    """

    hidden: tuple[int, ...] = (128,)

    @nn.compact
    def __call__(self, images: jax.Array, train: bool = False) -> jax.Array:
        del train
        x = images.reshape(len(images), -1)
        for units in self.hidden:
            x = nn.relu(nn.Dense(units, kernel_init=nn.initializers.he_normal())(x))
        return x


class Head(nn.Module):
    """Linear layer from features float32[n, features] to logits float32[n, classes].

    Attributes:
      classes: number of logits.
    """

    classes: int

    @nn.compact
    def __call__(self, features: jax.Array) -> jax.Array:
        return nn.Dense(self.classes)(features)


_BACKBONES: dict[str, tuple[type[nn.Module], dict]] = {
    "mlp": (MLP, {}),
    "resnet": (ResNet, {}),
    "resnet18": (ResNet, {"stage_sizes": (2, 2, 2, 2)}),
    "resnet34": (ResNet, {"stage_sizes": (3, 4, 6, 3)}),
}


def names() -> tuple[str, ...]:
    """Returns the names that `make_backbone` knows."""
    return tuple(sorted(_BACKBONES))


def make_backbone(name: str, **options: Any) -> nn.Module:
    """Builds a backbone by name.

    Args:
      name: "mlp", "resnet", "resnet18" or "resnet34" ("resnet" is the latter; the options decide).
      **options: attributes of the class, in place of the name's own; lists are taken as tuples.

    Raises:
      BadInput: unknown name, option or stem, or sizes that are not positive; lists valid choices.

    >>> make_backbone("resnet18", width=16).stage_sizes
    (2, 2, 2, 2)
    """
    if name not in _BACKBONES:
        raise BadInput(unknown("backbone", name, _BACKBONES))
    module, preset = _BACKBONES[name]
    valid = [f.name for f in dataclasses.fields(module) if f.name not in ("parent", "name")]
    for option in options:
        if option not in valid:
            raise BadInput(f"backbone {name!r}: {unknown('option', option, valid)}")
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    if options.get("stem", "small") not in STEMS:
        raise BadInput(f"backbone {name!r}: {unknown('stem', options['stem'], STEMS)}")
    for option in options.keys() & {"stage_sizes", "width", "hidden"}:
        value = options[option]
        numbers = (value,) if option == "width" else value
        if not numbers or not all(isinstance(n, int) and n > 0 for n in numbers):
            raise BadInput(f"backbone {name!r}: {option} is {value!r}; it must be positive.")
    return module(**{**preset, **options})
