"""Runs two rollouts in a process that kills itself at its n-th operation on files.

python -m tests.experiments.rollouts.rollouts_target FOLDER N
"""

import sys
from pathlib import Path

import numpy as np

from nevis_stream.experiments.rollouts.study import Rollouts, RolloutSettings, run_rollouts
from nevis_stream.experiments.rollouts.training import ImagePool
from tests.kill_target import arm


def made_pool() -> ImagePool:
    """Two classes, darker and brighter noise, which overlap."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 2, 48).astype(np.int32)
    level = 60 + 50 * labels + generator.integers(0, 80, 48)
    noise = generator.integers(0, 60, (48, 32, 32, 3))
    return ImagePool((level[:, None, None, None] + noise).astype(np.uint8), labels, 2)


def settings(depth=1, width=3, seed=0) -> RolloutSettings:
    """Of a study of that pool."""
    return RolloutSettings("made", 48, "0" * 16, depth, width, 0.7, seed)


def rollouts(folder: Path, count: int = 2, **changes) -> Rollouts:
    """Runs them, or continues them."""
    return run_rollouts(settings(**changes), made_pool(), folder, count)


if __name__ == "__main__":
    arm(int(sys.argv[2]))
    rollouts(Path(sys.argv[1]))
