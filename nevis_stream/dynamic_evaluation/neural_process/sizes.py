"""Sizes of the network of the neural process."""

from typing import NamedTuple

FEW, SOME = 40, 500  # numbers of known models up to which a network is small


class Sizes(NamedTuple):
    """Sizes of a network, from table A.1.

    Attributes:
      width: of the layers.
      layers: of encoder and decoder each.
      points: induced points; 0: layers treat each element alone.
      latent: of the latent variable.
    """

    width: int
    layers: int
    points: int
    latent: int


def sizes(models: int) -> Sizes:
    """Returns the sizes for a number of known models: those of HELM-Lite (23 known models in the
    paper), AlpacaEval (91) and MMLU (1,000).
    """
    if models < FEW:
        return Sizes(32, 1, 0, 16)
    return Sizes(32, 1, 16, 16) if models < SOME else Sizes(32, 2, 16, 32)
