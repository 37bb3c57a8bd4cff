"""PT-ext: every task starts from a larger backbone that was pre-trained on external data.

python -m launch.run --config=experiments/configs/pt_ext.py --config.pretrained.path=weights.safetensors --run_dir=runs/pt_ext

The weights come from python -m launch.pretrain (docs/pretraining.md).
"""  # noqa: E501

from experiments import run_config


def get_config():
    """Returns the config."""
    return run_config.default("pt_ext")
