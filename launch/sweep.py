"""Runs every combination of some values, each in a directory of its own: the points of a Pareto
front.

  python -m launch.sweep --config=ft_prev --config.budget=small --trials=2,4,8 --steps=120,240 \
      --seeds=3 --run_dir=runs/sweep
  python -m launch.sweep --config=indep --set=network.width=8,16 --run_dir=runs/width --dry_run
  python -m launch.sweep --config=indep --set=learner=indep,ft_prev --run_dir=runs/two --commands

A run is kept in RUN_DIR/trials-2-steps-120/seed-0. The same command continues an interrupted
sweep; runs that are complete are not done again. With --steps a trial looks at the dev split four
times, unless --config.train.validate_every is given. More in docs/sweeps-and-studies.md.
"""  # noqa: E501

import functools
import shlex
from pathlib import Path

from absl import flags

from launch import config_flag, entry, shared_flags

shared_flags.config("Name of a learner, or a config file: PATH.py, or a study's.")
_TRIALS = flags.DEFINE_string(
    "trials", None, "Values of search.trials, with commas between them: 2,4,8."
)
_STEPS = flags.DEFINE_string(
    "steps", None, "Values of train.steps, with commas between them: 120,240."
)
_SET = flags.DEFINE_multi_string(
    "set", [], "NAME=V1,V2: values of any other key of the config; may be given several times."
)
_SEEDS = flags.DEFINE_integer(
    "seeds", 1, "Number of runs of each combination, with seeds from config.seed on.", lower_bound=1
)
_RUN_DIR = flags.DEFINE_string(
    "run_dir", None, "Directory of the sweep; created if missing, resumed if it exists."
)
_DRY_RUN = flags.DEFINE_bool(
    "dry_run", False, "Print each run with its estimated FLOPs, and the sum; run nothing."
)
_COMMANDS = flags.DEFINE_bool(
    "commands", False, "Print the launch.run commands, for launch.slurm; run nothing."
)
_DATA_DIR = shared_flags.data_dir()
_CHECKPOINT = shared_flags.checkpoint_seconds()


def main(_):
    """Runs the sweep, or prints its plan or its commands."""
    from experiments import grid

    given = config_flag.given()
    config = given.config()
    cells = grid.cells(config, _axes(), given.values)
    if not (_RUN_DIR.value or _DRY_RUN.value):
        entry.fail("--run_dir is missing: the directory of the sweep, for example runs/my-sweep.")
    if _RUN_DIR.value:
        config_flag.check_run_dir(_RUN_DIR.value)
    first = config.seed
    runs = [(cell, seed) for seed in range(first, first + _SEEDS.value) for cell in cells]
    if _COMMANDS.value:
        print(" +\n".join(shlex.join(_command(cell, seed)) for cell, seed in runs))
        return
    from experiments import grid_tables
    from nevis_stream.streams.stream import load_stream

    for name in dict.fromkeys(cell.config.stream for cell in cells):
        load_stream(name)  # missing data are reported before anything is run
    # of several streams one at a time fits into memory
    load = functools.lru_cache(maxsize=1)(load_stream)
    if _DRY_RUN.value:
        grid_tables.print_plan(cells, load, _SEEDS.value)
        return
    _run_all(runs, load)
    seeds = range(first, first + _SEEDS.value)
    grid_tables.print_results(
        cells, {cell.name: [_directory(cell, seed) for seed in seeds] for cell in cells}
    )
    runs = f"{shlex.quote(_RUN_DIR.value)}/*/*"
    print(entry.as_typed(f"next: python -m launch.report {runs} --out=report"))


def _axes() -> list[tuple[str, str]]:
    """The swept keys with their values; those that are given as fixed too are refused."""
    from experiments import grid

    axes = [
        (key, flag.value)
        for key, flag in ((grid.TRIALS, _TRIALS), (grid.STEPS, _STEPS))
        if flag.value is not None
    ]
    axes += [grid.axis(text) for text in _SET.value]
    for key, _ in axes:
        if key in config_flag.given().values:
            entry.fail(f"--config.{key} is given and {key} is swept; leave one out.")
    return axes


def _run_all(runs, load) -> None:
    from launch.one_run import run_config_once
    from nevis_stream.run_directory.ledger import Ledger

    entry.use_compilation_cache()
    entry.stop_at_signals()
    for number, (cell, seed) in enumerate(runs, start=1):
        directory = _directory(cell, seed)
        there = " (complete already)" if Ledger(directory).complete else ""
        print(f"run {number} of {len(runs)}: {directory}{there}", flush=True)
        cell.config.seed = seed
        run_config_once(cell.config, load(cell.config.stream), directory, _CHECKPOINT.value)


def _directory(cell, seed: int) -> Path:
    return Path(_RUN_DIR.value) / cell.name / f"seed-{seed}"


def _command(cell, seed: int) -> list[str]:
    """The words of the launch.run command that does one run."""
    from experiments.grid import written

    given = config_flag.given()
    settings = {**given.values, **cell.settings, "seed": seed}
    own = [("data_dir", _DATA_DIR), ("checkpoint_seconds", _CHECKPOINT)]
    return [
        "launch.run",
        *([f"--config={given.source}"] if given.source else []),
        *(f"--config.{key}={written(value)}" for key, value in settings.items()),
        *(f"--{name}={flag.value}" for name, flag in own if flags.FLAGS[name].present),
        f"--run_dir={_directory(cell, seed)}",
    ]


if __name__ == "__main__":
    config_flag.start(main)
