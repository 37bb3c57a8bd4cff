"""Functions from `ctx.jit`: what they take, what they are charged, and how long they are kept."""

import functools
import gc
import weakref
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nevis_stream.cost import counted as counted_module
from nevis_stream.cost.meter import total
from nevis_stream.errors import BadInput, CostUnknown
from nevis_stream.learner import Context

X = np.ones((8, 8), np.float32)
PRODUCT = 2 * 8**3


def repeated(x, n=1):
    for _ in range(n):
        x = x @ x
    return x


def charged(call) -> int:
    ctx = Context.standalone(phase="train")
    call(ctx)
    return total(ctx.meter.counts())


CALLS = {
    "keyword of an array": lambda ctx: ctx.jit(repeated)(x=X, n=1),
    "static names as a list": lambda ctx: ctx.jit(repeated, static_argnames=["n"])(X, 3),
    "static keyword": lambda ctx: ctx.jit(repeated, static_argnames=("n",))(X, n=3),
    "decorator": lambda ctx: ctx.jit(static_argnames=("n",))(repeated)(X, n=3),
    "static place, given by name": lambda ctx: ctx.jit(repeated, static_argnums=[1])(X, n=3),
    "static place from the end": lambda ctx: ctx.jit(repeated, static_argnums=-1)(X, 3),
    "donated names": lambda ctx: ctx.jit(repeated, static_argnums=1, donate_argnums=[0])(X, 3),
    "partial": lambda ctx: ctx.jit(functools.partial(repeated, n=3))(X),
    "jitted": lambda ctx: ctx.jit(jax.jit(repeated, static_argnames="n"), static_argnums=1)(X, 3),
    "lambda": lambda ctx: ctx.jit(lambda x: repeated(x, 3))(X),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_takes_what_jax_takes(name):
    if name == "keyword of an array":  # n is traced, and a range needs a number
        with pytest.raises(jax.errors.TracerIntegerConversionError):
            charged(CALLS[name])
        assert charged(lambda ctx: ctx.jit(jnp.matmul)(a=X, b=X)) == PRODUCT
    else:
        assert charged(CALLS[name]) == 3 * PRODUCT


def test_static_values_of_different_types_are_different_programs():
    def power(x, n):
        return x**n

    for values in ((3, 3.0), (3.0, 3)):
        ctx, costs = Context.standalone(phase="train"), []
        program = ctx.jit(power, static_argnums=1)
        for n in values:
            before = total(ctx.meter.counts())
            program(X, n)
            costs.append(total(ctx.meter.counts()) - before)
        assert costs == [2 * 64 if type(n) is int else 0 for n in values]
    with pytest.raises(BadInput, match="static argument 1 is a list, which has no hash; a tuple"):
        ctx.jit(power, static_argnums=1)(X, [3])


class Slotted:
    __slots__ = ()

    def __call__(self, x):
        return x @ x


@dataclass
class Unhashable:
    width: int = 3

    def __call__(self, x):
        return x @ x

    def step(self, x):
        return x @ x


def test_methods_and_objects_are_programs_too():
    thing = Unhashable()
    for function in (thing, thing.step, Slotted()):
        assert charged(lambda ctx, f=function: (ctx.jit(f)(X), ctx.jit(f)(X))) == 2 * PRODUCT
    before = jax_compilations()
    for _ in range(3):  # each `thing.step` is another object, but the same method
        assert charged(lambda ctx: ctx.jit(thing.step)(X)) == PRODUCT
    assert jax_compilations() == before


def jax_compilations():
    from nevis_stream.cost import counted

    return counted.count_compilations()[0]


def test_a_program_is_freed_with_its_function():
    def task():
        data = np.ones(1000, np.float32)
        reference = weakref.ref(data)

        def function(w):
            return w * float(data[0])

        assert charged(lambda ctx: ctx.jit(function)(X)) == 64
        return reference

    before = len(counted_module._programs)
    kept = [task() for _ in range(3)]
    gc.collect()
    assert [reference() for reference in kept] == [None] * 3
    assert len(counted_module._programs) == before


def test_a_program_in_use_keeps_its_function():
    ctx = Context.standalone(phase="train")
    program = ctx.jit(lambda x: x @ x)
    shared = counted_module.make_counted(lambda x: x @ x)
    gc.collect()
    assert program(X).shape == (8, 8) and shared.flops(X) == PRODUCT


@pytest.mark.parametrize("around", [jax.jit, jax.vmap, lambda f: jax.grad(lambda x: f(x).sum())])
@pytest.mark.parametrize("kind", ["constant", "charge", "meter"])
def test_nothing_is_charged_while_another_program_is_traced(around, kind):
    ctx = Context.standalone(phase="train")
    inner = ctx.jit(repeated)
    inner(X)
    before = ctx.meter.counts()

    def outer(x):
        if kind == "constant":
            return x + inner(X)[0, 0]
        (ctx.charge if kind == "charge" else lambda n: ctx.meter.charge(n, "train", None))(5)
        return x * 2

    with pytest.raises(CostUnknown, match="inside another compiled or differentiated function"):
        around(outer)(np.ones(3, np.float32))
    assert ctx.meter.counts() == before
