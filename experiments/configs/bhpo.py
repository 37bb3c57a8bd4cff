"""BHPO: every task on its own, hyper-parameters chosen one trial after the other by a Gaussian
process.

python -m launch.run --config=experiments/configs/bhpo.py --config.budget=small --run_dir=runs/bhpo-small

Any other learner searches so with --config.search.method=bayesian.
"""  # noqa: E501

from experiments import run_config


def get_config():
    """Returns the config."""
    config = run_config.default("bhpo")
    config.search.method = "bayesian"
    return config
