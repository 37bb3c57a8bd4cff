"""The surrogates by name: a new one is a new file in `surrogates`."""

from nevis_stream.active_testing import surrogates
from nevis_stream.active_testing.material import Material
from nevis_stream.active_testing.testing import Surrogate
from nevis_stream.dynamic_evaluation.registry import named, scanned

SURROGATES = scanned(surrogates, "SURROGATE")


def build_surrogate(name: str, material: Material, seed: int = 0) -> Surrogate:
    """Returns a surrogate.

    Args:
      name: a name of `SURROGATES`.
      material: what is known before any label.
      seed: of its random numbers.

    Raises:
      BadInput: no such surrogate, or something that it needs is missing.
    """
    kind = named(SURROGATES, "surrogate", name)
    kind.check(name, material)
    return kind.build(material, seed)
