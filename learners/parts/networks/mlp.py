"""Multi-layer perceptron."""

import jax
from flax import linen as nn


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
