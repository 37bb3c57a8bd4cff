"""Vision transformers."""

import jax
from flax import linen as nn

from nevis_stream.errors import BadInput


class Attention(nn.Module):
    """Self-attention of `heads` heads over float32[n, tokens, width].

    Source: Vaswani et al., Attention Is All You Need (2017), section 3.2.
    """

    heads: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        n, tokens, width = x.shape
        qkv = nn.Dense(3 * width, kernel_init=nn.initializers.xavier_uniform(), name="qkv")(x)
        q, k, v = (
            part.reshape(n, tokens, self.heads, -1) for part in jax.numpy.split(qkv, 3, axis=-1)
        )
        mixed = jax.nn.dot_product_attention(q, k, v).reshape(n, tokens, width)
        return nn.Dense(width, kernel_init=nn.initializers.xavier_uniform(), name="out")(mixed)


class EncoderBlock(nn.Module):
    """Attention, then two dense layers with GELU, each normalised before and added to its input.

    Source: Dosovitskiy et al. (2021), equations 2 and 3; four times the width between the dense
      layers: table 1.
    """

    heads: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = x + Attention(self.heads)(nn.LayerNorm(1e-6)(x))
        dense = [
            nn.Dense(size, kernel_init=nn.initializers.xavier_uniform())
            for size in (4 * x.shape[-1], x.shape[-1])
        ]
        return x + dense[1](nn.gelu(dense[0](nn.LayerNorm(1e-6)(x))))


class ViT(nn.Module):
    """Vision transformer without a class token.

    The result is the normalised average over the patches.

    Attributes:
      patch: side of a patch in pixels.
      width: of a token.
      depth: number of blocks.
      heads: of each block's attention; they divide `width`.

    Called with float32[n, size, size, 3] in [-1, 1] (`train` changes nothing), it returns
    float32[n, width]; `patch` must divide the size. The learned position embedding belongs to one
    size: (size / patch)² tokens.

    Source: Dosovitskiy et al., An Image is Worth 16x16 Words (2021), equations 1 to 4, table 1;
      average instead of the class
    token: its Appendix D.3. GELU is the tanh form, as in its code.
    """

    patch: int = 8
    width: int = 768
    depth: int = 12
    heads: int = 12

    def problem(self) -> str:
        """Returns what is wrong with the options together, or nothing."""
        return (
            f"width is {self.width}; it must be a multiple of heads, {self.heads}."
            if self.width % self.heads
            else ""
        )

    @nn.compact
    def __call__(self, images: jax.Array, train: bool = False) -> jax.Array:
        del train
        if any(side % self.patch for side in images.shape[1:3]):
            raise BadInput(
                f"images of {images.shape[1]}×{images.shape[2]} pixels; patch, {self.patch}, must"
                " divide both."
            )
        n, height, width, channels = images.shape
        grid = (height // self.patch, width // self.patch)
        patches = images.reshape(n, grid[0], self.patch, grid[1], self.patch, channels).swapaxes(
            2, 3
        )
        x = nn.Dense(self.width, name="patches")(patches.reshape(n, grid[0] * grid[1], -1))
        x = x + self.param("positions", nn.initializers.normal(0.02), x.shape[1:])
        for _ in range(self.depth):
            x = EncoderBlock(self.heads)(x)
        return nn.LayerNorm(1e-6)(x.mean(axis=1))
