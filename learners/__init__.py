"""The learners: one module each with `build(config) -> Learner`, found by scanning this package."""

import importlib
import pkgutil

from nevis_stream.errors import BadInput, unknown
from nevis_stream.learner import Learner


def names() -> tuple[str, ...]:
    """Returns the names of all learners."""
    return tuple(
        sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)
    )


def build(name: str, config) -> Learner:
    """Builds a learner by name from a resolved config (see experiments/run_config.py).

    Raises:
      BadInput: no such learner, or a value of the config that it cannot use.
    """
    if name not in names():
        raise BadInput(unknown("learner", name, names()))
    return importlib.import_module(f"{__name__}.{name}").build(config)
