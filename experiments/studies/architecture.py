"""Which backbone is best under the same resources?

Question: how do ResNet-18, 34 and 50, VGG, ViT and NFNet compare in error and FLOPs with the same
trials, steps and batches, from random parameters?

On pico's 10 tasks at budget small with one trial of 60 steps, about 25 CPU minutes (without
ResNet-50 and ViT-B/8, which need a GPU):

  python -m launch.sweep --config=experiments/studies/architecture.py --config.stream=pico --trials=1 --steps=60 \
      --set=network.name=resnet18,vgg11,vit_tiny8,nfnet_f0 --run_dir=runs/architecture

At the paper's scale; pass the printed commands to launch.slurm (docs/sweeps-and-studies.md):

  python -m launch.sweep --config=experiments/studies/architecture.py --config.stream=full --config.budget=paper \
      --set=network.name=resnet18,resnet34,resnet50,vgg16,vit_b8,nfnet_f0 --run_dir=runs/architecture-paper --commands

Cost by --dry_run: 6.5e13 FLOPs in all, 5.1e13 of them training, for 4 runs. A network that is
named has its own stages and stem; the budget only sets the resolution.

The paper (NEVIS'22, Figure 14; no figures here): larger networks (ResNet-50, ViT-B/8) do worse than
ResNet-34 under the same resources. It trains these two with smaller batches; here all networks have
batches of the same size, so that a step of a larger one costs more than there.
--config.train.largest_batch=N sets a smaller one.
"""  # noqa: E501

from nevis_stream.experiments import run_config


def get_config():
    """Returns the central setting."""
    config = run_config.default("indep")
    config.stream = "local25"
    config.budget = "small"
    config.network.name = "resnet18"
    return config
