"""Dynamic benchmarks: samples are collected where today's model errs, and the next is trained on
the mixture. What does each round buy?

`theory` checks every theorem on exact finite populations. `rollouts` runs the paper's simulation
with small networks: what the vote's risk does round after round. To run a learner on an adaptive
stream: `python -m launch.run --config.stream=adaptive:…` (docs/dynamic-benchmarks.md).
"""

from nevis_stream.launch.command_line import find_offered, start

SUBCOMMANDS = find_offered("dynamic-benchmark")


if __name__ == "__main__":
    start(__doc__, SUBCOMMANDS)
