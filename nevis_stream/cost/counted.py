"""Jitted functions that know the FLOPs of each call.

The canonical program is counted. Code that has a faster form of the same computation calls
`faster_form()` while it is traced, to learn which of the two forms is needed.
"""

import contextvars
import functools
import threading
from collections.abc import Callable
from typing import Any

import jax

from nevis_stream.cost import compilations, flops
from nevis_stream.errors import CostUnknown

compilations.listen()
_MEASURED_JAX = (0, 10)


class _Tracing:
    """The current tracing: whether the canonical form is needed, and whether another was used."""

    def __init__(self, canonical: bool):
        self.canonical, self.differs = canonical, False


_tracing: contextvars.ContextVar[_Tracing | None] = contextvars.ContextVar("tracing", default=None)


def faster_form() -> bool:
    """Whether code being traced should use its faster form, not the canonical, counted one."""
    tracing = _tracing.get()
    if tracing is None:
        return True
    tracing.differs = not tracing.canonical
    return not tracing.canonical


def plain_convolutions() -> dict[str, str]:
    """Returns XLA options for gradients of convolutions on large maps: no YNN on a CPU.

    With YNN the gradients of kernels run at 15 to 70% of peak and are less exact; without it they
    run at 60 to 100%. On small maps YNN is as fast or faster (docs/decisions/0030). The option is
    experimental, so it is used only with the version of JAX that was measured.
    """
    if jax.default_backend() != "cpu" or jax.__version_info__[:2] != _MEASURED_JAX:
        return {}
    fusions = "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_REDUCE"
    return {"xla_cpu_experimental_ynn_fusion_type": fusions}


class CountedFunction:
    """A jitted function with the FLOPs of one call, counted once for each signature.

    Args:
      function: a function that `jax.jit` accepts; its attribute `compiler_options`, if it has one,
        goes to XLA.
      options: passed on to `jax.jit`.
    """

    def __init__(self, function: Callable, **options: Any):
        self._function = function
        self._options = {"compiler_options": getattr(function, "compiler_options", {})} | options
        self._jitted = jax.jit(function, **self._options)
        self._values_matter = any(name.startswith("static") for name in options)
        self._flops: dict[Any, int] = {}
        self._compiled: set[Any] = set()
        # trials may run in parallel, but each program is counted and compiled once
        self._lock = threading.Lock()

    def flops(self, *args: Any) -> int:
        """Returns the FLOPs of one call; `jax.ShapeDtypeStruct` may replace arrays.

        Raises:
          CostUnknown: the program's cost cannot be counted, or it is called while another program
            is traced.
        """
        return self._counted(self._signature(args), args)

    def charged(self, *args: Any) -> tuple[Any, int]:
        """Calls the function; returns its result and the FLOPs of the call.

        Raises:
          CostUnknown: as `flops`; then it is not called.
        """
        signature = self._signature(args)
        cost = self._counted(signature, args)
        if signature in self._compiled:
            return self._jitted(*args), cost
        with self._lock:  # other threads that need the same program wait for it
            result = self._jitted(*args)
            self._compiled.add(signature)
        return result, cost

    def _counted(self, signature: Any, args: Any) -> int:
        if signature not in self._flops:
            with self._lock:
                if signature not in self._flops:
                    self._flops[signature] = self._count(args)
        return self._flops[signature]

    def _count(self, args: Any) -> int:
        executed, differs = self._traced(self._jitted, args, canonical=False)
        if differs:  # for the same function object JAX would return the cached trace
            same = functools.wraps(self._function)(lambda *inner: self._function(*inner))
            executed, _ = self._traced(jax.jit(same, **self._options), args, canonical=True)
        return flops.count_jaxpr(executed)

    @staticmethod
    def _traced(jitted: Any, args: Any, canonical: bool) -> tuple[Any, bool]:
        """Returns the traced program, and whether it has a form that is not the canonical one."""
        tracing = _Tracing(canonical)
        token = _tracing.set(tracing)
        try:
            return jitted.trace(*args).jaxpr, tracing.differs
        finally:
            _tracing.reset(token)

    def compile(self, *args: Any) -> None:
        """Compiles for this signature without a call; `jax.ShapeDtypeStruct` may replace arrays."""
        self.flops(*args)
        self._jitted.lower(*args).compile()

    def __call__(self, *args: Any) -> Any:
        return self.charged(*args)[0]

    def _signature(self, args: Any) -> Any:
        leaves, structure = jax.tree_util.tree_flatten(args)
        key = []
        for leaf in leaves:
            if isinstance(leaf, jax.core.Tracer):
                raise CostUnknown(
                    "a function from ctx.jit was called inside another compiled or differentiated"
                    " function, where its calls cannot be counted. Use the plain function there,"
                    " and ctx.jit for the outermost one."
                )
            if hasattr(leaf, "shape"):
                key.append((leaf.shape, leaf.dtype))
            else:
                key.append(leaf if self._values_matter else type(leaf))
        return structure, tuple(key)


def made_once(factory: Callable) -> Callable:
    """As `functools.cache`, but threads that call at the same time get the same result.

    (`functools.cache` may call the function once in each of two threads, which makes two programs
    that are both compiled.)
    """
    cached, lock = functools.cache(factory), threading.RLock()

    @functools.wraps(factory)
    def make(*args, **options):
        with lock:
            return cached(*args, **options)

    return make


@made_once
def counted(function: Callable, **options: Any) -> CountedFunction:
    """Returns the one `CountedFunction` of this function in this process.

    Pass the same function object every time (a module-level function, or one from a cached
    factory), and hyper-parameters as scalar arguments, not in a closure.
    """
    return CountedFunction(function, **options)
