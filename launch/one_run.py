"""Runs one resolved config."""

import warnings
from pathlib import Path

from nevis_stream.errors import DataWarning
from nevis_stream.executor import Executor
from nevis_stream.experiments import run_config
from nevis_stream.progress import Progress
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.runner import run
from nevis_stream.streams.named_streams import list_unprepared
from nevis_stream.streams.stream import Stream


def run_config_once(
    config: run_config.RunConfig,
    stream: Stream,
    run_dir: Path,
    checkpoint_seconds: float = 30.0,
    executor: Executor | None = None,
    devices: int = 1,
    tensorboard: bool = True,
    progress: Progress | None = None,
    accept_changed_code: bool = False,
) -> Ledger:
    """Runs or continues one config in one directory; returns the complete ledger."""
    _warn_of_unprepared(config.stream)
    return run(
        config.build(),
        stream,
        run_dir,
        protocol=config.protocol,
        seed=config.seed,
        config=run_config.to_json(config),
        keep=config.keep,
        checkpoint_seconds=checkpoint_seconds,
        executor=executor,
        devices=devices,
        tensorboard=tensorboard,
        progress=progress,
        accept_changed_code=accept_changed_code,
    )


def _warn_of_unprepared(stream: str) -> None:
    if names := list_unprepared(stream):
        first = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        warnings.warn(
            f"{len(names)} data set(s) are read from shared files, not as prepared: {first}. Their"
            " splits are others and duplicates are not removed, so errors cannot be compared with"
            f" those of prepared data: python -m launch.data prepare --stream={stream}",
            DataWarning,
            stacklevel=3,
        )
