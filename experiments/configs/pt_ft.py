"""PT + FT-d: FT-d with a pre-trained backbone among the candidates.

python -m launch.run --config=experiments/configs/pt_ft.py --config.pretrained.path=weights.safetensors --run_dir=runs/pt_ft

The weights come from python -m launch.pretrain (docs/pretraining.md).
"""  # noqa: E501

from experiments import run_config


def get_config():
    """Returns the config."""
    return run_config.default("pt_ft")
