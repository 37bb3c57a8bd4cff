"""Jitted functions that know the FLOPs of each call, and the compilations in this process.

The canonical program is counted. Code that has a faster form of the same computation calls
`wants_faster_form()` while it is traced, to learn which of the two forms is needed.
"""

import contextlib
import contextvars
import copy
import functools
import inspect
import threading
import types
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import jax

from nevis_stream.cost import flops
from nevis_stream.cost.meter import refuse_while_tracing
from nevis_stream.errors import BadInput

_compilations = 0
_seconds = 0.0


def count_compilations() -> tuple[int, float]:
    """Returns the number of compilations since `listen` was called, and their seconds."""
    return _compilations, _seconds


def listen() -> None:
    """Starts counting compilations; called once, below."""

    def add(event: str, seconds: float, **facts) -> None:
        global _compilations, _seconds
        if event == "/jax/core/compile/backend_compile_duration":
            _compilations += 1
            _seconds += seconds

    jax.monitoring.register_event_duration_secs_listener(add)


listen()
_MEASURED_JAX = (0, 10)


class _Tracing:
    """The current tracing: whether the canonical form is needed, and whether another was used."""

    def __init__(self, canonical: bool):
        self.canonical, self.differs = canonical, False


_tracing: contextvars.ContextVar[_Tracing | None] = contextvars.ContextVar("tracing", default=None)


def wants_faster_form() -> bool:
    """Whether code being traced should use its faster form, not the canonical, counted one."""
    tracing = _tracing.get()
    if tracing is None:
        return True
    tracing.differs = not tracing.canonical
    return not tracing.canonical


def choose_convolution_options() -> dict[str, str]:
    """Returns XLA options for gradients of convolutions on large maps: no YNN (YNNPACK, XLA's
    library of CPU kernels) on a CPU.

    With YNN the gradients of kernels run at 15 to 70% of peak and are less exact; without it they
    run at 60 to 100%. On small maps YNN is as fast or faster (docs/decisions/0030). The option is
    experimental, so it is used only with the version of JAX that was measured.
    """
    if jax.default_backend() != "cpu" or jax.__version_info__[:2] != _MEASURED_JAX:
        return {}
    fusions = "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_REDUCE"
    return {"xla_cpu_experimental_ynn_fusion_type": fusions}


def multiply_in_full_precision(function: Callable) -> Callable:
    """Decorates a function, so that what it multiplies in float32 is multiplied in float32.

    On recent GPUs, JAX rounds the factors of float32 products to TF32, of 11 significant bits. That
    suits networks; Cholesky factors of Gram matrices, and posteriors that rank samples, it spoils.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if jax.default_backend() == "cpu":
            return function(*args, **kwargs)
        with jax.default_matmul_precision("highest"):
            return function(*args, **kwargs)

    return call


def find_default_device() -> jax.Device | None:
    """Returns the device that `jax.default_device` has chosen here; None stands for the first."""
    return jax.config.jax_default_device  # type: ignore[attr-defined]


class CountedFunction:
    """A jitted function with the FLOPs of one call, counted once for each signature.

    Args:
      function: a function that `jax.jit` accepts; its attribute `compiler_options`, if it has one,
        goes to XLA.
      options: passed on to `jax.jit`.
    """

    def __init__(self, function: Callable, **options: Any):
        self.function: Callable | None = function
        self._function = _weak(function)
        self._where = flops.place_of(function)
        self._options = {"compiler_options": getattr(function, "compiler_options", {})} | options
        self._jitted = jax.jit(self._function, **self._options)
        self._static_places, self._static_names = _static(self._function, options)
        self._flops: dict[Any, int] = {}
        self._compiled: set[Any] = set()
        # trials may run in parallel, but each program is counted and compiled once
        self._lock = threading.Lock()

    def flops(self, *args: Any, **named: Any) -> int:
        """Returns the FLOPs of one call; `jax.ShapeDtypeStruct` may replace arrays.

        Raises:
          CostUnknown: the program's cost cannot be counted, or it is called while another program
            is traced.
        """
        return self._count(self._signature(args, named), args, named)

    def call_and_count(self, *args: Any, **named: Any) -> tuple[Any, int]:
        """Calls the function; returns its result and the FLOPs of the call.

        Raises:
          CostUnknown: as `flops`; then it is not called.
        """
        signature = self._signature(args, named)
        cost = self._count(signature, args, named)
        return self._call(signature, args, named), cost

    def call(self, *args: Any, **named: Any) -> Any:
        """Calls the function without counting."""
        return self._call(self._signature(args, named), args, named)

    def _call(self, signature: Any, args: Any, named: Any) -> Any:
        if signature in self._compiled:
            return self._jitted(*args, **named)
        with self._lock:  # other threads that need the same program wait for it
            result = self._jitted(*args, **named)
            self._compiled.add(signature)
        return result

    def shapes(self, *args: Any, **named: Any) -> Any:
        """Returns the shapes and dtypes of the result of a call."""
        return self._jitted.eval_shape(*args, **named)

    def _count(self, signature: Any, args: Any, named: Any) -> int:
        if signature not in self._flops:
            with self._lock:
                if signature not in self._flops:
                    self._flops[signature] = self._count_program(args, named)
        return self._flops[signature]

    def _count_program(self, args: Any, named: Any) -> int:
        executed, differs = self._trace(self._jitted, args, named, canonical=False)
        if differs:  # for the same function object JAX would return the cached trace
            same = _same_signature(lambda *a, **n: self._function(*a, **n), self._function)
            jitted = jax.jit(same, **self._options)
            executed, _ = self._trace(jitted, args, named, canonical=True)
        return flops.count_jaxpr(executed, self._where)

    @staticmethod
    def _trace(jitted: Any, args: Any, named: Any, canonical: bool) -> tuple[Any, bool]:
        """Returns the traced program, and whether it has a form that is not the canonical one."""
        tracing = _Tracing(canonical)
        token = _tracing.set(tracing)
        try:
            return jitted.trace(*args, **named).jaxpr, tracing.differs
        finally:
            _tracing.reset(token)

    def compile(self, *args: Any, **named: Any) -> None:
        """Compiles for this signature without a call; `jax.ShapeDtypeStruct` may replace arrays."""
        self.flops(*args, **named)
        self._jitted.lower(*args, **named).compile()

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.call_and_count(*args, **named)[0]

    def _signature(self, args: Any, named: Any) -> Any:
        refuse_while_tracing("a function from ctx.jit was called")
        static: tuple[Any, ...] = ()
        if self._static_places or self._static_names:
            static, args, named = self._divide(args, named)
        leaves, structure = jax.tree_util.tree_flatten((args, named))
        key = [
            (leaf.shape, leaf.dtype, getattr(leaf, "weak_type", False))
            if hasattr(leaf, "shape")
            else type(leaf)
            for leaf in leaves
        ]
        return static, structure, tuple(key)

    def _divide(self, args: Any, named: Any) -> tuple[tuple, list, dict]:
        """Returns the static arguments with their types, and the others."""
        places = {
            place % len(args) for place in self._static_places if -len(args) <= place < len(args)
        }
        static = [(place, type(args[place]), args[place]) for place in sorted(places)]
        names = sorted(self._static_names & named.keys())
        static += [(name, type(named[name]), named[name]) for name in names]
        for name, _, value in static:
            try:
                hash(value)
            except TypeError:
                raise BadInput(
                    f"static argument {name!r} is a {type(value).__name__}, which has no hash; a"
                    " tuple has one."
                ) from None
        others = [arg for place, arg in enumerate(args) if place not in places]
        return tuple(static), others, {name: named[name] for name in named.keys() - set(names)}


def _weak(function: Callable) -> Callable:
    """Returns a function that calls `function` without keeping it alive."""
    try:
        reference = (
            weakref.WeakMethod(function)
            if isinstance(function, types.MethodType)
            else weakref.ref(function)
        )
    except TypeError:  # it has no weak references, for example an object with slots
        return _same_signature(lambda *args, **named: function(*args, **named), function)
    return _same_signature(lambda *args, **named: reference()(*args, **named), function)


def _same_signature(call: Any, function: Callable) -> Callable:
    """Gives a function the name and signature of another one, and returns it."""
    call.__name__ = getattr(function, "__name__", type(function).__name__)
    call.__qualname__ = getattr(function, "__qualname__", call.__name__)
    with contextlib.suppress(TypeError, ValueError):  # of some built-in functions it is not known
        call.__signature__ = inspect.signature(function)
    return call


def _static(function: Callable, options: Mapping[str, Any]) -> tuple[set[int], set[str]]:
    """Returns the places and names of static arguments, each completed by the other as in JAX."""
    places, names = options.get("static_argnums"), options.get("static_argnames")
    names = {names} if isinstance(names, str) else set(names or ())
    places = {places} if isinstance(places, int) else set(places or ())
    signature = getattr(function, "__signature__", None)
    if signature and bool(places) != bool(names):
        by_place = [
            parameter.name
            for parameter in signature.parameters.values()
            if parameter.kind == parameter.POSITIONAL_OR_KEYWORD
        ]
        if names:
            places = {by_place.index(name) for name in names if name in by_place}
        else:
            names = {by_place[place] for place in places if -len(by_place) <= place < len(by_place)}
    return places, names


def make_once(factory: Callable) -> Callable:
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


def make_counted(function: Any, **options: Any) -> CountedFunction:
    """Returns the `CountedFunction` of this function and these options. All that are asked for in
    this process share their programs and counts, which are forgotten with the function.

    Pass the same function object every time (a module-level function, or one from a cached
    factory), and hyper-parameters as scalar arguments, not in a closure.
    """
    owner, method = function, None
    if isinstance(function, types.MethodType):
        owner, method = function.__self__, function.__func__
    key = (method, _hashable(options))
    with _making:
        if id(owner) not in _programs:
            try:
                weakref.finalize(owner, _programs.pop, id(owner), None).atexit = False
                _programs[id(owner)] = {}
            except TypeError:  # without weak references it stays, so that its id stays its own
                _programs[id(owner)] = {None: owner}
        programs = _programs[id(owner)]
        if key not in programs:
            programs[key] = CountedFunction(function, **options)
            programs[key].function = None  # what is kept here does not keep it alive,
        asked = copy.copy(programs[key])
        asked.function = function  # but what is used does
        return asked


_programs: dict[int, dict[Any, Any]] = {}
"""By the id of a function, or of the object of a method: its programs."""
_making = threading.RLock()


def _hashable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return frozenset((name, _hashable(each)) for name, each in value.items())
    if isinstance(value, list | tuple):
        return tuple(_hashable(each) for each in value)
    return frozenset(value) if isinstance(value, set) else value
