"""Jitted functions that know what each call costs."""

import functools
from collections.abc import Callable
from typing import Any

import jax

from nevis_stream import compilations, flops

compilations.listen()


class CountedFunction:
    """A jitted function with the FLOPs of one call, counted once for each new signature (shapes and dtypes).

    Args:
      function: a function that `jax.jit` accepts.
      options: passed on to `jax.jit`.
    """

    def __init__(self, function: Callable, **options: Any):
        self._jitted = jax.jit(function, **options)
        self._flops: dict[Any, int] = {}

    def flops(self, *args: Any) -> int:
        """Returns the FLOPs of one call; `jax.ShapeDtypeStruct` may stand for arrays.

        Raises:
          CostUnknown: the program's cost cannot be counted.
        """
        signature = _signature(args)
        if signature not in self._flops:
            self._flops[signature] = flops.count_jaxpr(self._jitted.trace(*args).jaxpr)
        return self._flops[signature]

    def __call__(self, *args: Any) -> Any:
        return self._jitted(*args)

    @property
    def signatures(self) -> int:
        """How many signatures have been met: the number of programs compiled for this function."""
        return len(self._flops)


def _signature(args: Any) -> Any:
    leaves, structure = jax.tree_util.tree_flatten(args)
    return structure, tuple(
        (leaf.shape, leaf.dtype) if hasattr(leaf, "shape") else type(leaf) for leaf in leaves
    )


@functools.cache
def counted(function: Callable, **options: Any) -> CountedFunction:
    """Returns the one `CountedFunction` of this function in this process, so that it is compiled once per signature.

    Give it the same function object every time (a module-level function, or one from a cached factory); hyper-parameters
    belong into the arguments, as scalars, not into a closure.
    """
    return CountedFunction(function, **options)
