"""MT: FT-d with the most related earlier task as an auxiliary one.

python -m launch.run --config=experiments/configs/mt.py --config.budget=tiny --run_dir=runs/mt-tiny
"""

from experiments import run_config


def get_config():
    """Returns the config."""
    return run_config.default("mt")
