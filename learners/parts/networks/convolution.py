"""Convolutions, and the batch normalisation that follows them."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import linen as nn

from nevis_stream.cost.counted import faster_form

SMALL_MAP = 4  # pixels
PADDINGS = ("same", "torch")
_kaiming = nn.initializers.variance_scaling(2.0, "fan_out", "normal")


def pads(side: int, size: int, stride: int, padding: str) -> tuple[int, int]:
    """Returns the pixels put before and after a side so that ⌈side / stride⌉ windows fit.

    The windows' `size` is odd.

    "same" (XLA) puts the odd pixel after; "torch" puts (size - 1) / 2 before, whatever the stride.
    They differ only where the stride is more than 1.

    >>> pads(64, 3, 2, "same"), pads(64, 3, 2, "torch")
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
    around = [pads(side, size, stride, padding) for side in x.shape[1:3]]
    if (
        out[0] * out[1] > SMALL_MAP
        or groups > 1
        or jax.default_backend() != "cpu"
        or not faster_form()
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
      padding: "same" or "torch", see `pads`.
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


def batch_norm(train: bool, scale_init: Callable = nn.initializers.ones) -> nn.BatchNorm:
    """Returns the normalisation by the batch's statistics (`train`), or by the running ones."""
    return nn.BatchNorm(not train, momentum=0.9, epsilon=1e-5, scale_init=scale_init)
