"""FLOP counts against analytic values, against XLA, and against a counter of another kind."""

import math
import os
import subprocess
import sys
import textwrap
import warnings

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from jax import numpy as jnp
from jaxlib import xla_client

from nevis_stream.cost import equations, flops
from nevis_stream.errors import CostUnknown

MATRIX = jax.ShapeDtypeStruct((16, 16), np.float32)
PRODUCT = 2 * 16**3  # of two such


def shaped(*shape, dtype=np.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def xla(fn, *args):
    """XLA's count of the whole program, by its client for the CPU: that of a GPU has none."""
    lowered = jax.jit(fn).trace(*args).lower(lowering_platforms=("cpu",))
    module = lowered.compiler_ir("hlo").as_hlo_module()
    return xla_client._xla.hlo_module_cost_analysis(equations._make_cpu_client(), module).get(
        "flops", 0
    )


# Dense and convolution


def test_dense_is_exact():
    def dense(x, kernel, bias):
        return jax.nn.relu(x @ kernel + bias)

    args = shaped(32, 100), shaped(100, 50), shaped(50)
    assert flops.count(dense, *args) == 2 * 32 * 100 * 50 + 2 * 32 * 50


def test_dense_gradients_are_two_more_products():
    def loss(x, kernel):
        return jnp.square(x @ kernel).sum()

    counted = flops.count(jax.value_and_grad(loss, argnums=(0, 1)), shaped(64, 96), shaped(96, 80))
    assert counted == pytest.approx(3 * 2 * 64 * 96 * 80, rel=0.02)


CONVOLUTIONS = {
    "same": {},
    "valid": {"padding": "VALID"},
    "stride": {"window_strides": (2, 2)},
    "stride_3_valid": {"window_strides": (3, 3), "padding": "VALID"},
    "wide_padding": {"padding": ((4, 1), (0, 5))},
    "dilated": {"rhs_dilation": (2, 2)},
    "transposed": {"lhs_dilation": (2, 2), "padding": ((2, 2), (1, 3))},
    "groups": {"feature_group_count": 4},
    "depthwise_stride": {"feature_group_count": 16, "window_strides": (2, 2)},
    "groups_dilated_valid": {"feature_group_count": 2, "rhs_dilation": (2, 2), "padding": "VALID"},
}


def convolution(options):
    options = {"window_strides": (1, 1), "padding": "SAME", **options}

    def convolve(x, kernel):
        return lax.conv_general_dilated(
            x, kernel, dimension_numbers=("NHWC", "HWIO", "NHWC"), **options
        )

    return (
        convolve,
        shaped(2, 11, 9, 16),
        shaped(3, 3, 16 // options.get("feature_group_count", 1), 32),
    )


@pytest.mark.parametrize("options", CONVOLUTIONS.values(), ids=CONVOLUTIONS.keys())
def test_convolution_counts_the_taps_that_meet_an_input(options):
    """A convolution of ones with ones adds up how many multiply-adds are not with padding."""
    convolve, x, kernel = convolution(options)
    multiply_adds = np.asarray(convolve(jnp.ones(x.shape), jnp.ones(kernel.shape)), int).sum()
    assert flops.count(convolve, x, kernel) == 2 * multiply_adds


@pytest.mark.parametrize("options", CONVOLUTIONS.values(), ids=CONVOLUTIONS.keys())
def test_each_gradient_of_a_convolution_costs_as_much_as_the_convolution(options):
    convolve, x, kernel = convolution(options)

    def gradients(x, kernel, change):  # without the forward pass, which is dead here
        return jax.vjp(convolve, x, kernel)[1](change)

    forward = flops.count(convolve, x, kernel)
    change = jax.eval_shape(convolve, x, kernel)
    assert flops.count(gradients, x, kernel, change) == pytest.approx(2 * forward, rel=1e-6)
    loss = jax.value_and_grad(lambda x, k: jnp.square(convolve(x, k)).sum(), argnums=(0, 1))
    elementwise = 4 * math.prod(change.shape)
    assert flops.count(loss, x, kernel) == pytest.approx(3 * forward + elementwise, rel=0.02)


# Loops and other programs inside the program


def times(n):
    """The product of a matrix with itself n times, as a scan."""
    return lambda x: lax.scan(lambda c, _: (c @ c, None), x, None, length=n)[0]


def while_range(start, stop, step):
    return lambda x: lax.while_loop(
        lambda s: s[0] < stop, lambda s: (s[0] + step, s[1] @ s[1]), (start, x)
    )[1]


def custom_gradient(x):
    fn = jax.custom_vjp(lambda x: x @ x)
    fn.defvjp(lambda x: (x @ x, x), lambda x, g: (g @ x,))
    return fn(x)


def looped(x, n):
    return lax.fori_loop(0, n, lambda i, c: c @ c, x)


LOOPS = {
    "scan": (times(7), 7 * PRODUCT),
    "scan of none": (times(0), 0),
    "unrolled scan": (
        lambda x: lax.scan(lambda c, _: (c @ c, None), x, None, length=7, unroll=3)[0],
        7 * PRODUCT,
    ),
    "scan over an axis": (lambda x: lax.scan(lambda c, row: (c + row, c), x[0], x)[0], 16 * 16),
    "fori_loop": (lambda x: lax.fori_loop(0, 5, lambda i, x: x @ x, x), 5 * PRODUCT),
    "map": (lambda x: lax.map(lambda row: x @ row, x), PRODUCT),
    "nested": (
        lambda x: lax.scan(lambda c, _: (times(3)(c) @ c, None), x, None, length=4)[0],
        4 * (3 + 1) * PRODUCT,
    ),
    "fori_loop that stays a while": (
        lambda x: lax.fori_loop(jnp.int32(2), jnp.int32(5), lambda i, x: x @ x, x),
        3 * (PRODUCT + 1) + 4,
    ),
    "while over a range": (while_range(0, 10, 3), 4 * (PRODUCT + 1) + 5),
    "while over nothing": (while_range(5, 5, 1), 1),
    "jit": (jax.jit(jax.jit(times(3))), 3 * PRODUCT),
    "checkpoint": (jax.checkpoint(times(3)), 3 * PRODUCT),
    "custom_vjp": (custom_gradient, PRODUCT),
    "custom_jvp": (jax.nn.relu, 256),
    "cond": (lambda x: lax.cond(x[0, 0] > 0, times(3), lambda x: x @ x, x), 3 * PRODUCT + 2),
    "switch": (
        lambda x: (
            lax.switch(1, [lambda x: x, times(2)], x)
            + lax.switch(x[0, 0].astype(int), [lambda x: x, times(5), times(2)], x)
        ),
        7 * PRODUCT + 256 + 3,
    ),
    "platform": (
        lambda x: lax.platform_dependent(x, cpu=lambda x: x @ x, default=times(9)),
        PRODUCT,
    ),
    "platform without cpu": (
        lambda x: lax.platform_dependent(x, tpu=lambda x: x @ x, default=times(9)),
        9 * PRODUCT,
    ),
    "counting down": (
        lambda x: lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 2, s[1] @ s[1]), (9, x))[1],
        5 * (PRODUCT + 1) + 6,
    ),
    "to its end": (
        lambda x: lax.while_loop(lambda s: s[0] <= 9, lambda s: (s[0] + 1, s[1] @ s[1]), (0, x))[1],
        10 * (PRODUCT + 1) + 11,
    ),
    "until it is equal": (
        lambda x: lax.while_loop(lambda s: s[0] != 10, lambda s: (s[0] + 2, s[1] @ x), (0, x))[1],
        5 * (PRODUCT + 1) + 6,
    ),
    "bound through an inner jit": (lambda x: jax.jit(looped)(x, 5), 5 * (PRODUCT + 1) + 6),
    "loop as long as the outer counter": (
        lambda x: lax.fori_loop(0, 4, lambda i, c: looped(c, i), x),
        (0 + 1 + 2 + 3) * (PRODUCT + 1) + (1 + 2 + 3 + 4) + 4,
    ),
    "dead code": (lambda x: (x @ x, times(3)(x), x + 1)[2], 256),
    "dead carry": (
        lambda x: lax.fori_loop(0, 4, lambda i, s: (s[0] + 1, s[1] @ s[1]), (x, x))[0],
        4 * 256,
    ),
}


@pytest.mark.parametrize(("program", "expected"), LOOPS.values(), ids=LOOPS.keys())
def test_programs_inside_count_as_often_as_they_run(program, expected):
    assert flops.count(program, MATRIX) == expected
    assert flops.count(lambda x: jax.jit(program)(x), MATRIX) == expected


@pytest.mark.parametrize(
    ("taken", "times"),
    [
        (lambda i: i % 100 == 0, 10),
        (lambda i: i == 999, 1),
        (lambda i: (i >= 10) & (i < 20), 10),
        (lambda i: jnp.any(i == jnp.array([3, 500])), 2),
        (lambda i: jnp.float32(i) > 5, 1000),  # not of whole numbers: every time
    ],
)
@pytest.mark.parametrize("kind", ["scan", "fori_loop", "backwards", "gradient"])
def test_a_branch_counts_as_often_as_the_counter_takes_it(taken, times, kind):
    def step(c, i):
        return lax.cond(taken(i), lambda c: c @ c @ c, lambda c: c, c), None

    def scanned(x):
        return lax.scan(step, x, jnp.arange(1000), reverse=kind == "backwards")[0]

    program, each = {
        "fori_loop": (lambda x: lax.fori_loop(0, 1000, lambda i, c: step(c, i)[0], x), 2),
        "gradient": (lambda x: jax.grad(lambda x: scanned(x).sum())(x), 6),
    }.get(kind, (scanned, 2))
    counted = flops.count(program, MATRIX)
    assert counted == pytest.approx(each * times * PRODUCT, abs=1000 * (3 * 256 + 20))


def test_branches_in_loops_in_loops_count_by_both_counters():
    def row(c, i):
        def cell(c, j):
            return lax.cond(j <= i, lambda c: c @ c, lambda c: c, c), None

        return lax.scan(cell, c, jnp.arange(5))[0], None

    counted = flops.count(lambda x: lax.scan(row, x, jnp.arange(4))[0], MATRIX)
    assert counted == (1 + 2 + 3 + 4) * PRODUCT + 4 * 5 * 2


def test_rematerialised_code_counts_each_time():
    def layer(x):
        return jnp.sin(jnp.sin(x @ x) @ x).sum()

    once = flops.count(jax.value_and_grad(layer), MATRIX)
    again = flops.count(jax.value_and_grad(jax.checkpoint(layer)), MATRIX)
    assert once == pytest.approx(6 * PRODUCT, rel=0.05)
    assert again == once + 2 * PRODUCT


def test_cond_is_the_most_expensive_branch_as_in_xla():
    def program(x):
        return lax.cond(x[0, 0] > 0, lambda x: x @ x + 1, lambda x: x, x)

    assert flops.count(program, MATRIX) == pytest.approx(xla(program, MATRIX), abs=2)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: lax.while_loop(lambda x: x.sum() < 9, lambda x: x * 2, x),
        lambda x: lax.fori_loop(0, x[0, 0].astype(int), lambda i, x: x * 2, x),
        lambda x: lax.while_loop(
            lambda s: s[0] < s[1], lambda s: (s[0] + 1, s[1] - 1, s[2] * 2), (0, 9, x)
        ),
        while_range(0, 5, -1),
        while_range(0, 5, 0),
    ],
    ids=["data", "data in the bound", "moving bound", "backwards", "standing still"],
)
def test_while_of_unknown_length_is_refused(program):
    with pytest.raises(CostUnknown, match=r"(?s)test_flops.*`while`.*trips.*ctx\.charge"):
        flops.count(program, MATRIX)


# Trials together


@pytest.mark.parametrize("trials", [3, 4])
@pytest.mark.parametrize(
    ("program", "args"),
    [
        (lambda x, k: jnp.tanh(x @ k), (shaped(8, 24), shaped(24, 10))),
        (lambda x, k: times(5)(x @ k), (shaped(8, 24), shaped(24, 8))),
        (
            lambda x, k: jax.grad(lambda k: jnp.square(x @ k).sum())(k),
            (shaped(8, 24), shaped(24, 8)),
        ),
        (lambda x, k: jnp.linalg.qr(x @ k)[0], (shaped(8, 24), shaped(24, 10))),
        (lambda x, k: lax.top_k(jnp.sort(x @ k), 3)[0], (shaped(8, 24), shaped(24, 10))),
        (convolution({})[0], convolution({})[1:]),
    ],
    ids=["dense", "scan", "gradient", "qr", "sort", "convolution"],
)
def test_vmapped_trials_cost_their_number_times_one(program, args, trials):
    stacked = [shaped(trials, *a.shape) for a in args]
    assert flops.count(jax.vmap(program), *stacked) == trials * flops.count(program, *args)


# What XLA cannot count

TALL = shaped(5, 9, 6)
SQUARE = shaped(5, 6, 6)
QR = 2 * 9 * 36 - 2 * 216 / 3
FORMULAS = {
    "cholesky": (lax.linalg.cholesky_p.bind, [SQUARE], 6**3 / 3),
    "lu": (lax.linalg.lu, [TALL], 9 * 36 - 216 / 3),
    "qr": (lambda x: lax.linalg.qr(x, full_matrices=False), [TALL], 2 * QR),
    "full qr": (
        lambda x: lax.linalg.qr(x, full_matrices=True),
        [TALL],
        QR + 4 * 9 * 9 * 6 - 2 * 18 * 36 + 4 * 216 / 3,
    ),
    "householder_product": (lax.linalg.householder_product, [TALL, shaped(5, 6)], QR),
    "eigh": (lambda x: lax.linalg.eigh(x, symmetrize_input=False), [SQUARE], 9 * 216),
    "eig": (lax.linalg.eig, [SQUARE], 25 * 216),
    "eigvals": (jnp.linalg.eigvals, [SQUARE], 10 * 216),
    "schur": (lax.linalg.schur, [SQUARE], 25 * 216),
    "hessenberg": (lax.linalg.hessenberg, [SQUARE], 10 * 216 / 3),
    "tridiagonal": (lambda x: lax.linalg.tridiagonal(x), [SQUARE], 4 * 216 / 3),
    "svd": (jnp.linalg.svd, [TALL], 4 * 81 * 6 + 8 * 9 * 36 + 9 * 216),
    "thin svd": (lambda x: jnp.linalg.svd(x, full_matrices=False), [TALL], 14 * 9 * 36 + 8 * 216),
    "singular values": (jnp.linalg.svdvals, [TALL], 4 * 9 * 36 - 4 * 216 / 3),
    "triangular_solve": (
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True),
        [SQUARE, shaped(5, 6, 4)],
        36 * 4,
    ),
    "sort": (jnp.sort, [TALL], 9 * 6 * 3),
    "sort rows": (lambda x: jnp.sort(x, axis=1), [TALL], 9 * 6 * 4),
    "top_k": (lambda x: lax.top_k(x, 3), [TALL], 9 * 6 * 2),
    "top_1": (lambda x: lax.top_k(x, 1), [TALL], 9 * 6),
    "approx_top_k": (lambda x: lax.approx_max_k(x, 3), [TALL], 9 * 6 * 2),
    "cumsum": (jnp.cumsum, [TALL], 9 * 6),
    "cumlogsumexp": (lambda x: lax.cumlogsumexp(x, axis=1), [TALL], 9 * 6 * 8),
}


@pytest.mark.parametrize(("fn", "args", "each"), FORMULAS.values(), ids=FORMULAS.keys())
def test_formulas(fn, args, each):
    assert flops.count(fn, *args) == 5 * round(each)


COMPLEX = np.complex64
FFT = 5 * 256 * 256 * 16
TRANSFORMS = {
    "two axes": (jnp.fft.fft2, shaped(256, 256, dtype=COMPLEX), FFT),
    "one after the other": (
        lambda x: jnp.fft.ifft(jnp.fft.fft(x, axis=0), axis=1),
        shaped(256, 256, dtype=COMPLEX),
        FFT,
    ),
    "real": (jnp.fft.rfft2, shaped(256, 256), FFT / 2),
    "back to real": (jnp.fft.irfft2, shaped(256, 129, dtype=COMPLEX), FFT / 2),
    "three axes": (jnp.fft.fftn, shaped(64, 64, 64, dtype=COMPLEX), 5 * 64**3 * 18),
    "a side of 1": (jnp.fft.fft2, shaped(8, 1, 1024, dtype=COMPLEX), 5 * 8 * 1024 * 10),
    "not a power of 2": (jnp.fft.fft, shaped(3, 100, dtype=COMPLEX), 5 * 300 * math.log2(100)),
}


@pytest.mark.parametrize(("fn", "x", "expected"), TRANSFORMS.values(), ids=TRANSFORMS.keys())
def test_fourier_transforms_add_the_logarithms_of_their_sides(fn, x, expected):
    assert flops.count(fn, x) == pytest.approx(expected, rel=0.01)  # inverses also divide


def test_complex_numbers_count_what_they_are_made_of():
    z = shaped(1000, dtype=COMPLEX)
    for fn, each in ((lax.mul, 6), (lax.add, 2), (lax.div, 11), (lax.pow, 6)):
        assert flops.count(fn, z, z) == each * 1000
    for fn, each in ((lax.abs, 3), (lax.exp, 6), (lax.real, 0), (lax.neg, 2)):
        assert flops.count(fn, z) == each * 1000
    assert flops.count(jnp.sum, z) == 2 * 999
    a, b = shaped(4, 8, dtype=COMPLEX), shaped(8, 5, dtype=COMPLEX)
    assert flops.count(jnp.matmul, a, b) == 8 * 4 * 8 * 5
    images, kernels = shaped(1, 4, 16, 16, dtype=COMPLEX), shaped(8, 4, 3, 3, dtype=COMPLEX)
    counted = flops.count(lambda a, b: lax.conv(a, b, (1, 1), "VALID"), images, kernels)
    assert counted == 8 * 14 * 14 * 8 * 4 * 9


def test_a_ragged_product_counts_each_row_once():
    args = shaped(128, 64), shaped(16, 64, 32), shaped(16, dtype=np.int32)
    product = 2 * 128 * 64 * 32
    assert flops.count(lax.ragged_dot, *args) == product

    def gradients(a, b, groups):
        return jax.grad(lambda a, b: lax.ragged_dot(a, b, groups).sum(), (0, 1))(a, b)

    assert flops.count(gradients, *args) == pytest.approx(2 * product, rel=0.05)


@pytest.mark.parametrize("fn", [lax.argmax, lax.argmin])
def test_the_index_of_the_largest_counts_as_the_largest(fn):
    assert flops.count(lambda x: fn(x, 1, np.int32), shaped(1000, 100)) == 1000 * 99


def test_samplers_that_reject_have_an_expected_cost():
    key = jax.random.key(0)
    gamma = flops.count(lambda k: jax.random.gamma(k, 2.0, (1000,)), key) / 1000
    split, uniform, normal = (
        flops.count(lambda k, fn=fn: fn(k), key)
        for fn in (
            lambda k: jax.random.split(k, 1000),
            lambda k: jax.random.uniform(k, (1000,)),
            lambda k: jax.random.normal(k, (1000,)),
        )
    )
    attempt = (5 * split + normal + uniform) / 1000 + 25
    assert gamma == pytest.approx(3 * split / 1000 + uniform / 1000 + 1.05 * attempt, rel=0.015)
    poisson = flops.count(lambda k: jax.random.poisson(k, 3.0, (1000,)), key) / 1000
    assert poisson == pytest.approx(
        11 * (uniform / 1000 + 6) + 1.2 * (2 * uniform / 1000 + 35), rel=0.02
    )
    beta = flops.count(lambda k: jax.random.beta(k, 0.2, 0.2, (1000,)), key) / 1000
    assert beta == pytest.approx(2 * gamma, rel=0.02)
    dirichlet = flops.count(lambda k: jax.random.dirichlet(k, jnp.ones(4), (1000,)), key) / 1000
    assert dirichlet == pytest.approx(4 * gamma, rel=0.02)


def test_the_expected_attempts_of_a_gamma_draw_are_those_of_its_formula():
    """Marsaglia and Tsang's rejection, drawn: shape 1 is the worst."""
    random = np.random.default_rng(0)
    d, x, u = 2 / 3, random.normal(size=10**6), random.uniform(size=10**6)
    v = (1 + x / math.sqrt(9 * d)) ** 3
    with np.errstate(invalid="ignore"):
        accepted = (v > 0) & (np.log(u) < x**2 / 2 + d * (1 - v + np.log(v)))
    assert 1 / accepted.mean() == pytest.approx(1.05, abs=0.01)


@pytest.mark.skipif(jax.__version_info__[:2] != (0, 10), reason="the table of JAX 0.10")
def test_every_primitive_of_jax_is_in_one_table_or_refused():
    from jax.extend.core import Primitive, primitives

    refused = set(
        str.split(
            "after_all all_gather all_to_all axis_index cholesky_update create_token custom_lin"
            " dce_sink eval_jaxpr from_edtype geqp3 geqrf get igamma igamma_grad_a igammac mulhi"
            " ormqr pmax pmin ppermute psum ragged_all_to_all regularized_incomplete_beta"
            " scaled_dot stage swap symmetric_product tie to_edtype tridiagonal_solve"
        )
    )
    tables = [
        equations._FREE,
        flops._CALLS,
        equations._ELEMENTWISE,
        equations._BY_XLA,
        equations._QUICK,
    ]
    tables += [equations.FORMULAS, ("scan", "while", "cond", "custom_linear_solve")]
    known = set().union(*tables)
    # JAX's own list lacks some that its functions make, such as `tile`
    sources = [m for n, m in sys.modules.items() if n.startswith("jax._src.lax.")]
    sources.remove(sys.modules["jax._src.lax.parallel"])  # inside `shard_map` only
    values = [value for module in (primitives, *sources) for value in vars(module).values()]
    named = {value.name for value in values if isinstance(value, Primitive)}
    assert named - known == refused
    counts = [sum(name in table for table in tables) for name in known - {"reduce_sum"}]
    assert set(counts) == {1}


def test_complex_linear_algebra_counts_four_real_flops_for_one():
    real, complex_ = shaped(6, 6), shaped(6, 6, dtype=np.complex64)
    assert flops.count(lax.linalg.lu, complex_) == 4 * flops.count(lax.linalg.lu, real)


def test_solve_is_one_factorisation_and_two_substitutions():
    n, columns = 100, 20
    expected = 2 * n**3 / 3 + 2 * n**2 * columns
    assert flops.count(jnp.linalg.solve, shaped(n, n), shaped(n, columns)) == pytest.approx(
        expected, rel=0.02
    )


def pallas(x):
    from jax.experimental import pallas

    def kernel(source, target):
        target[...] = source[...] * 2

    return pallas.pallas_call(kernel, out_shape=x, interpret=True)(x)


OPAQUE = {
    "pure_callback": lambda x: jax.pure_callback(lambda x: x, x, x),
    "io_callback": lambda x: jax.experimental.io_callback(lambda x: x, x, x),
    "debug_callback": lambda x: (jax.debug.callback(lambda x: None, x), x)[1],
    "ffi_call": lambda x: jax.ffi.ffi_call("unknown", x)(x),
    "pallas_call": pallas,
    "while": lambda x: lax.while_loop(lambda x: x.sum() < 9, lambda x: x * 2, x),
    "igamma": lambda x: lax.igamma(x, x),
    "regularized_incomplete_beta": lambda x: lax.betainc(x, x, x),
    "tridiagonal_solve": lambda x: lax.linalg.tridiagonal_solve(x[0], x[0], x[0], x),
    "new_ref": lambda x: jax.new_ref(x)[...],
}
if hasattr(lax.linalg, "ormqr"):  # the lowest supported JAX lacks it
    OPAQUE["ormqr"] = lambda x: lax.linalg.ormqr(x, x[0], x)


@pytest.mark.parametrize("name", OPAQUE)
@pytest.mark.parametrize("place", ["bare", "in a scan", "in a branch"])
def test_opaque_programs_are_refused_by_name(name, place):
    fn = OPAQUE[name]
    program = {
        "bare": fn,
        "in a scan": lambda x: lax.scan(lambda c, _: (fn(c), None), x, None, length=2)[0],
        "in a branch": lambda x: lax.cond(x[0, 0] > 0, fn, lambda x: x, x),
    }[place]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(CostUnknown, match=rf"test_flops.*`{name}`.*ctx\.charge"):
            flops.count(program, MATRIX)


def test_printing_is_free():
    assert flops.count(lambda x: (jax.debug.print("{}", x), x + 1)[1], MATRIX) == 256


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_random_bits_are_not_hidden_in_a_loop(impl):
    key = jax.eval_shape(lambda: jax.random.key(0, impl=impl))
    once, twice = (flops.count(lambda k, n=n: jax.random.bits(k, (n,)), key) for n in (1000, 2000))
    rounds = 20 * 5 if impl == "threefry2x32" else 0  # add, two shifts, or, xor
    assert 1000 * rounds <= once <= 1000 * 1.25 * rounds + 1
    assert twice == pytest.approx(2 * once, rel=0.01, abs=1)


# Against XLA and an independent counter

OTHER_NUMBERS = ("bfloat16", "uint8")


def test_elementwise_and_free_tables_agree_with_xla():
    x, positive = shaped(6, 7), shaped(6, 7, dtype=np.int32)
    renamed = {"and": "bitwise_and", "or": "bitwise_or", "not": "bitwise_not", "xor": "bitwise_xor"}
    special = {
        "add_any": lambda x: jax.vjp(lambda x: jnp.sin(x) * jnp.cos(x), x)[1](x),
        "clamp": lambda x: lax.clamp(0.0, x, 1.0),
        "convert_element_type": lambda x: x.astype(np.float16),
        "integer_pow": lambda x: x**5,
        "select_n": lambda x: jnp.where(x > 0, x, x * x),
    }
    for name in sorted(equations._ELEMENTWISE):
        if name in special:
            fn, args = special[name], [x]
        else:
            fn = getattr(lax, renamed.get(name, name))
            bits = name in renamed or name.startswith("shift")
            try:
                args = [positive if bits else x]
                jax.eval_shape(fn, *args)
            except TypeError:
                args = args * 2
        assert flops.count(fn, *args) == xla(fn, *args), name
    moves = [
        lambda x: x.T.reshape(-1)[::-1],
        lambda x: jnp.concatenate([x, x])[1:9],
        lambda x: lax.pad(x, 0.0, [(1, 1, 2), (-1, 0, 0)]),
        lambda x: jnp.broadcast_to(x[None], (4, 6, 7)),
        lambda x: jnp.tile(x, (2, 3)),
        lambda x: jnp.split(x, 2),
        lambda x: jnp.stack([x, x], 1),
        lambda x: lax.optimization_barrier(lax.stop_gradient(x)),
        lambda x: lax.dynamic_update_slice(x, lax.dynamic_slice(x, (0, 0), (2, 2)), (1, 1)),
        lambda x: lax.broadcasted_iota(np.int32, (5, 5), 0),
    ]
    for fn in moves:
        assert flops.count(fn, x) == xla(fn, x) == 0


@pytest.mark.parametrize(
    "dtype",
    ["float32", "int32", "bool", *(pytest.param(d, marks=pytest.mark.slow) for d in OTHER_NUMBERS)],
)
def test_counts_of_an_element_agree_with_xla(dtype):
    """Of every function that takes such numbers."""
    x = shaped(3, dtype=dtype)
    called = {"and": "bitwise_and", "not": "bitwise_not", "or": "bitwise_or", "xor": "bitwise_xor"}
    compared = set()
    for name in equations._PER_ELEMENT:
        if name == "convert_element_type":
            kinds = {"float32", "int32", "bool", *OTHER_NUMBERS} - {dtype}
            programs = [lambda x, kind=kind: lax.convert_element_type(x, kind) for kind in kinds]
        elif name == "select_n":
            programs = [lambda x: lax.select_n(x > x, x, x)]
        elif name == "clamp":
            programs = [lambda x: lax.clamp(x, x, x)]
        else:
            function = getattr(lax, called.get(name, name))
            programs = [function, lambda x, function=function: function(x, x)]
        for program in programs:
            try:
                eqns = jax.make_jaxpr(program)(x).jaxpr.eqns
            except (TypeError, ValueError):  # not of such numbers, or not of so many
                continue
            for eqn in (eqn for eqn in eqns if eqn.primitive.name == name):
                assert equations._count_as_xla(eqn) == equations._count_by_lowering(eqn), name
                compared.add(name)
    assert len(compared) > 10 and (dtype != "float32" or compared > {"exp", "select_n", "clamp"})


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_a_conversion_costs_what_xla_counts_and_nothing_within_a_type(dtype):
    weak = jax.ShapeDtypeStruct((4,), dtype, weak_type=True)  # as that of a number in Python
    for new in ("bool", "uint8", "int32", "bfloat16", "float32"):
        (eqn,) = jax.make_jaxpr(lambda x, new=new: x.astype(new))(weak).jaxpr.eqns
        assert equations._count_as_xla(eqn) == equations._count_by_lowering(eqn), new
        assert (equations._count_as_xla(eqn) == 0) == (new == dtype), new


def test_a_choice_of_three_or_of_keys_is_not_counted_as_one_of_two_numbers():
    number, x = shaped(4, dtype="int32"), shaped(4)
    (eqn,) = jax.make_jaxpr(lax.select_n)(number, x, x, x).jaxpr.eqns
    assert equations._count_as_xla(eqn) == equations._count_by_lowering(eqn) > 4
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 4))
    (eqn,) = jax.make_jaxpr(lax.select)(shaped(4, dtype="bool"), keys, keys).jaxpr.eqns
    with pytest.raises(ValueError, match="XLA does not see"):
        equations._count_as_xla(eqn)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 2, 1), (2, 0, 3), (64, 2001, 333)])
def test_quick_counts_agree_with_xla(dtype, shape):
    batch, rows, columns = shape
    x, y = shaped(*shape, dtype=dtype), shaped(batch, columns, 7, dtype=dtype)
    programs = {
        "dot_general": [
            (lambda x, y: jnp.matmul(x, y), (x, y)),
            (lambda x: jnp.einsum("brc,brd->cd", x, x), (x,)),
            (lambda x: jnp.einsum("brc,dsc->brds", x, x), (x,)),
            (lambda x: jnp.vdot(x, x), (x,)),
        ],
        "reduce_sum": [(lambda x: lax.reduce_sum_p.bind(x, axes=(1,), out_sharding=None), (x,))],
        "reduce_max": [(lambda x: lax.reduce_max_p.bind(x, axes=(0, 2), out_sharding=None), (x,))],
        "reduce_min": [(lambda x: lax.reduce_min_p.bind(x, axes=(), out_sharding=None), (x,))],
    }
    assert set(programs) == set(equations._QUICK)
    for name, cases in programs.items():
        for fn, args in cases:
            eqns = jax.jit(fn).trace(*args).jaxpr.jaxpr.eqns
            found = [eqn for eqn in eqns if eqn.primitive.name == name]
            assert found, name
            assert all(
                equations._count_as_xla(eqn) == equations._count_by_lowering(eqn) for eqn in found
            ), name


def small_training_step(params, x, y):
    """Convolution, batch norm, max-pool and a dense layer, with SGD."""

    def loss(params):
        h = convolution({})[0](x, params["conv"])
        h = (h - h.mean((0, 1, 2))) * lax.rsqrt(h.var((0, 1, 2)) + 1e-5)
        h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        logits = jax.nn.relu(h).mean((1, 2)) @ params["dense"]
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()

    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params))


def test_loopless_training_step_agrees_with_xla():
    params = {"conv": shaped(3, 3, 16, 32), "dense": shaped(32, 10)}
    args = params, shaped(4, 11, 9, 16), shaped(4, dtype=np.int32)
    assert flops.count(small_training_step, *args) == pytest.approx(
        xla(small_training_step, *args), rel=1e-4
    )


def walk(jaxpr) -> int:
    """Counts products, valid taps and arithmetic from shapes alone, and loops by multiplication."""
    total = 0
    for eqn in jaxpr.eqns:
        name, params = eqn.primitive.name, eqn.params
        shapes = [v.aval.shape for v in eqn.invars]
        out = math.prod(eqn.outvars[0].aval.shape)
        if name == "dot_general":
            contracted = params["dimension_numbers"][0][0]
            total += 2 * out * math.prod(shapes[0][i] for i in contracted)
        elif name == "conv_general_dilated":
            numbers = params["dimension_numbers"]
            batch, channels = (eqn.outvars[0].aval.shape[i] for i in numbers.out_spec[:2])
            pairs = 1
            for axis in range(len(numbers.lhs_spec) - 2):
                size = shapes[0][numbers.lhs_spec[2 + axis]]
                taps = shapes[1][numbers.rhs_spec[2 + axis]]
                places = eqn.outvars[0].aval.shape[numbers.out_spec[2 + axis]]
                positions = (
                    np.arange(places)[:, None] * params["window_strides"][axis]
                    + np.arange(taps) * params["rhs_dilation"][axis]
                    - params["padding"][axis][0]
                )
                source, hole = np.divmod(positions, params["lhs_dilation"][axis])
                pairs *= int(((hole == 0) & (source >= 0) & (source < size)).sum())
            total += 2 * batch * channels * shapes[1][numbers.rhs_spec[1]] * pairs
        elif name == "scan":
            total += params["length"] * walk(params["jaxpr"].jaxpr)
        elif name == "cond":
            total += max(walk(branch.jaxpr) for branch in params["branches"])
        elif name in (
            "add",
            "sub",
            "mul",
            "max",
            "add_any",
            "select_n",
            "gt",
            "eq",
            "neg",
            "square",
        ):
            total += out
        elif name == "reduce_sum":
            total += math.prod(shapes[0])
        else:
            for value in params.values():
                if hasattr(value, "eqns") or hasattr(value, "jaxpr"):
                    total += walk(getattr(value, "jaxpr", value))
    return total


@st.composite
def programs(draw):
    """A random chain of layers on images [b, s, s, c], with loops, branches and gradients."""
    batch, size, channels = (draw(st.integers(1, high)) for high in (4, 9, 8))
    layers, start = [], shaped(batch, size, size, channels)
    shape = start
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["conv", "dense", "scan", "cond", "vmap"]))
        out = draw(st.integers(1, 8))
        if kind == "conv":
            side, stride = draw(st.integers(1, 3)), draw(st.integers(1, 2))
            kernel = np.ones((side, side, shape.shape[-1], out), np.float32)
            convolve = convolution({"window_strides": (stride, stride)})[0]
            layer = lambda x, k=kernel, c=convolve: jnp.tanh(c(x, k))  # noqa: E731
        elif kind == "dense":
            kernel = np.ones((shape.shape[-1], out), np.float32)
            layer = lambda x, k=kernel: jnp.tanh(x @ k)  # noqa: E731
        else:
            square = np.ones((shape.shape[-1],) * 2, np.float32)
            step = lambda x, k=square: x @ k  # noqa: E731
            layer = {
                "scan": lambda x, s=step, n=out: lax.scan(
                    lambda c, _: (s(c), None), x, None, length=n
                )[0],
                "cond": lambda x, s=step: lax.cond(x.sum() > 0, s, lambda x: x, x),
                "vmap": lambda x, s=step: jax.vmap(s)(x),
            }[kind]
        layers.append(layer)
        shape = jax.eval_shape(layer, shape)

    def forward(x):
        for layer in layers:
            x = layer(x)
        return x.sum()

    return draw(st.sampled_from([forward, jax.jit(forward), jax.grad(forward)])), start


@settings(max_examples=25, deadline=None)
@given(programs())
def test_random_programs_agree_with_the_other_counter(program):
    fn, x = program
    jaxpr = jax.jit(fn).trace(x).jaxpr.jaxpr
    live, _ = jax.interpreters.partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
    assert flops.count(fn, x) == pytest.approx(walk(live), rel=0.02, abs=30)


# The same number, however it is asked for


def test_count_does_not_depend_on_how_the_program_is_jitted():
    def program(x, y, negate=False):
        return -(x @ y) if negate else x @ y

    plain = flops.count(program, MATRIX, MATRIX)
    assert plain == PRODUCT and type(plain) is int
    assert flops.count(jax.jit(program, donate_argnums=0), MATRIX, MATRIX) == plain
    assert flops.count(jax.jit(lambda x, y: jax.jit(program)(x, y)), MATRIX, MATRIX) == plain
    assert flops.count(program, np.ones((16, 16), np.float32), jnp.ones((16, 16))) == plain
    static = jax.jit(program, static_argnames="negate")
    assert flops.count(static, MATRIX, MATRIX, negate=True) == plain + 256
    assert flops.count_jaxpr(static.trace(MATRIX, MATRIX).jaxpr) == plain


def test_count_does_not_depend_on_devices():
    """In a process of its own: four devices, shardings, meshes, another default device."""
    script = """
    import jax, numpy as np
    from jax import lax
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
    from nevis_stream.cost import flops
    from nevis_stream.errors import CostUnknown

    def program(a, b):
        return a @ b + 1

    a = b = np.ones((8, 8), np.float32)
    plain = flops.count(program, a, b)
    assert plain == 2 * 8**3 + 64
    auto = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Auto,))
    rows = NamedSharding(auto, P("d"))
    assert flops.count(program, jax.device_put(a, rows), jax.device_put(b, rows)) == plain
    constrained = jax.jit(
        lambda a, b: lax.with_sharding_constraint(program(a, b), rows), in_shardings=(rows, None)
    )
    assert flops.count(constrained, a, b) == plain
    with jax.set_mesh(auto):
        assert flops.count(program, a, b) == plain
    explicit = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(explicit):
        a_rows = jax.device_put(a, NamedSharding(explicit, P("d")))
        assert flops.count(program, a_rows, b) == plain
    with jax.default_device(jax.devices()[2]):
        assert flops.count(program, a, b) == plain
    manual = jax.shard_map(
        lambda a: lax.psum(a, "d"), mesh=auto, in_specs=P("d"), out_specs=P()
    )
    try:
        flops.count(manual, a)
    except CostUnknown as error:
        assert "shard_map" in str(error)
    else:
        raise AssertionError("shard_map was counted")
    """
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, **flags},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_counting_needs_no_cpu_backend():
    """In a process whose only backend has another name, as with JAX_PLATFORMS=cuda."""
    script = """
    import jax, numpy as np
    from jax import numpy as jnp
    from jax.extend import backend
    from jaxlib import xla_client

    backend.register_backend_factory("other", xla_client.make_cpu_client, priority=500)
    from nevis_stream.cost import flops
    from nevis_stream.cost.counted import make_counted

    try:
        jax.local_devices(backend="cpu")
    except RuntimeError:
        pass
    else:
        raise AssertionError("there is a CPU backend")
    square = np.ones((8, 8), np.float32)
    result, count = make_counted(lambda a: jnp.tanh(a @ a) + 1).call_and_count(square)
    assert count == 2 * 8**3 + 64 and result.shape == (8, 8)
    assert flops.count(lambda key: jax.random.uniform(key, (100,)), jax.random.key(0)) > 1000
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, "JAX_PLATFORMS": "other"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
