"""Counted FLOPs and analytic ones, as a markdown table on standard output.

    python -m benchmarks.flops_table

Analytic values come from shapes alone: twice the multiply-adds of every convolution (taps that
meet an input, not padding) and dense layer. For the networks they leave out batch normalisation,
ReLU, residual sums, pooling and the loss; for the training step they include the optimiser.
"""

import time

import jax
import numpy as np
import optax
from jax import lax
from jax import numpy as jnp

from nevis_stream.cost import flops
from nevis_stream.experiments import engine
from nevis_stream.experiments.scripts import describe
from nevis_stream.learners.parts.networks import Head, make_backbone

BATCH, SIZE, CLASSES = 16, 64, 10
STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))  # blocks and channels of ResNet-34


def make_shape(*shape, dtype=np.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def count_taps(
    size: int, kernel: int, stride: int, padding: str, dilation: int = 1
) -> tuple[int, int]:
    """Output size along one axis, and its pairs of an output with an input."""
    reach = (kernel - 1) * dilation + 1
    out = -(-size // stride) if padding == "SAME" else -(-(size - reach + 1) // stride)
    before = max((out - 1) * stride + reach - size, 0) // 2 if padding == "SAME" else 0
    inside = range(before, before + size)
    return out, sum(o * stride + k * dilation in inside for o in range(out) for k in range(kernel))


def count_resnet_flops() -> tuple[int, int, int]:
    """FLOPs of ResNet-34's stem, of its other convolutions and of its head, for one batch."""

    def convolution(size, channels, out_channels, kernel, stride):
        out, pairs = count_taps(size, kernel, stride, "SAME")
        return out, 2 * BATCH * pairs**2 * channels * out_channels

    size, stem = convolution(SIZE, 3, 64, 3, 1)
    channels, body = 64, 0
    for stage, (blocks, width) in enumerate(STAGES):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            out, first = convolution(size, channels, width, 3, stride)
            _, second = convolution(out, width, width, 3, 1)
            shortcut = convolution(size, channels, width, 1, stride)[1] if channels != width else 0
            body += first + second + shortcut
            size, channels = out, width
    return stem, body, 2 * BATCH * 512 * CLASSES


def list_simple_rows():
    """Yields (program, analytic, function, arguments) of single layers and of their repetition."""
    x, kernel = make_shape(128, 512), make_shape(512, 512)
    dense = 2 * 128 * 512 * 512
    yield "dense 128×512 → 512", dense, jnp.dot, (x, kernel)
    for stride, padding, dilation, groups in (
        (1, "SAME", 1, 1),
        (1, "VALID", 1, 1),
        (2, "SAME", 1, 1),
        (1, "SAME", 2, 1),
        (1, "SAME", 1, 4),
    ):

        def convolve(x, k, stride=stride, padding=padding, dilation=dilation, groups=groups):
            return lax.conv_general_dilated(
                x,
                k,
                (stride, stride),
                padding,
                rhs_dilation=(dilation, dilation),
                feature_group_count=groups,
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
            )

        def gradients(x, k, convolve=convolve):
            return jax.grad(lambda x, k: jnp.square(convolve(x, k)).sum(), (0, 1))(x, k)

        _, pairs = count_taps(15, 3, stride, padding, dilation)
        analytic = 2 * 8 * pairs**2 * (32 // groups) * 64
        name = f"conv 3×3 32 → 64 on 15×15, {padding}, stride {stride}"
        name += f", dilation {dilation}" * (dilation > 1) + f", {groups} groups" * (groups > 1)
        args = make_shape(8, 15, 15, 32), make_shape(3, 3, 32 // groups, 64)
        yield name, analytic, convolve, args
        yield "… forward and both gradients", 3 * analytic, gradients, args

    def scan(x, k):
        return lax.scan(lambda c, _: (c @ k, None), x, None, length=7)[0]

    yield "scan of 7 dense", 7 * dense, scan, (x, kernel)
    stacked = make_shape(4, *x.shape), make_shape(4, *kernel.shape)
    yield "vmap of dense over 4 trials", 4 * dense, jax.vmap(jnp.dot), stacked
    yield "vmap over 4 trials of scan of 7", 28 * dense, jax.vmap(scan), stacked


def list_resnet_rows():
    """Yields the same for ResNet-34: inference, forward with loss, training step."""
    backbone, head = make_backbone("resnet34"), Head(CLASSES)
    images, labels = make_shape(BATCH, SIZE, SIZE, 3), make_shape(BATCH, dtype=np.int32)
    variables = jax.eval_shape(backbone.init, jax.random.key(0), images)
    head_params = jax.eval_shape(head.init, jax.random.key(0), make_shape(1, 512))["params"]
    params, stats = {"body": variables["params"], "head": head_params}, variables["batch_stats"]
    optimiser = optax.sgd(0.1, momentum=0.9, nesterov=True)
    momentum = jax.eval_shape(optimiser.init, params)

    def logits(params, stats, images, train):
        variables = {"params": params["body"], "batch_stats": stats}
        mutable = ["batch_stats"] if train else []
        features, state = backbone.apply(variables, images, train=train, mutable=mutable)
        return head.apply({"params": params["head"]}, features), state

    def inference(params, stats, images):
        return logits(params, stats, images, False)[0]

    def loss(params, stats, images, labels):
        scores, state = logits(params, stats, images, True)
        each = optax.softmax_cross_entropy_with_integer_labels(scores, labels)
        return each.mean(), state

    def step(params, stats, momentum, images, labels):
        gradients, state = jax.grad(loss, has_aux=True)(params, stats, images, labels)
        updates, momentum = optimiser.update(gradients, momentum)
        return optax.apply_updates(params, updates), state, momentum

    stem, body, dense = count_resnet_flops()
    forward = stem + body + dense
    # No gradient goes to the images. Nesterov: two multiply-adds, a product and a sum a parameter.
    n_params = sum(leaf.size for leaf in jax.tree.leaves(params))
    training = 2 * stem + 3 * (body + dense) + 6 * n_params
    yield "ResNet-34 inference", forward, inference, (params, stats, images)
    yield "ResNet-34 forward and loss", forward, loss, (params, stats, images, labels)
    yield "ResNet-34 training step", training, step, (params, stats, momentum, images, labels)


def main() -> None:
    """Prints the table."""
    print(describe())
    print(f"\nResNet-34: small stem, {SIZE}×{SIZE} images, batch {BATCH}, {CLASSES} classes.\n")
    engine.print_table("program | analytic FLOPs: | counted: | ratio: | seconds to count:", ())
    for rows in (list_simple_rows(), list_resnet_rows()):
        for name, analytic, fn, args in rows:
            start = time.perf_counter()
            counted = flops.count(fn, *args)
            seconds = time.perf_counter() - start
            shown = f"{analytic:,}", f"{counted:,}", f"{counted / analytic:.4f}"
            engine.print_row([name, *shown, f"{seconds:.2f}"])


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
