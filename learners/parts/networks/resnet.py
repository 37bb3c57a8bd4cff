"""Residual networks of basic or of bottleneck blocks."""

import jax
from flax import linen as nn

from nevis_stream.learners.parts.networks.convolution import PADDINGS, Conv, batch_norm, pads

STEMS = {"small": (3, 1), "strided": (3, 2), "standard": (7, 2)}  # kernel size, stride


def _last(zero: bool):
    return nn.initializers.zeros if zero else nn.initializers.ones


class BasicBlock(nn.Module):
    """Two 3×3 convolutions added to their input, which is projected (1×1) where its shape changes.

    Source: He et al., Deep Residual Learning (2016), figure 5 left and option B.
    """

    channels: int
    stride: int
    zero_init_last: bool
    padding: str = "same"

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        y = nn.relu(batch_norm(train)(Conv(self.channels, 3, self.stride, self.padding)(x)))
        y = batch_norm(train, _last(self.zero_init_last))(Conv(self.channels, 3, 1)(y))
        if x.shape != y.shape:
            x = batch_norm(train)(Conv(self.channels, 1, self.stride)(x))
        return nn.relu(x + y)


class BottleneckBlock(nn.Module):
    """1×1, 3×3 and 1×1 convolutions, added to their input as in a basic block.

    The last has four times the channels.

    The 3×3 convolution has the stride, as in torchvision; He et al. give it to the first 1×1.

    Source: He et al. (2016), figure 5 right and option B.
    """

    channels: int
    stride: int
    zero_init_last: bool
    padding: str = "same"

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        y = nn.relu(batch_norm(train)(Conv(self.channels, 1, 1)(x)))
        y = nn.relu(batch_norm(train)(Conv(self.channels, 3, self.stride, self.padding)(y)))
        y = batch_norm(train, _last(self.zero_init_last))(Conv(4 * self.channels, 1, 1)(y))
        if x.shape != y.shape:
            x = batch_norm(train)(Conv(4 * self.channels, 1, self.stride)(x))
        return nn.relu(x + y)


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
        x = nn.relu(batch_norm(train)(Conv(self.width, *STEMS[self.stem], self.padding)(images)))
        if self.stem == "standard":
            x = nn.max_pool(
                x, (3, 3), (2, 2), [pads(side, 3, 2, self.padding) for side in x.shape[1:3]]
            )
        for stage, blocks in enumerate(self.stage_sizes):
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                x = BLOCKS[self.block](
                    self.width * 2**stage, stride, self.zero_init_last, self.padding
                )(x, train)
        return x.mean(axis=(1, 2))
