"""Nearest class mean on pixels: the smallest learner; seconds for the whole stream.

python -m launch.run --config=experiments/configs/nearest_class_mean.py --run_dir=runs/nearest_class_mean
"""  # noqa: E501

from experiments import run_config


def get_config():
    """Returns the config."""
    return run_config.default("nearest_class_mean")
