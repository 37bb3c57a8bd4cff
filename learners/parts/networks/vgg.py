"""Plain stacks of 3×3 convolutions."""

import jax
from flax import linen as nn

from nevis_stream.learners.parts.networks.convolution import Conv, batch_norm


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
                x = nn.relu(batch_norm(train)(x) if self.norm else x)
            x = nn.max_pool(x, (2, 2), (2, 2), "SAME")
        x = x.mean(axis=(1, 2))
        for units in self.hidden:
            x = nn.relu(nn.Dense(units, kernel_init=nn.initializers.he_normal())(x))
        return x
