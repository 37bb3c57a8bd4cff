"""Jitted functions that know what each call costs."""

import functools
from collections.abc import Callable
from typing import Any

import jax

from nevis_stream import compilations, flops
from nevis_stream.errors import CostUnknown

compilations.listen()


class CountedFunction:
    """A jitted function with the FLOPs of one call, counted once for each new signature (shapes and dtypes).

    Args:
      function: a function that `jax.jit` accepts.
      options: passed on to `jax.jit`.
    """

    def __init__(self, function: Callable, **options: Any):
        self._jitted = jax.jit(function, **options)
        self._values_matter = any(name.startswith("static") for name in options)
        self._flops: dict[Any, int] = {}

    def flops(self, *args: Any) -> int:
        """Returns the FLOPs of one call; `jax.ShapeDtypeStruct` may stand for arrays.

        Raises:
          CostUnknown: the program's cost cannot be counted, or it is called while another program is traced.
        """
        signature = self._signature(args)
        if signature not in self._flops:
            self._flops[signature] = flops.count_jaxpr(self._jitted.trace(*args).jaxpr)
        return self._flops[signature]

    def compile(self, *args: Any) -> None:
        """Compiles for this signature now, without a call; `jax.ShapeDtypeStruct` may stand for arrays."""
        self.flops(*args)
        self._jitted.lower(*args).compile()

    def __call__(self, *args: Any) -> Any:
        return self._jitted(*args)

    def _signature(self, args: Any) -> Any:
        leaves, structure = jax.tree_util.tree_flatten(args)
        key = []
        for leaf in leaves:
            if isinstance(leaf, jax.core.Tracer):
                raise CostUnknown(
                    "a function from ctx.jit was called inside another compiled or differentiated function, where its calls "
                    "cannot be counted. Use the plain function there, and ctx.jit for the outermost one."
                )
            if hasattr(leaf, "shape"):
                key.append((leaf.shape, leaf.dtype))
            else:
                key.append(leaf if self._values_matter else type(leaf))
        return structure, tuple(key)

    @property
    def signatures(self) -> int:
        """How many signatures have been met: the number of programs compiled for this function."""
        return len(self._flops)


@functools.cache
def counted(function: Callable, **options: Any) -> CountedFunction:
    """Returns the one `CountedFunction` of this function in this process, so that it is compiled once per signature.

    Give it the same function object every time (a module-level function, or one from a cached factory); hyper-parameters
    belong into the arguments, as scalars, not into a closure.
    """
    return CountedFunction(function, **options)
