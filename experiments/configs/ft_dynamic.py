"""FT-d: every task from the most related earlier predictor.

python -m launch.run --config=experiments/configs/ft_dynamic.py --config.budget=tiny --run_dir=runs/ft_dynamic-tiny
"""  # noqa: E501

from experiments import run_config


def get_config():
    """Returns the config."""
    return run_config.default("ft_dynamic")
