"""Convolutional networks: plain stacks of 3×3 convolutions, and residual networks."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import linen as nn

from nevis_stream.cost.counted import wants_faster_form

SMALL_MAP = 4  # pixels
PADDINGS = ("same", "torch")
_kaiming = nn.initializers.variance_scaling(2.0, "fan_out", "normal")


def compute_pads(side: int, size: int, stride: int, padding: str) -> tuple[int, int]:
    """Returns the pixels put before and after a side so that ⌈side / stride⌉ windows fit.

    The windows' `size` is odd.

    "same" (XLA) puts the odd pixel after; "torch" puts (size - 1) / 2 before, whatever the stride.
    They differ only where the stride is more than 1.

    >>> compute_pads(64, 3, 2, "same"), compute_pads(64, 3, 2, "torch")
    ((0, 1), (1, 0))
    """
    missing = max((-(-side // stride) - 1) * stride + size - side, 0)
    before = missing // 2 if padding == "same" else (size - 1) // 2
    return before, max(missing - before, 0)


def convolve(
    x: jax.Array, kernel: jax.Array, stride: int, padding: str = "same", groups: int = 1
) -> jax.Array:
    """Returns the padded convolution of float32[n, h, w, c] with float32[k, k, c/groups, channels].

    On a CPU, where XLA's convolutions of maps of 2×2 and less run at a hundredth of peak, those are
    one matrix product of the taps; what is counted is the convolution.
    """
    size = kernel.shape[0]
    out = [-(-side // stride) for side in x.shape[1:3]]
    around = [compute_pads(side, size, stride, padding) for side in x.shape[1:3]]
    if (
        out[0] * out[1] > SMALL_MAP
        or groups > 1
        or jax.default_backend() != "cpu"
        or not wants_faster_form()
    ):
        return jax.lax.conv_general_dilated(
            x,
            kernel,
            (stride, stride),
            around,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=groups,
        )
    padded = jnp.pad(x, ((0, 0), *around, (0, 0)))
    taps = [
        padded[
            :,
            row : row + (out[0] - 1) * stride + 1 : stride,
            column : column + (out[1] - 1) * stride + 1 : stride,
        ]
        for row in range(size)
        for column in range(size)
    ]
    return jnp.concatenate(taps, axis=-1) @ kernel.reshape(-1, kernel.shape[-1])


class Conv(nn.Module):
    """A convolution; it needs no bias if a normalisation, which has one, follows.

    Attributes:
      channels: of the result.
      size: of the kernel, in pixels.
      stride: in pixels.
      padding: "same" or "torch", see `compute_pads`.
      bias: add one to each channel.
    """

    channels: int
    size: int
    stride: int
    padding: str = "same"
    bias: bool = False

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        kernel = self.param("kernel", _kaiming, (self.size, self.size, x.shape[-1], self.channels))
        y = convolve(x, kernel, self.stride, self.padding)
        return y + self.param("bias", nn.initializers.zeros, (self.channels,)) if self.bias else y


def make_batch_norm(train: bool, scale_init: Callable = nn.initializers.ones) -> nn.BatchNorm:
    """Returns the normalisation by the batch's statistics (`train`), or by the running ones."""
    return nn.BatchNorm(not train, momentum=0.9, epsilon=1e-5, scale_init=scale_init)


class VGG(nn.Module):
    """Stages of 3×3 convolutions with ReLU, each with 2×2 max-pooling, then a global average.

    Attributes:
      stage_sizes: convolutions in each stage.
      width: channels of the first stage; each later stage doubles them, up to eight times `width`.
      norm: batch normalisation after each convolution, which then has no bias.
      hidden: units of the layers after the average; the paper has (4096, 4096) there, with dropout,
        on the flattened 7×7 map.

    Called with float32[n, size, size, 3] in [-1, 1] and `train` (normalise with the statistics of
    the batch, or with the running ones), it returns float32[n, hidden[-1]], or the last stage's
    channels if there is no hidden layer. Pooling halves a side and rounds up.

    Source: Simonyan and Zisserman, Very Deep Convolutional Networks (2015), table 1: configurations
      A (11 layers), D (16).
    """

    stage_sizes: tuple[int, ...] = (2, 2, 3, 3, 3)
    width: int = 64
    norm: bool = False
    hidden: tuple[int, ...] = ()

    reduction = 1

    @nn.compact
    def __call__(self, images: jax.Array, train: bool = False) -> jax.Array:
        x = images
        for stage, convolutions in enumerate(self.stage_sizes):
            for _ in range(convolutions):
                x = Conv(self.width * min(2**stage, 8), 3, 1, bias=not self.norm)(x)
                x = nn.relu(make_batch_norm(train)(x) if self.norm else x)
            x = nn.max_pool(x, (2, 2), (2, 2), "SAME")
        x = x.mean(axis=(1, 2))
        for units in self.hidden:
            x = nn.relu(nn.Dense(units, kernel_init=nn.initializers.he_normal())(x))
        return x


STEMS = {"small": (3, 1), "strided": (3, 2), "standard": (7, 2)}  # kernel size, stride


def _last(zero: bool):
    return nn.initializers.zeros if zero else nn.initializers.ones


class Block(nn.Module):
    """Convolutions added to their input, which is projected (1×1) where its shape changes.

    Attributes:
      channels: of the 3×3 convolutions.
      stride: of the block.
      zero_init_last: whether the last normalisation scales by 0 at first.
      padding: of the 3×3 convolution that has the stride.
    """

    channels: int
    stride: int
    zero_init_last: bool
    padding: str = "same"

    def _add(self, x: jax.Array, y: jax.Array, train: bool) -> jax.Array:
        """Returns the block's result: its input x and what its convolutions made of it, y."""
        if x.shape != y.shape:
            x = make_batch_norm(train)(Conv(y.shape[-1], 1, self.stride)(x))
        return nn.relu(x + y)


class BasicBlock(Block):
    """Two 3×3 convolutions.

    Source: He et al., Deep Residual Learning (2016), figure 5 left and option B.
    """

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        y = nn.relu(make_batch_norm(train)(Conv(self.channels, 3, self.stride, self.padding)(x)))
        y = make_batch_norm(train, _last(self.zero_init_last))(Conv(self.channels, 3, 1)(y))
        return self._add(x, y, train)


class BottleneckBlock(Block):
    """1×1, 3×3 and 1×1 convolutions, the last with four times the channels.

    The 3×3 convolution has the stride, as in torchvision; He et al. give it to the first 1×1.

    Source: He et al. (2016), figure 5 right and option B.
    """

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        y = nn.relu(make_batch_norm(train)(Conv(self.channels, 1, 1)(x)))
        y = nn.relu(make_batch_norm(train)(Conv(self.channels, 3, self.stride, self.padding)(y)))
        y = make_batch_norm(train, _last(self.zero_init_last))(Conv(4 * self.channels, 1, 1)(y))
        return self._add(x, y, train)


BLOCKS = {"basic": BasicBlock, "bottleneck": BottleneckBlock}


class ResNet(nn.Module):
    """Residual network.

    Attributes:
      stage_sizes: blocks in each stage; each stage but the first halves the resolution.
      width: channels of the first stage's 3×3 convolutions; each later stage doubles them.
      stem: "small" (3×3, stride 1), "strided" (3×3, stride 2: a quarter of the cost), or "standard"
        (7×7, stride 2, then 3×3 max-pooling of stride 2).
      zero_init_last: start every block as the identity (its last normalisation scales by 0).
      padding: "same", or "torch" for weights that were trained with its padding.
      block: "basic", or "bottleneck", whose result has four times its 3×3 convolution's channels.

    Called with float32[n, size, size, 3] in [-1, 1] and `train` (normalise with the statistics of
    the batch, or with the running ones), it returns float32[n, width * 2 ** (stages - 1)], and four
    times as many of bottlenecks.

    Source: He et al. (2016), table 1; the small stem and the normalisation's constants: NEVIS'22.
    """

    stage_sizes: tuple[int, ...] = (3, 4, 6, 3)
    width: int = 64
    stem: str = "small"
    zero_init_last: bool = False
    padding: str = "same"
    block: str = "basic"

    @property
    def reduction(self) -> int:
        """How many pixels of the image a pixel of the first stage is wide."""
        return STEMS[self.stem][1] * (2 if self.stem == "standard" else 1)

    choices = {"stem": tuple(STEMS), "block": tuple(BLOCKS), "padding": PADDINGS}

    @nn.compact
    def __call__(self, images: jax.Array, train: bool = False) -> jax.Array:
        x = nn.relu(
            make_batch_norm(train)(Conv(self.width, *STEMS[self.stem], self.padding)(images))
        )
        if self.stem == "standard":
            x = nn.max_pool(
                x, (3, 3), (2, 2), [compute_pads(side, 3, 2, self.padding) for side in x.shape[1:3]]
            )
        for stage, blocks in enumerate(self.stage_sizes):
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                x = BLOCKS[self.block](
                    self.width * 2**stage, stride, self.zero_init_last, self.padding
                )(x, train)
        return x.mean(axis=(1, 2))
