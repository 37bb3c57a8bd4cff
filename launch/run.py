"""Runs one learner over one stream into a run directory; the same command continues an
interrupted run.

  python -m launch.run --config=ft_prev --run_dir=runs/a
  python -m launch.run --config=ft_prev --config.budget=small --config.train.steps=400 --run_dir=runs/b
  python -m launch.run --config=indep --config.stream=my_stream.csv --run_dir=runs/c
  python -m launch.run --config=indep --config.budget=paper --dry_run

  python -m launch.run --config=indep --run_dir=runs/d --executor=threads     # trials side by side

  python -m launch.run --config=ft_prev --help     # the keys of ft_prev

--config names a learner of the table or a file of your own; --config.learner=package.module:Class
a learner of your own. Any value can be overridden with --config.KEY=VALUE; a value that is given is
never changed by the budget. Afterwards: python -m launch.report runs/a runs/b --out=report
"""  # noqa: E501

import shlex
from pathlib import Path

from absl import flags

from launch import config_flag, entry, shared_flags

shared_flags.config("Name of a learner, or a config file of your own, PATH.py.")
_RUN_DIR = flags.DEFINE_string(
    "run_dir", None, "Directory of the run; created if missing, resumed if it exists."
)
_DRY_RUN = flags.DEFINE_bool(
    "dry_run", False, "Print tasks, trials, steps and estimated FLOPs; run nothing."
)
_SEEDS = flags.DEFINE_integer(
    "seeds", 1, "Number of runs, with seeds from config.seed on, in RUN_DIR/seed-N.", lower_bound=1
)
shared_flags.data_dir()
_CHECKPOINT = shared_flags.checkpoint_seconds()
_EXECUTOR = flags.DEFINE_string(
    "executor", "inline", "Who runs the trials: inline, threads or ray (docs/executors.md)."
)
_WORKERS = flags.DEFINE_integer(
    "workers", None, "Threads (threads); default: the number of cores.", lower_bound=1
)
_CPUS = flags.DEFINE_float(
    "cpus_per_trial", None, "Cores that a trial reserves (ray); default: 1.", lower_bound=0.0
)
_GPUS = flags.DEFINE_float(
    "gpus_per_trial",
    None,
    "GPUs that a trial reserves and sees (ray); default: 0.",
    lower_bound=0.0,
)
_ADDRESS = flags.DEFINE_string(
    "ray_address", None, "Address of a cluster of Ray; default: one is started on this machine."
)
_DEVICES = flags.DEFINE_integer(
    "devices", 1, "Devices that share each training batch.", lower_bound=1
)
_CACHE = flags.DEFINE_string(
    "cache", None, "Folder of evaluation caches, filled by the predictors that are kept."
)
_TENSORBOARD = flags.DEFINE_bool(
    "tensorboard", True, "Writes curves for TensorBoard while it runs, in RUN_DIR/tensorboard."
)


def main(_):
    """Runs, or prints the plan."""
    from experiments import run_config
    from nevis_stream.streams.stream import load_stream

    config = run_config.resolve(config_flag.given().config())
    run_config.build(config)  # values that do not fit are refused before any data are loaded
    executor = _executor()
    if _RUN_DIR.value:
        config_flag.check_run_dir(_RUN_DIR.value)
    stream = load_stream(config.stream)
    if _DRY_RUN.value:
        from experiments.plan import print_plan

        print_plan(config, stream, seeds=_SEEDS.value)
        return
    if not _RUN_DIR.value:
        entry.fail("--run_dir is missing: the directory of the run, for example runs/my-run.")
    from launch.one_run import run_config_once

    _check_devices()
    entry.use_compilation_cache()
    entry.stop_at_signals()
    first = config.seed
    for seed in range(first, first + _SEEDS.value):
        directory = Path(_RUN_DIR.value) / (f"seed-{seed}" if _SEEDS.value > 1 else "")
        config.seed = seed
        run_config_once(
            config,
            stream,
            directory,
            _CHECKPOINT.value,
            executor,
            _DEVICES.value,
            _TENSORBOARD.value,
        )
        print(f"done: {directory}")
        if _CACHE.value:
            from launch.evaluate_commands.filling import import_run

            own = config.learner.partition(":")[0]  # whoever runs a class trusts it
            import_run(directory, Path(_CACHE.value), stream=config.stream, trust=[own])
    runs = shlex.quote(_RUN_DIR.value) + ("/*" if _SEEDS.value > 1 else "")
    print(entry.as_typed(f"next: python -m launch.report {runs} --out=report"))


def _executor():
    """Builds the executor from the flags that were given."""
    from launch import executors
    from nevis_stream.errors import BadInput

    given = {
        flag.name: flag.value
        for flag in (_WORKERS, _CPUS, _GPUS, _ADDRESS)
        if flag.value is not None
    }
    executor = executors.build(_EXECUTOR.value, given)
    if _DEVICES.value > 1 and _EXECUTOR.value == "threads":
        raise BadInput(
            "--devices and --executor=threads: programs on several devices wait for each other for"
            " ever when several threads start them. Take --executor=inline, or ray."
        )
    return executor


def _check_devices() -> None:
    """A plan may be for another machine: that there are as many devices as asked for matters to a
    run alone.
    """
    from nevis_stream.errors import BadInput

    if _DEVICES.value > 1 and _EXECUTOR.value == "inline":
        import jax

        if _DEVICES.value > len(jax.devices()):
            raise BadInput(
                f"--devices={_DEVICES.value}: there are {len(jax.devices())} here"
                f" ({jax.devices()[0].device_kind}). To try it on a CPU, set"
                f" XLA_FLAGS=--xla_force_host_platform_device_count={_DEVICES.value}."
            )


def _lists() -> str:
    """The part of --help that changes with the package: learners, streams, executors, and the keys
    of the chosen learner.
    """
    from launch import executors
    from learners.closed_form import config as closed_form
    from nevis_stream.catalogue import variants
    from nevis_stream.streams.rows import stream_names

    named = [_described(name, executors.options(name)) for name in executors.names()]
    return (
        f"{config_flag.help_text()}\nBudgets: tiny, small, cheap, paper (cheap and"
        " paper are too long for a CPU: plan them with --dry_run); of closed_form:"
        f" {', '.join(closed_form.BUDGETS)}\nStreams:"
        f" {', '.join(stream_names())}, {variants.SPLIT_HELP};\n  NAME+partial: only the tasks"
        " whose data are here; or the path of a csv (docs/adding-a-task.md)\nExecutors:"
        f" {'; '.join(named)}\n"
    )


def _described(executor: str, options: list[str]) -> str:
    return (
        f"{executor} ({', '.join(f'--{name}' for name in options if name in flags.FLAGS)})"
        if options
        else executor
    )


if __name__ == "__main__":
    config_flag.start(main, _lists)
