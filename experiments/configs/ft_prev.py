"""FT-prev: every task from the predictor of the task before it.

python -m launch.run --config=experiments/configs/ft_prev.py --config.budget=tiny --run_dir=runs/ft_prev-tiny
"""  # noqa: E501

from experiments import run_config


def get_config():
    """Returns the config."""
    return run_config.default("ft_prev")
