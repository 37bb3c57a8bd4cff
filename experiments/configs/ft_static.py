"""FT-s: every task from the most related earlier predictor, relatedness in feature spaces of
independent predictors.

python -m launch.run --config=experiments/configs/ft_static.py --config.budget=tiny --run_dir=runs/ft_static-tiny
"""  # noqa: E501

from experiments import run_config


def get_config():
    """Returns the config."""
    return run_config.default("ft_static")
