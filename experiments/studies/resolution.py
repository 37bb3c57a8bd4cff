"""What is a higher resolution worth?

Question: how do error and FLOPs of Indep change with the side of the input, with batches of at most
128?

On local25's 30 tasks at budget small, about 25 CPU minutes:

  python -m launch.sweep --config=experiments/studies/resolution.py --set=network.resolution=16,32,64 --run_dir=runs/resolution

At the paper's scale; pass the printed commands to launch.slurm (docs/sweeps-and-studies.md):

  python -m launch.sweep --config=experiments/studies/resolution.py --config.stream=short --config.budget=paper \
      --set=network.resolution=32,64,128 --run_dir=runs/resolution-paper --commands

Cost by --dry_run: 7.1e13 FLOPs in all, 5.1e13 of them training, for 3 runs.

The paper (NEVIS'22, Figure 9; no figures here): Indep on SHORT, 32, 64 and 128 pixels, batches of at
most 128. local25 stands in for SHORT here.
"""  # noqa: E501

from nevis_stream.experiments import run_config


def get_config():
    """Returns the central setting."""
    config = run_config.default("indep")
    config.stream = "local25"
    config.budget = "small"
    config.train.largest_batch = 128
    return config
