"""PT-ISup: every task starts from a backbone pre-trained with the labels of one data set.

python -m launch.run --config=experiments/configs/pt_isup.py --config.pretrained.path=weights.safetensors --run_dir=runs/pt_isup

The weights come from python -m launch.pretrain (docs/pretraining.md).
"""  # noqa: E501

from experiments import run_config


def get_config():
    """Returns the config."""
    return run_config.default("pt_isup")
