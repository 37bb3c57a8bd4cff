"""Batches shared among devices: four that one CPU plays, in a process of their own."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from nevis_stream.errors import BadInput
from nevis_stream.launch.executors import EXECUTORS
from nevis_stream.learner import Context
from tests import forked

ROOT = Path(__file__).resolve().parents[2]


def on_four_devices(program, *words):
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "JAX_PLATFORMS": "cpu",
    }
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program), *map(str, words)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_gradient_over_a_shared_batch_is_that_over_the_whole():
    """With statistics of the batch in it, as BatchNorm has them."""
    on_four_devices("""
        import jax, jax.numpy as jnp, numpy as np
        from nevis_stream.learner import Context

        def step(weights, batch, rate):
            def loss(weights):
                hidden = batch["x"] @ weights["w"]
                normal = (hidden - hidden.mean(0)) / jnp.sqrt(hidden.var(0) + 1e-3)
                return jnp.square(normal.sum(1) - batch["y"]).mean()
            return jax.tree.map(lambda w, g: w - rate * g, weights, jax.grad(loss)(weights))

        random = np.random.RandomState(0)
        weights = {"w": random.normal(size=(8, 16)).astype(np.float32)}
        batch = {"x": random.normal(size=(32, 8)).astype(np.float32), "y": random.normal(size=32).astype(np.float32)}
        found, costs = [], []
        for devices in (1, 4):
            ctx = Context(path=("test",), phase="train", devices=devices)
            shared, carry = ctx.spread(batch), ctx.replicate(weights)
            if devices == 4:
                pieces = shared["x"].addressable_shards
                assert len({piece.device for piece in pieces}) == 4 and {piece.data.shape for piece in pieces} == {(8, 8)}
                assert [piece.data.shape for piece in carry["w"].addressable_shards] == [(8, 16)] * 4
                odd = ctx.spread({"x": batch["x"][:6]})  # six cannot be shared equally: every device gets all
                assert {piece.data.shape for piece in odd["x"].addressable_shards} == {(6, 8)}
            for _ in range(5):
                carry = ctx.jit(step, donate_argnums=0)(carry, shared, np.float32(0.1))
            assert len(jax.tree.leaves(carry)[0].devices()) == devices
            found.append(np.asarray(carry["w"]))
            costs.append(ctx.meter.counts())
        assert costs[0] == costs[1]  # FLOPs are the program's, whoever computes it
        assert np.abs(found[0] - found[1]).max() < 1e-4
        """)  # noqa: E501


@pytest.mark.slow
def test_a_run_on_four_devices_has_the_same_events_and_flops(tmp_path):
    on_four_devices(
        """
        import sys
        from nevis_stream.learners.parts.baseline import Baseline
        from nevis_stream.learners.parts.recipe import Recipe
        from nevis_stream.learners.parts.initialisation import FromPrevious
        from nevis_stream.learners.parts.model import Network
        from nevis_stream.learners.parts.search import RandomSearch
        from nevis_stream.run_directory.ledger import PredictRecord, TrainRecord
        from nevis_stream.runner import run
        from nevis_stream.streams.stream import Stream
        from tests.toy import blobs

        stream = Stream.from_datasets("two", [blobs("a", n=400, seed=1), blobs("b", n=400, seed=2)], [1990, 1991], meta_test=1)
        search = RandomSearch(2, {"learning_rate": (0.02, 0.05), "label_smoothing": (0.0, 0.1)})
        learner = Baseline(FromPrevious(), search, Recipe(Network("mlp", (("hidden", (16,)),), 8), 20, 10))
        one, four = [run(learner, stream, f"{sys.argv[1]}/{devices}", devices=devices, keep="all") for devices in (1, 4)]
        for before, after in zip(one.records, four.records, strict=True):
            assert type(before) is type(after)
            if isinstance(before, TrainRecord):
                assert before.event == after.event and before.flops == after.flops
                assert {t.trial for t in before.trials} == {t.trial for t in after.trials}
            if isinstance(before, PredictRecord):
                assert before.event == after.event
                assert abs(before.error - after.error) <= 0.05, (before.error, after.error)  # n = 80
        """,  # noqa: E501
        tmp_path,
    )


def test_trials_in_threads_are_on_all_devices_and_the_ledger_is_the_same(tmp_path):
    """Of two threads for each device too. The second task starts from parameters of the first."""
    on_four_devices(
        """
        import sys, threading
        import jax, jax.numpy as jnp
        from nevis_stream.launch.executors import EXECUTORS
        from nevis_stream.learner import Context
        from nevis_stream.learners.parts.baseline import Baseline
        from nevis_stream.learners.parts.recipe import Recipe
        from nevis_stream.learners.parts.initialisation import FromPrevious
        from nevis_stream.learners.parts.model import Network
        from nevis_stream.learners.parts.search import RandomSearch
        from nevis_stream.runner import run
        from nevis_stream.streams.stream import Stream
        from tests.toy import blobs

        def place(ctx, item):
            everyone.wait()
            total = ctx.jit(add)(shared, item)  # `shared` was made on the first device
            return [each.id for each in total.devices()]

        shared, add = jnp.ones(3), lambda first, second: first + second
        for workers, at_once in ((None, 4), (8, 8), (2, 2)):
            everyone = threading.Barrier(at_once)
            threads = EXECUTORS["threads"](workers=workers)
            found = Context(path=("test",), phase="train", executor=threads).map(place, [1.0] * 8)
            assert {place for (place,) in found} == set(range(min(at_once, 4))), found
        stream = Stream.from_datasets("two", [blobs("a", seed=1), blobs("b", seed=2)], [1990, 1991], meta_test=1)
        search = RandomSearch(4, {"learning_rate": (0.02, 0.05), "label_smoothing": (0.0, 0.1)})
        learner = Baseline(FromPrevious(), search, Recipe(Network("mlp", (("hidden", (16,)),), 8), 4, 2))
        ledgers = [
            run(learner, stream, f"{sys.argv[1]}/{name}", executor=EXECUTORS[name](), keep="all").path.read_bytes()
            for name in ("inline", "threads")
        ]
        assert ledgers[0] == ledgers[1]
        """,  # noqa: E501
        tmp_path,
    )


def test_more_devices_than_there_are_is_told():
    with pytest.raises(BadInput, match="shared by 4096 devices, but this machine has"):
        Context(path=("test",), phase="train", devices=4096).replicate({})


def test_the_command_tells_it_too(small_stream, tmp_path):
    words = [
        "--config=ft_prev",
        f"--config.stream={small_stream}",
        f"--run_dir={tmp_path}",
    ]
    for more, message in (
        (["--devices=4096"], "--devices=4096: this machine has"),
        (
            ["--devices=2", "--executor=threads"],
            "--devices cannot be combined with --executor=threads",
        ),
        (
            ["--executor=thread"],
            ", ".join(EXECUTORS),
        ),
        (["--workers=3"], "--workers needs --executor=threads."),
    ):
        done = forked.run("launch.run", *words, *more, cwd=ROOT)
        last = done.stderr.splitlines()[-1]  # after what the data sets were understood as
        assert (done.returncode, last[:7]) == (2, "error: "), done.stderr
        assert message in done.stderr
