"""Flags that several commands have. Each is defined here once, with one meaning."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from absl import flags
from absl.flags import FlagHolder, FlagValues

from nevis_stream.errors import BadInput

if TYPE_CHECKING:  # --help need not wait for what an executor imports
    from nevis_stream.executor import Executor

flags.disclaim_key_flags()  # they belong to the command that defines them with these functions


def config() -> FlagHolder:
    """Defines --config; `config_flag.words().config()` is its value."""
    return flags.DEFINE_string(
        "config", None, "Name of a learner, or path of a config file (PATH.py)."
    )


def run_dir(subject: str = "run") -> FlagHolder:
    """Defines --run_dir, the directory of a run or of another `subject`."""
    return flags.DEFINE_string(
        "run_dir", None, f"Directory of the {subject}; created if missing, continued if it exists."
    )


def seeds() -> FlagHolder:
    """Defines --seeds."""
    return flags.DEFINE_integer(
        "seeds",
        1,
        "Number of runs of a config, with consecutive seeds from config.seed, each in a"
        " directory seed-N.",
        lower_bound=1,
    )


def dry_run(printed: str) -> FlagHolder:
    """Defines --dry_run, which prints something instead of doing it."""
    return flags.DEFINE_bool("dry_run", False, f"Only print {printed}.")


def stream(default: str | None, flag_values: FlagValues = flags.FLAGS) -> FlagHolder:
    """Defines --stream, the stream that a command works on."""
    return flags.DEFINE_string(
        "stream", default, "Name of a stream, or path of its csv.", flag_values=flag_values
    )


def recorded_stream(flag_values: FlagValues = flags.FLAGS) -> FlagHolder:
    """Defines --stream of a command that reads a run, whose directory holds no path of a csv."""
    return flags.DEFINE_string(
        "stream",
        None,
        "Path of the csv of the run's stream, if it was a csv; default: the stream of the name that"
        " the run recorded.",
        flag_values=flag_values,
    )


def data_dir(flag_values: FlagValues = flags.FLAGS) -> FlagHolder:
    """Defines --data_dir; after `entry.parse`, data are read from there."""
    return flags.DEFINE_string(
        "data_dir",
        None,
        "Directory of prepared data; default: NEVIS_STREAM_DATA, else the user's cache directory.",
        flag_values=flag_values,
    )


def checkpoint_seconds() -> FlagHolder:
    """Defines --checkpoint_seconds."""
    return flags.DEFINE_float(
        "checkpoint_seconds",
        30.0,
        "Shortest time in seconds between two saves of a trial's training state.",
        lower_bound=0.0,
    )


@dataclass(frozen=True)
class ExecutorFlags:
    """The flags that choose how trials run, and on how many devices each is trained."""

    name: FlagHolder
    options: Sequence[FlagHolder]
    devices: FlagHolder

    def build(self) -> "Executor":
        """Returns the executor.

        Raises:
          BadInput: no such executor, an option that it does not have, or several devices together
            with threads.
        """
        from nevis_stream.launch import executors

        options = {flag.name: flag.value for flag in self.options if flag.value is not None}
        owned = executors.options(self.name.value)
        for option in options:
            owners = [name for name in executors.names() if option in executors.options(name)]
            if option not in owned and owners:
                raise BadInput(f"--{option} needs --executor={' or --executor='.join(owners)}.")
        executor = executors.build(self.name.value, options)
        if self.devices.value > 1 and self.name.value == "threads":
            raise BadInput(
                "--devices cannot be combined with --executor=threads: programs that several"
                " threads start on several devices would wait for each other forever. Use"
                " --executor=inline or --executor=ray."
            )
        return executor

    def check_devices(self) -> None:
        """Refuses more devices than this machine has; a plan may be for another machine.

        Raises:
          BadInput: there are fewer devices than --devices.
        """
        if self.devices.value > 1 and self.name.value == "inline":
            import jax

            if self.devices.value > len(jax.devices()):
                raise BadInput(
                    f"--devices={self.devices.value}: this machine has {len(jax.devices())}"
                    f" ({jax.devices()[0].device_kind}). To try several devices on a CPU, set"
                    f" XLA_FLAGS=--xla_force_host_platform_device_count={self.devices.value}."
                )


def accept_changed_code() -> flags.FlagHolder[bool]:
    """Defines --accept_changed_code."""
    return flags.DEFINE_bool(
        "accept_changed_code",
        False,
        "Continue a run although your own code has changed since it was begun.",
    )


def executor() -> ExecutorFlags:
    """Defines --executor, the options of the executors, and --devices."""
    return ExecutorFlags(
        flags.DEFINE_string(
            "executor",
            "inline",
            "How trials run: inline (one by one), threads or ray (docs/executors.md).",
        ),
        (
            flags.DEFINE_integer(
                "workers",
                None,
                "Number of threads, for --executor=threads; default: the number of cores.",
                lower_bound=1,
            ),
            flags.DEFINE_float(
                "cpus_per_trial",
                None,
                "Cores that a trial reserves, for --executor=ray; default: 1.",
                lower_bound=0.0,
            ),
            flags.DEFINE_float(
                "gpus_per_trial",
                None,
                "GPUs that a trial reserves and sees, for --executor=ray; default: 0.",
                lower_bound=0.0,
            ),
            flags.DEFINE_string(
                "ray_address",
                None,
                "Address of a running Ray cluster; default: one is started on this machine.",
            ),
        ),
        flags.DEFINE_integer(
            "devices", 1, "Number of devices that share each training batch.", lower_bound=1
        ),
    )
