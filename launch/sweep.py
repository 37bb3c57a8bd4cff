"""Runs every combination of some values of a config, each in its own directory; each is a point
in the plane of error against FLOPs.

  python -m launch.sweep --config=ft_prev --config.budget=small --trials=2,4,8 --steps=120,240 \\
      --seeds=3 --run_dir=runs/sweep
  python -m launch.sweep --config=indep --set=network.width=8,16 --run_dir=runs/width --dry_run
  python -m launch.sweep --config=indep --set=learner=indep,ft_prev --run_dir=runs/two --commands

Each run has a directory such as RUN_DIR/trials-2-steps-120/seed-0. The same command continues an
interrupted sweep and skips the runs that are complete. With --steps, a trial is evaluated on the dev
split four times, unless --config.train.validate_every is given. See docs/sweeps-and-studies.md.
"""  # noqa: E501

import functools
import shlex
from pathlib import Path

from absl import flags

from nevis_stream.configs.run_config import run_config_once
from nevis_stream.launch import command_line, config_flag, entry
from nevis_stream.progress import Silent
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.streams.named_streams import load_stream

command_line.define_config()
_TRIALS = flags.DEFINE_string(
    "trials", None, "Values of search.trials, separated by commas, for example 2,4,8."
)
_STEPS = flags.DEFINE_string(
    "steps", None, "Values of train.steps, separated by commas, for example 120,240."
)
_SET = flags.DEFINE_multi_string(
    "set",
    [],
    "KEY=V1,V2: values of any other key of the config; may be repeated.",
)
_SEEDS = command_line.define_seeds()
_RUN_DIR = command_line.define_run_dir("sweep")
_DRY_RUN = command_line.define_dry_run("each combination with its estimated FLOPs, and the sum")
_COMMANDS = flags.DEFINE_bool(
    "commands", False, "Only print the launch.run commands, which launch.slurm can send."
)
_DATA_DIR = command_line.define_data_dir()
_CHECKPOINT = command_line.define_checkpoint_seconds()
_EXECUTOR = command_line.define_executor()
_ACCEPT = command_line.define_accept_changed_code()


def main(_):
    """Runs the sweep, or prints its plan or its commands."""
    from nevis_stream.configs import grid

    words = config_flag.get_words()
    config = words.config()
    cells = grid.list_cells(config, _axes(config.learner), words.values)
    if not _RUN_DIR.value and (_COMMANDS.value or not _DRY_RUN.value):
        entry.fail("--run_dir is missing: the directory of the sweep, for example runs/my-sweep.")
    if _RUN_DIR.value:
        config_flag.check_run_dir(_RUN_DIR.value)
    first = config.seed
    runs = [(cell, seed) for seed in range(first, first + _SEEDS.value) for cell in cells]
    if _COMMANDS.value:
        print(" +\n".join(shlex.join(_command(cell, seed)) for cell, seed in runs))
        return
    from nevis_stream.configs import plan

    for name in dict.fromkeys(cell.config.stream for cell in cells):
        load_stream(name)  # reports missing data before anything is run
    # one stream at a time fits into memory
    load = functools.lru_cache(maxsize=1)(load_stream)
    if _DRY_RUN.value:
        plan.print_sweep_plan(cells, load, _SEEDS.value)
        return
    _run_all(runs, load)
    seeds = range(first, first + _SEEDS.value)
    plan.print_results(
        cells, {cell.name: [_directory(cell, seed) for seed in seeds] for cell in cells}
    )
    pattern = f"{shlex.quote(_RUN_DIR.value)}/*/*"
    print(entry.as_typed(f"next: python -m launch.report {pattern} --out=report"))


def _axes(learner: str) -> list[tuple[str, str]]:
    """Returns the swept keys with their values; a key that also has a fixed value is refused."""
    from nevis_stream.configs import grid

    axes = [
        (key, flag.value)
        for key, flag in ((grid.TRIALS, _TRIALS), (grid.STEPS, _STEPS))
        if flag.value is not None
    ]
    axes += [grid.parse_axis(text) for text in _SET.value]
    _refuse_own_fields(axes, learner)
    for key, _ in axes:
        if key in config_flag.get_words().values:
            entry.fail(f"--config.{key} sets a value that is also swept; leave one of them out.")
    return axes


def _refuse_own_fields(axes: list[tuple[str, str]], learner: str) -> None:
    """Refuses --trials and --steps for a learner without them, or with fields of these names."""
    from nevis_stream.configs import grid, run_config

    fields = run_config.list_fields(learner)
    for key, text in axes:
        name = key.rpartition(".")[2]
        if key in (grid.TRIALS, grid.STEPS) and key not in fields:
            own = f"{name}={text}" if name in fields else "FIELD=V1,V2"
            names = [each for each in fields if each not in run_config.COMMON]
            valid = f" Its fields: {', '.join(names)}." if names else " It has no field."
            entry.fail(f"--{name} sweeps {key}, which this learner lacks: use --set={own}.{valid}")


def _run_all(runs, load) -> None:
    executor = _EXECUTOR.build()
    _EXECUTOR.check_devices()
    entry.use_compilation_cache()
    entry.stop_at_signals()
    for number, (cell, seed) in enumerate(runs, start=1):
        directory = _directory(cell, seed)
        complete = Ledger(directory).complete  # its result is in the table at the end
        state = " (already complete)" if complete else ""
        print(f"run {number} of {len(runs)}: {directory}{state}", flush=True)
        stream = load(cell.config.stream)
        devices = _EXECUTOR.devices.value
        run_config_once(
            cell.config.with_seed(seed),
            stream,
            directory,
            _CHECKPOINT.value,
            executor,
            devices,
            progress=Silent() if complete else None,
            accept_changed_code=_ACCEPT.value,
        )


def _directory(cell, seed: int) -> Path:
    return Path(_RUN_DIR.value) / cell.name / f"seed-{seed}"


def _command(cell, seed: int) -> list[str]:
    """Returns the words of the launch.run command that does one run of the sweep."""
    from nevis_stream.configs.grid import format_value

    words = config_flag.get_words()
    settings = {**words.values, **cell.settings, "seed": seed}
    shared = (
        _DATA_DIR,
        _CHECKPOINT,
        _EXECUTOR.name,
        *_EXECUTOR.options,
        _EXECUTOR.devices,
        _ACCEPT,
    )
    return [
        "launch.run",
        *([f"--config={words.source}"] if words.source else []),
        *(f"--config.{key}={format_value(value)}" for key, value in settings.items()),
        *(f"--{flag.name}={flag.value}" for flag in shared if flags.FLAGS[flag.name].present),
        f"--run_dir={_directory(cell, seed)}",
    ]


if __name__ == "__main__":
    config_flag.start(main)
