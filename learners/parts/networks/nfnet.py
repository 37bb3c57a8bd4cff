"""Residual networks without normalisation."""

import jax
import jax.numpy as jnp
from flax import linen as nn

from nevis_stream.learners.parts.networks.convolution import convolve

ALPHA = 0.2  # a block adds this times its branch
GELU_GAIN = 1.7015043497085571  # 1 / standard deviation of gelu(x) of a standard normal x
# channels as shares of the width, and strides
STEM = ((1 / 16, 2), (1 / 8, 1), (1 / 4, 1), (1 / 2, 2))
MULTIPLES = (1, 2, 6, 6)  # channels of a stage, as multiples of the width


def activate(x: jax.Array) -> jax.Array:
    """Returns GELU(x), scaled to keep the variance of a standard normal x.

    Source: Brock et al. (2021a), section 4.1.
    """
    return GELU_GAIN * nn.gelu(x)


class StandardisedConv(nn.Module):
    """A padded convolution with a bias, of standardised kernels.

    For each output channel the kernel has mean 0 and variance gain² / fan-in.

    Source: Brock et al. (2021b), equation 1, with a learned gain; the floor of 1e-4 is their
      code's.
    """

    channels: int
    size: int = 1
    stride: int = 1
    groups: int = 1

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        shape = (self.size, self.size, x.shape[-1] // self.groups, self.channels)
        kernel = self.param(
            "kernel", nn.initializers.variance_scaling(1.0, "fan_in", "normal"), shape
        )
        gain = self.param("gain", nn.initializers.ones, (self.channels,))
        bias = self.param("bias", nn.initializers.zeros, (self.channels,))
        fan_in = kernel.size // self.channels
        scale = gain * jax.lax.rsqrt(jnp.maximum(kernel.var((0, 1, 2)) * fan_in, 1e-4))
        return (
            convolve(x, (kernel - kernel.mean((0, 1, 2))) * scale, self.stride, groups=self.groups)
            + bias
        )


class SqueezeExcite(nn.Module):
    """Scales each channel by a number in (0, 1) that two dense layers compute.

    They see all channels' averages.

    Source: Hu et al., Squeeze-and-Excitation Networks (2018), section 3, with half the channels in
      between.
    """

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        channels = x.shape[-1]
        y = nn.relu(nn.Dense(channels // 2)(x.mean(axis=(1, 2))))
        return x * nn.sigmoid(nn.Dense(channels)(y))[:, None, None]


class NFBlock(nn.Module):
    """x + α · skip · 2 · SE(branch(β · activate(x))), a bottleneck with two grouped convolutions.

    The first of a stage adds to the activated input, averaged over 2×2 where it halves the map and
    projected (1×1).

    Attributes:
      channels: of the result; half of them between the 1×1 convolutions.
      stride: of the first 3×3 convolution.
      group_width: channels of a group of the 3×3 convolutions.
      beta: 1 / expected standard deviation of the input.
      project: whether it is the first block of a stage.
    """

    channels: int
    stride: int
    group_width: int
    beta: float
    project: bool

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        middle = self.channels // 2
        groups = middle // self.group_width
        y = activate(x) * self.beta
        if self.project:
            x = (
                nn.avg_pool(y, (2, 2), (2, 2), "SAME", count_include_pad=False)
                if self.stride == 2
                else y
            )
            x = StandardisedConv(self.channels, name="shortcut")(x)
        y = StandardisedConv(middle)(y)
        y = StandardisedConv(middle, 3, self.stride, groups)(activate(y))
        y = StandardisedConv(middle, 3, 1, groups)(activate(y))
        y = StandardisedConv(self.channels)(activate(y))
        return x + ALPHA * self.param("skip", nn.initializers.zeros, ()) * 2 * SqueezeExcite()(y)


class NFNet(nn.Module):
    """Normaliser-free residual network; the defaults are NFNet-F0.

    Attributes:
      stage_sizes: blocks in each of up to four stages; each but the first halves
        the resolution.
      width: channels of the first stage; the others have 2, 6 and 6 times as many.
      group_width: channels of a group of the 3×3 convolutions; it divides width / 2.

    Called with float32[n, size, size, 3] in [-1, 1] (`train` changes nothing: there is no
    stochastic depth), it returns float32[n, features], twice the last stage's channels.

    Source: Brock et al., High-Performance Large-Scale Image Recognition Without Normalization
      (2021b), section 4, table 1,
    appendix; scales of the activation and of the blocks: Brock et al., Characterizing Signal
    Propagation (2021a). Padding is "same" and GELU the tanh form, as in their code.
    """

    stage_sizes: tuple[int, ...] = (1, 2, 6, 3)
    width: int = 256
    group_width: int = 128

    def problem(self) -> str:
        """Returns what is wrong with the options together, or nothing."""
        if len(self.stage_sizes) > len(MULTIPLES):
            return (
                f"stage_sizes is {self.stage_sizes!r}; there can be at most {len(MULTIPLES)}"
                " stages."
            )
        if self.width % 16 or self.width // 2 % self.group_width:
            return (
                f"width is {self.width}; it must be a multiple of 16, and its half of group_width,"
                f" {self.group_width}."
            )
        return ""

    @nn.compact
    def __call__(self, images: jax.Array, train: bool = False) -> jax.Array:
        del train
        x = images
        for number, (share, stride) in enumerate(STEM):
            x = StandardisedConv(int(self.width * share), 3, stride)(activate(x) if number else x)
        variance = 1.0
        for stage, blocks in enumerate(self.stage_sizes):
            for block in range(blocks):
                first = block == 0
                stride = 2 if first and stage > 0 else 1
                x = NFBlock(
                    self.width * MULTIPLES[stage], stride, self.group_width, variance**-0.5, first
                )(x)
                variance = (1.0 if first else variance) + ALPHA**2
        return activate(StandardisedConv(2 * x.shape[-1])(x)).mean(axis=(1, 2))
