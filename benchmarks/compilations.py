"""Counts what XLA compiles in a run of the embedded stream, by program and by learner.

python -m benchmarks.compilations
"""

import collections
import tempfile

import jax

from benchmarks.machine import describe
from experiments import run_config
from nevis_stream.runner import run
from nevis_stream.streams.stream import load_stream

LARGE = ("initialise", "step", "probabilities")


def main() -> None:
    """Runs both learners in one process and prints how often each program was compiled.

    Trials have two steps.
    """
    compiled: collections.Counter[str] = collections.Counter()
    seconds: collections.Counter[str] = collections.Counter()

    def listener(event, duration, **facts):
        if event == "/jax/core/compile/backend_compile_duration":
            name = facts.get("fun_name", "?").removeprefix("jit(").removesuffix(")")
            compiled[name if name in LARGE else "small helpers of JAX"] += 1
            seconds[name if name in LARGE else "small helpers of JAX"] += duration

    jax.monitoring.register_event_duration_secs_listener(listener)
    stream = load_stream("pico")
    print(
        f"{describe()}; pico, {len(stream.tasks)} tasks, 2 trials per task, 2 learners one after"
        " the"
        " other.\n"
    )
    print("| after | " + " | ".join((*LARGE, "small helpers of JAX")) + " |\n|---|" + "---:|" * 4)
    with tempfile.TemporaryDirectory() as directory:
        for learner in ("indep", "ft_prev"):
            config = run_config.default(learner)
            config.train.update(steps=2, validate_every=2)
            run(run_config.build(run_config.resolve(config)), stream, f"{directory}/{learner}")
            cells = [
                f"{compiled[name]} ({seconds[name]:.1f} s)"
                for name in (*LARGE, "small helpers of JAX")
            ]
            print(f"| {learner} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
