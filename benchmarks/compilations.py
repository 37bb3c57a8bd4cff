"""Counts what XLA compiles in a run of the embedded stream, by program and by learner.

  python -m benchmarks.compilations
  python -m benchmarks.compilations closed_form:tiny frontier:large

Without arguments: Indep, then FT-prev, with trials of two steps. Otherwise each LEARNER:BUDGET,
one after another. The compilation cache is not used.
"""

import collections
import tempfile
from collections.abc import Sequence

import jax

from nevis_stream.configs import run_config
from nevis_stream.errors import BadInput
from nevis_stream.experiments.scripts import describe
from nevis_stream.launch import entry
from nevis_stream.learner import Learner
from nevis_stream.runner import run
from nevis_stream.streams.named_streams import load_stream

LEAST_SECONDS = 0.3  # of XLA: a program with fewer in all is a small helper
_OTHER = "small helpers"


def make_learner(name: str, budget: str) -> Learner:
    """Returns a learner; a network trains for two steps if there is no budget."""
    config = run_config.make_default(name)
    if budget:
        config.update(budget=budget)
    else:
        config.train.update(steps=2, validate_every=2)
    return run_config.resolve(config).build()


def main(words: Sequence[str]) -> None:
    """Runs the learners in one process; prints how often each program was compiled."""
    points = [tuple(word.split(":")) for word in words]
    if any(len(each) != 2 for each in points):
        raise BadInput(f"{' '.join(words)}: each is LEARNER:BUDGET; see --help.")
    points = points or [("indep", ""), ("ft_prev", "")]
    compiled: dict[str, list[float]] = collections.defaultdict(list)  # seconds of each

    def listener(event, duration, **facts):
        if event == "/jax/core/compile/backend_compile_duration":
            name = facts.get("fun_name", "?").removeprefix("jit(").removesuffix(")")
            compiled[name].append(duration)

    jax.monitoring.register_event_duration_secs_listener(listener)
    stream = load_stream("pico")
    print(f"{describe()}; pico, {len(stream.tasks)} tasks, one learner after another.\n")
    counts: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as directory:
        for name, budget in points:
            run(make_learner(name, budget), stream, f"{directory}/{name}-{budget}")
            after = {program: len(seconds) for program, seconds in compiled.items()}
            counts[f"{name} {budget}".strip()] = after
    large = [name for name, seconds in compiled.items() if sum(seconds) >= LEAST_SECONDS]
    print(f"| after | {' | '.join((*large, _OTHER))} |\n|---|{'---:|' * (len(large) + 1)}")
    for label, after in counts.items():
        cells = []
        for programs in (*([name] for name in large), set(compiled) - set(large)):
            numbers = {name: after.get(name, 0) for name in programs}
            spent = sum(sum(compiled[name][:number]) for name, number in numbers.items())
            cells.append(f"{sum(numbers.values())} ({spent:.1f} s)")
        print(f"| {label} | {' | '.join(cells)} |")


if __name__ == "__main__":
    entry.start(main, words="[LEARNER:BUDGET ...]")
