"""How narrow can the network be?

Question: how do error and FLOPs of Indep change with the number of channels?

On local25's 30 tasks at budget small, about 25 CPU minutes:

  python -m launch.sweep --config=experiments/studies/width.py --set=network.width=4,8,16,32 --run_dir=runs/width

At the paper's scale (ResNet-34; 64 is its own width); pass the printed commands to launch.slurm
(docs/sweeps-and-studies.md):

  python -m launch.sweep --config=experiments/studies/width.py --config.stream=full --config.budget=paper \
      --set=network.width=8,16,32,64 --run_dir=runs/width-paper --commands

Cost by --dry_run: 6.6e13 FLOPs in all, 4.8e13 of them training, for 4 runs.

The paper (NEVIS'22, Figure 15; no figures here): fewer channels save much compute at little cost in
error. Its figure crosses width with resolution and largest batch, which this study does not:
add --set=network.resolution=32,64 --set=train.largest_batch=128,512.
"""  # noqa: E501

from nevis_stream.experiments import run_config


def get_config():
    """Returns the central setting."""
    config = run_config.default("indep")
    config.stream = "local25"
    config.budget = "small"
    return config
