"""PT-MT: every task starts from a backbone pre-trained on the whole meta-train stream.

python -m launch.run --config=experiments/configs/pt_mt.py --config.pretrained.path=weights.safetensors --run_dir=runs/pt_mt

The weights come from python -m launch.pretrain (docs/pretraining.md).
"""  # noqa: E501

from experiments import run_config


def get_config():
    """Returns the config."""
    return run_config.default("pt_mt")
