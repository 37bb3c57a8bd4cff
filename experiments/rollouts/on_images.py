"""Rollouts of dynamic benchmarks on images: does the risk stall, what does z_4 say early, and is a
hierarchy worth its labels?

    python -m experiments.rollouts.on_images --out=runs/rollouts                    # all that is missing; hours
    python -m experiments.rollouts.on_images --out=runs/rollouts --data=cifar10_12k --path=20 --hierarchical=20
    python -m experiments.rollouts.on_images --vmapped                              # one program for several rollouts?

Finished classifiers are kept, so the command can be stopped and started, and numbers be raised. It
prints a table of each data set and writes its page, OUT/DATA/report.html.
"""  # noqa: E501

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.cost.counted import plain_convolutions
from nevis_stream.cost.engineering import engineering
from nevis_stream.experiments import machine
from nevis_stream.experiments.commands import positive
from nevis_stream.experiments.rollouts import network, page
from nevis_stream.experiments.rollouts.data import load_pool
from nevis_stream.experiments.rollouts.study import Rollouts, RolloutSettings, run_rollouts
from nevis_stream.experiments.rollouts.training import BATCH
from nevis_stream.progress import TerminalProgress

WANTED = {"cifar10_12k": (100, 30), "fashion_mnist": (30, 30)}  # rollouts of path and hierarchy
DESIGNS = {"path": (1, 25), "hierarchical": (2, 5)}
ROUNDS = (1, 3, 5, 9, 15, 21, 25)  # votes of an odd number
HEADS = (
    "data | design | rollouts | base accuracy | epochs | population | labels a rollout"
    " | FLOPs a rollout",
    "data | design | round | n | mean risk | std | best | worst | weighted vote | plurality"
    " | labels",
    "data | design | vote | early | against round | n | correlation"
    " | mean (range) of the early value",
    "data | at | n | labels | path | hierarchy | difference (95%)",
)


def studies(data: str, counts: Sequence[int], out: Path, images: int) -> list[Rollouts]:
    """Runs what is missing of a data set; returns both designs."""
    pool, fingerprint = load_pool(data, images)
    finished = []
    for (name, (depth, width)), count in zip(DESIGNS.items(), counts, strict=True):
        settings = RolloutSettings(data, len(pool), fingerprint, depth, width, 0.73, 0)
        with TerminalProgress(f"{data}, {name}") as progress:
            finished.append(run_rollouts(settings, pool, out / name, count, progress=progress))
    return finished


def print_tables(both: Sequence[Rollouts]) -> None:
    """Prints the tables of a data set."""
    data = both[0].settings.data
    facts, rounds, early = [], [], []
    for each in both:
        design, curves = page.name_of(each.settings), each.curves
        labels = np.mean([curve.labels[-1] for curve in curves])
        facts.append(
            f"{data} | {design} | {len(curves)} | {each.base.accuracy:.3f} | {each.base.epochs} |"
            f" {each.base.right.sum()} | {labels:.0f} | {engineering(np.mean(each.flops))}"
        )
        table = page.by_round(each)
        for row in table[table["round"].isin(ROUNDS)].to_dict("records"):
            weighted, plurality = (
                "–" if np.isnan(row[name]) else f"{row[name]:.4f}"
                for name in ("weighted_vote", "plurality_risk")
            )
            rounds.append(
                f"{data} | {design} | {row['round']} | {row['n']} |"
                f" {interval(row, 'mean_risk')} | {row['std']:.4f} | {row['best']:.4f} |"
                f" {row['worst']:.4f} | {weighted} | {plurality} | {row['labels']:.0f}"
            )
        for row in page.early_statistic(each).to_dict("records"):
            r = "– (all rollouts have the same risk, or too few)"
            if not np.isnan(row["correlation"]):
                r = f"{row['correlation']:+.2f} ({row['low']:+.2f} to {row['high']:+.2f})"
            early.append(
                f"{data} | {design} | {row['vote']} | {row['early']} | {row['round']} |"
                f" {row['n']} | {r} |"
                f" {row['mean']:.2f} ({row['smallest']:.2f} to {row['largest']:.2f})"
            )
    differences = [
        f"{data} | {row['at']} | {row['n']} | {row['labels']:.0f} | {row['path_risk']:.4f} |"
        f" {row['risk']:.4f} | {interval(row, 'difference', '+')}"
        for row in page.compare(*both).to_dict("records")
    ]
    for heads, rows in zip(HEADS, (facts, rounds, early, differences), strict=True):
        columns = heads.split(" | ")
        print(f"\n| {heads} |\n|{'---|' * len(columns)}")
        print("\n".join(f"| {row} |" for row in rows))
    print()
    for each in both:
        print(f"- {data}, {page.stalls(each)}")


def interval(row: Mapping[str, float], name: str, sign: str = "") -> str:
    """Returns a mean with its interval, where there are enough rollouts for one."""
    ends = f"{row['low']:{sign}.4f} to {row['high']:{sign}.4f}"
    return f"{row[name]:{sign}.4f} ({'too few' if np.isnan(row['low']) else ends})"


def run_vmapped() -> None:
    """Prints the time of a training step alone, and of one in a vmapped program of several."""
    step, generator = network.training_step(), np.random.default_rng(0)
    images = generator.integers(0, 255, (BATCH, 32, 32, 3)).astype(np.uint8)
    labels = generator.integers(0, 10, BATCH).astype(np.int32)
    parameters = network.initialise(generator, 10)
    moments, key = network.optimiser().init(parameters), jax.random.key(0)
    now, unit = machine.clock()
    options = plain_convolutions()

    def best(program, *arguments) -> float:
        jax.block_until_ready(program(*arguments))
        times = []
        for _ in range(10):
            begun = now()
            jax.block_until_ready(program(*arguments))
            times.append(now() - begun)
        return min(times)

    alone = best(jax.jit(step, compiler_options=options), parameters, moments, images, labels, key)
    print(f"{machine.describe()}\none rollout: {1000 * alone:.1f} m{unit} a step (best of 10)")
    for count in (2, 4, 8):

        def stack(tree, count=count):
            return jax.tree.map(lambda leaf: jnp.stack([leaf] * count), tree)

        each = (
            best(
                jax.jit(jax.vmap(step), compiler_options=options),
                *(stack(tree) for tree in (parameters, moments, images, labels)),
                jax.random.split(key, count),
            )
            / count
        )
        print(f"{count} in one vmapped program: {1000 * each:.1f} m{unit} a step and rollout")


def main() -> None:
    """Reads the flags; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", default="runs/rollouts")
    parser.add_argument("--data", choices=list(WANTED))
    parser.add_argument("--images", type=positive, default=2500)
    parser.add_argument("--path", type=positive)
    parser.add_argument("--hierarchical", type=positive)
    parser.add_argument("--vmapped", action="store_true")
    arguments = parser.parse_args()
    if arguments.vmapped:
        run_vmapped()
        return
    print(machine.describe())
    for data in [arguments.data] if arguments.data else WANTED:
        counts = arguments.path or WANTED[data][0], arguments.hierarchical or WANTED[data][1]
        out = Path(arguments.out) / f"{data}-{arguments.images}"
        begun = time.process_time()
        both = studies(data, counts, out, arguments.images)
        print(f"{time.process_time() - begun:.0f} CPU seconds of this process")
        print_tables(both)
        print(page.write(out, both))


if __name__ == "__main__":
    from nevis_stream.launch import entry

    entry.use_compilation_cache()
    entry.guard(main)
