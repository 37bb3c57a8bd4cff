"""Computing that is counted: functions are compiled, their FLOPs charged, random numbers named."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from nevis_stream.cost.meter import Meter
from nevis_stream.seeds import generator, key_of, make_path_seed, seed_for

if TYPE_CHECKING:
    import jax


class Compute:
    """Compiles functions, charges their FLOPs to a meter, and names random numbers.

    Args:
      path: names what is computed; the seed is made from it.
      phase: the phase that is charged, one of `nevis_stream.vocabulary.PHASES`.
      trial: the number of the trial that is charged, or None.

    Attributes:
      trial: as given.
      meter: the FLOPs charged so far.
      counts_only: whether programs are counted and not run.
    """

    counts_only = False

    def __init__(self, path: tuple[str, ...], phase: str, trial: int | None = None):
        self._path = path
        self._phase = phase
        self.trial = trial
        self.meter = Meter()

    @functools.cached_property
    def seed(self) -> int:
        """An integer in [0, 2**63) that belongs to the path."""
        return make_path_seed(self._path)

    @classmethod
    def standalone(
        cls, seed: int = 0, phase: str = "predict", *, path: tuple[str, ...] = ()
    ) -> Self:
        """Returns one without a run, of which nothing is saved.

        Args:
          seed: the root of all random numbers.
          phase: the phase that is charged, one of `nevis_stream.vocabulary.PHASES`.
          path: names the use, so that two uses of one seed draw different numbers.

        >>> ctx = Compute.standalone(seed=3, phase="select")
        >>> ctx.charge(10)
        >>> ctx.meter.counts()
        {'select': {'-': 10}}
        """
        return cls(path=(f"seed {seed}", *path), phase=phase)

    def generator(self, *name: str | int) -> np.random.Generator:
        """Returns a new NumPy generator for one use, such as `("batches", epoch)`; the same name
        gives the same numbers, another name unrelated ones.
        """
        return generator(self.seed, *name)

    def seed_for(self, *name: str | int, bits: int = 63) -> int:
        """Returns an integer in [0, 2**bits) for one use, as `generator`; NumPy's `RandomState` and
        scikit-learn take `bits=32`.
        """
        return seed_for(self.seed, *name, bits=bits)

    def key_for(self, *name: str | int) -> "jax.Array":
        """Returns a JAX key for one use, as `generator`."""
        return key_of(self.seed_for(*name))

    @property
    def key(self) -> "jax.Array":
        """A JAX key made from `seed`; split or fold it, never use one twice."""
        return key_of(self.seed)

    def jit(self, function: Callable | None = None, **options: Any) -> Callable:
        """Returns `function` compiled by `jax.jit(function, **options)`; every call charges its
        FLOPs to the meter. Options alone give a decorator.

        In one process, a function object is compiled once for each signature, also if several
        contexts ask, and its programs are freed with it. Take it from module level or from a cached
        factory, and pass hyper-parameters as arguments.

        Raises (when called):
          CostUnknown: the program's FLOPs cannot be counted, or it is called while another program
            is traced.
        """
        if function is None:
            return functools.partial(self.jit, **options)
        from nevis_stream.cost.counted import make_counted

        program = make_counted(function, **options)

        @functools.wraps(function, updated=())
        def call(*args, **named):
            result, flops = program.call_and_count(*args, **named)
            self.charge(flops)
            return result

        return call

    def compile(
        self, programs: Sequence[tuple[Callable, Sequence[Any], Mapping[str, Any]]]
    ) -> None:
        """Compiles programs in parallel before they are needed; nothing is run or charged.

        Args:
          programs: for each the function, its arguments (`jax.ShapeDtypeStruct` instead of arrays)
            and the options of `jit`. A later `ctx.jit(function, **options)` with such arguments
            does not compile again.
        """
        from concurrent.futures import ThreadPoolExecutor

        from nevis_stream.cost.counted import make_counted

        with ThreadPoolExecutor() as pool:
            jobs = [
                pool.submit(make_counted(function, **options).compile, *args)
                for function, args, options in programs
            ]
            for job in jobs:
                job.result()

    def charge(self, flops: int) -> None:
        """Adds FLOPs that `jit` does not see to the current phase and trial.

        Raises:
          LearnerFault: not a whole number from 0 upwards.
        """
        self.meter.charge(flops, self._phase, self.trial)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Charges what runs inside the block to another phase, such as `select` or `validate`."""
        before, self._phase = self._phase, name
        try:
            yield
        finally:
            self._phase = before

    def progress(self, step: int, steps: int) -> None:
        """Reports that `step` of `steps` steps are done; here to nobody."""


class Uncounted(Compute):
    """Compiles without counting FLOPs, where nobody is told of them: counting a program takes about
    as long as compiling it.
    """

    def jit(self, function: Callable | None = None, **options: Any) -> Callable:
        """As `Compute.jit`, with the same programs."""
        if function is None:
            return functools.partial(self.jit, **options)
        from nevis_stream.cost.counted import make_counted

        return make_counted(function, **options).call

    def charge(self, flops: int) -> None:
        """Does nothing."""
