"""Runs one resolved config."""

from pathlib import Path

import ml_collections

from experiments import run_config
from nevis_stream.executor import Executor
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.runner import run
from nevis_stream.streams.stream import Stream


def run_config_once(
    config: ml_collections.ConfigDict,
    stream: Stream,
    run_dir: Path,
    checkpoint_seconds: float = 30.0,
    executor: Executor | None = None,
    devices: int = 1,
    tensorboard: bool = True,
) -> Ledger:
    """Runs or continues one config in one directory; returns the complete ledger."""
    return run(
        run_config.build(config),
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
    )
