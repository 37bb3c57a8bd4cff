"""Logistic regression on pixels with scikit-learn: a learner without JAX; under a minute for the
whole stream.

python -m launch.run --config=experiments/configs/logistic_regression.py --run_dir=runs/logistic_regression
"""  # noqa: E501

from experiments import run_config


def get_config():
    """Returns the config."""
    return run_config.default("logistic_regression")
