"""Flags that several commands have, each with one meaning."""

from absl import flags
from absl.flags import FlagHolder, FlagValues

flags.disclaim_key_flags()  # they belong to the command that defines them with these functions


def config(meaning: str) -> FlagHolder:
    """Defines --config; `config_flag.given().config()` is its value."""
    return flags.DEFINE_string("config", None, meaning)


def data_dir(values: FlagValues = flags.FLAGS) -> FlagHolder:
    """Defines --data_dir; `entry.parse` follows it."""
    return flags.DEFINE_string(
        "data_dir",
        None,
        "Directory of prepared data; default: NEVIS_STREAM_DATA, else the user's cache directory.",
        flag_values=values,
    )


def checkpoint_seconds() -> FlagHolder:
    """Defines --checkpoint_seconds."""
    return flags.DEFINE_float(
        "checkpoint_seconds",
        30.0,
        "Shortest time between two saved positions inside a trial.",
        lower_bound=0.0,
    )
