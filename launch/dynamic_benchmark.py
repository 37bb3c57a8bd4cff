"""Dynamic benchmarks: samples are collected where today's model errs, and the next is trained on
the mixture. What does each round buy?

`theory` checks every theorem on exact finite populations. A stream that answers back to a learner
is a run: `python -m launch.run --config.stream=adaptive:…` (docs/dynamic-benchmarks.md).
"""

from collections.abc import Sequence
from pathlib import Path

from absl import flags

from launch.subcommands import Subcommand, define, start


def theory(words: Sequence[str]) -> None:
    """Writes the page of the theory and prints each claim with its verdict."""
    from rich.table import Table

    from launch.terminal import console
    from nevis_stream.dynamic_benchmarks import theory_page
    from nevis_stream.dynamic_benchmarks.claims import Tables, check

    values = THEORY.flags
    tables = Tables.compute(values.instances, values.seed)
    claims = check(tables)
    shown = Table("claim", "source", "measured", "holds")
    for each in claims:
        shown.add_row(each.claim, each.source, each.measured, "yes" if each.holds else "NO")
    console().print(shown)
    print(theory_page.write(Path(values.out), tables, claims))


THEORY = Subcommand(
    "theory",
    theory,
    "Checks every theorem on exact finite populations, and writes a page with figures.",
    ("theory", "theory --out=studies/theory --seed=1"),
    details="Takes less than a minute. Claimed bounds beside measured risks over grids of eps,"
    " distance, rounds, depth and width; fitted exponents with intervals.",
)
SUBCOMMANDS = (THEORY,)
define(
    flags.DEFINE_string,
    (THEORY,),
    "out",
    "dynamic-benchmark-theory",
    "Directory for report.html and its tables.",
)
define(
    flags.DEFINE_integer,
    (THEORY,),
    "instances",
    10_000,
    "Random and adversarial instances of the bound.",
    lower_bound=9,
)
define(flags.DEFINE_integer, (THEORY,), "seed", 0, "Seed of all draws.", lower_bound=0)


if __name__ == "__main__":
    start(__doc__, SUBCOMMANDS)
