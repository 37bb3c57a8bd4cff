"""Runs one learner over one stream into a run directory; the same command continues an
interrupted run.

  python -m launch.run --config=ft_prev --run_dir=runs/a
  python -m launch.run --config=ft_prev --config.budget=small --config.train.steps=400 --run_dir=runs/b
  python -m launch.run --config=indep --config.stream=my_stream.csv --run_dir=runs/c
  python -m launch.run --config=indep --config.budget=paper --dry_run
  python -m launch.run --config=indep --run_dir=runs/d --executor=threads     # several trials at once
  python -m launch.run --config=ft_prev --help     # also lists the keys of ft_prev

--config is the name of a learner or a config file; --config.learner=package.module:Class runs a
class of your own. Any value can be set with --config.KEY=VALUE, and the budget never changes a value
that you set. Afterwards: python -m launch.report runs/a runs/b --out=report
"""  # noqa: E501

import math
import shlex
from dataclasses import fields
from pathlib import Path

from absl import flags

from nevis_stream.catalogue import SPLIT_HELP
from nevis_stream.configs import run_config
from nevis_stream.configs.run_config import run_config_once
from nevis_stream.cost.meter import format_cost
from nevis_stream.errors import plural
from nevis_stream.launch import command_line, config_flag, entry
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.streams.named_streams import load_stream
from nevis_stream.streams.rows import stream_names

command_line.define_config()
_RUN_DIR = command_line.define_run_dir()
_DRY_RUN = command_line.define_dry_run("tasks, trials, steps and estimated FLOPs")
_SEEDS = command_line.define_seeds()
command_line.define_data_dir()
_CHECKPOINT = command_line.define_checkpoint_seconds()
_EXECUTOR = command_line.define_executor()
_ACCEPT = command_line.define_accept_changed_code()
_CACHE = flags.DEFINE_string(
    "cache",
    None,
    "Directory of evaluation caches, to which the kept predictors' answers are added.",
)
_TENSORBOARD = flags.DEFINE_bool(
    "tensorboard", True, "Write curves for TensorBoard to RUN_DIR/tensorboard."
)


def main(_):
    """Runs, or prints the plan."""
    config = run_config.resolve(config_flag.get_words().config())
    config.build()  # values that do not fit are refused before any data are loaded
    executor = _EXECUTOR.build()
    if _RUN_DIR.value:
        config_flag.check_run_dir(_RUN_DIR.value)
    stream = load_stream(config.stream)
    if _DRY_RUN.value:
        from nevis_stream.configs.plan import print_plan

        print_plan(config, stream, seeds=_SEEDS.value)
        return
    if not _RUN_DIR.value:
        entry.fail("--run_dir is missing: the directory of the run, for example runs/my-run.")
    _EXECUTOR.check_devices()
    entry.use_compilation_cache()
    entry.stop_at_signals()
    for seed in range(config.seed, config.seed + _SEEDS.value):
        directory = Path(_RUN_DIR.value) / (f"seed-{seed}" if _SEEDS.value > 1 else "")
        ledger = run_config_once(
            config.with_seed(seed),
            stream,
            directory,
            _CHECKPOINT.value,
            executor,
            _EXECUTOR.devices.value,
            _TENSORBOARD.value,
            accept_changed_code=_ACCEPT.value,
        )
        print(_result(ledger))
        print(f"done: {directory}")
        if _CACHE.value:
            from nevis_stream.launch.evaluate_commands.fill import import_run

            module = config.learner.partition(":")[0]  # a user who runs a class trusts it
            import_run(directory, Path(_CACHE.value), stream=config.stream, trust=[module])
    runs = shlex.quote(_RUN_DIR.value) + ("/*" if _SEEDS.value > 1 else "")
    print(entry.as_typed(f"next: python -m launch.report {runs} --out=report"))


def _result(ledger: Ledger) -> str:
    """Returns a run's point in words, or why it has none."""
    from nevis_stream.analysis.forgetting import measure_forgetting
    from nevis_stream.analysis.points import point

    result = point(ledger)
    error = f"mean error {result.error:.4f} over {plural(result.judged, 'judged task')}"
    if math.isnan(result.error):
        error = f"no mean error: {result.reason}"
    forgotten = measure_forgetting(ledger)
    recalled = forgotten and (
        f"\nafter the last task: mean accuracy {forgotten.final:.4f} over all tasks, backward"
        f" transfer {forgotten.backward_transfer:+.4f}, forgetting {forgotten.forgetting:.4f}"
    )
    return (
        f"{error}; FLOPs of all phases: {format_cost(result.full_total)}, of training:"
        f" {format_cost(result.paper_total)}{recalled or ''}"
    )


def _lists() -> str:
    """Returns the end of --help: learners, keys of the chosen learner, streams, executors."""
    from nevis_stream.launch.executors import EXECUTORS
    from nevis_stream.learners.closed_form import config as closed_form
    from nevis_stream.streams.adaptive import specification

    named = [_with_flags(name, kind) for name, kind in EXECUTORS.items()]
    return (
        f"{config_flag.format_help()}\nBudgets: tiny, small, cheap, paper (of the learners that"
        " train networks; cheap and paper take too long on a CPU: see what they cost with"
        " --dry_run); those of closed_form:"
        f" {', '.join(closed_form.PRESETS)}; those of frontier:"
        f" {', '.join(closed_form.FRONTIER_PRESETS)}\nStreams:"
        f" {', '.join(stream_names())}, {SPLIT_HELP};\n  NAME+partial: only the tasks"
        " whose data are on this machine; NAME+disjoint: without the images that an earlier task"
        " has; NAME+single_head: the classes of all tasks so far are one set; or the path of a"
        " csv (docs/adding-a-task.md);\n "
        f" {specification.HELP}\nExecutors:"
        f" {'; '.join(named)}\n"
    )


def _with_flags(name: str, executor: type) -> str:
    options = [f"--{each.name}" for each in fields(executor) if each.name in flags.FLAGS]
    return f"{name} ({', '.join(options)})" if options else name


if __name__ == "__main__":
    config_flag.start(main, _lists)
