"""Surrogates, which predict the labels of the pool, by name."""

from collections.abc import Mapping

from nevis_stream.active_testing.surrogate import (
    CalibratedModel,
    Ensemble,
    SurrogateBuilder,
    SurrogateData,
)
from nevis_stream.active_testing.surrogates.forest import Forest
from nevis_stream.active_testing.surrogates.known_networks import KnownNetworks, KnownNetworksHeads
from nevis_stream.active_testing.surrogates.networks import Bayesian, Heads, Networks
from nevis_stream.active_testing.testing import Surrogate
from nevis_stream.errors import look_up

SURROGATES: Mapping[str, SurrogateBuilder] = {
    "bayesian": Bayesian(),
    "ensemble": Ensemble(),
    "forest": Forest(),
    "heads": Heads(),
    "known_models": KnownNetworks(),
    "known_models_heads": KnownNetworksHeads(),
    "networks": Networks(),
    "tested_model": CalibratedModel(),
}


def build_surrogate(name: str, data: SurrogateData, seed: int = 0) -> Surrogate:
    """Returns a surrogate.

    Args:
      name: a name of `SURROGATES`.
      data: what is known before any label.
      seed: of its random numbers.

    Raises:
      BadInput: no such surrogate, or something that it needs is missing.
    """
    kind = look_up(SURROGATES, "surrogate", name)
    kind.check(name, data)
    return kind.build(data, seed)
