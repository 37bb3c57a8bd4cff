"""Checks the shapes in annotations of the packages of mathematics, at every call in tests.

Only arrays are checked: what else is annotated is checked by mypy. It makes tests take half as long
again, so `tests/test_array_shapes.py` runs some with it.
"""

import os

import numpy as np

from nevis_stream import array_types

PACKAGES = ("active_testing", "dynamic_evaluation", "estimation", "experiments.methods")
WANTED = "NEVIS_STREAM_CHECK_SHAPES"


def check_arrays(function):
    """Returns a function whose arguments and result of an array type are checked."""
    import beartype

    hints = function.__annotations__.items()
    function.__annotations__ = {name: hint for name, hint in hints if "jaxtyping" in repr(hint)}
    return beartype.beartype(function)


class OfEither:
    """A type of jaxtyping that takes NumPy's arrays for JAX's, as every JAX function does."""

    def __init__(self, kind):
        self.kind = kind

    def __getitem__(self, item):
        import jax

        array, shape = item
        return self.kind[np.ndarray | jax.Array if array is jax.Array else array, shape]


def install_if_wanted():
    """Checks what is imported from now on, if the environment asks for it."""
    if WANTED not in os.environ:
        return
    import jaxtyping

    for name in array_types.__all__:
        setattr(array_types, name, OfEither(getattr(jaxtyping, name)))
    modules = [f"nevis_stream.{name}" for name in PACKAGES]
    jaxtyping.install_import_hook(modules, "tests.array_shapes.check_arrays")
