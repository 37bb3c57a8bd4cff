"""Indep: every task from random parameters.

python -m launch.run --config=experiments/configs/indep.py --config.budget=tiny --run_dir=runs/indep-tiny
"""  # noqa: E501

from experiments import run_config


def get_config():
    """Returns the config."""
    return run_config.default("indep")
