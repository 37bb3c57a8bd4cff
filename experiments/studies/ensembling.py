"""Is it better to choose the best of many trials, or to average several?

Question: with the same number of trials of FT-d, does an ensemble of the best N (N = 1, 2, 4, 8) beat
the single best, and does an ensemble of four trials beat the single best of eight?

On local25's 30 tasks at budget small, about 50 CPU minutes:

  python -m launch.sweep --config=experiments/studies/ensembling.py --trials=4 --set=ensemble=1,2,4 --run_dir=runs/ensembling
  python -m launch.sweep --config=experiments/studies/ensembling.py --trials=8 --set=ensemble=1,2,4,8 --run_dir=runs/ensembling

At the paper's scale; pass the printed commands to launch.slurm (docs/sweeps-and-studies.md):

  python -m launch.sweep --config=experiments/studies/ensembling.py --config.stream=full --config.budget=paper \
      --trials=4 --set=ensemble=1,2,4 --run_dir=runs/ensembling-paper --commands
  python -m launch.sweep --config=experiments/studies/ensembling.py --config.stream=full --config.budget=paper \
      --trials=8 --set=ensemble=1,2,4,8 --run_dir=runs/ensembling-paper --commands

Cost by --dry_run: 4.4e13 FLOPs in all, 2.8e13 of them training, for 3 runs of four trials; 1.1e14
and 7.4e13 for 4 runs of eight. An ensemble needs no more training, but its answers cost more:
compare "FLOPs in all". --config.learner=NAME runs the study with another learner than ft_dynamic.

The paper (NEVIS'22, Appendix I, Figure 25): of FT-d, an ensemble of 4 trials, weighted by softmax(accuracy / 0.1),
beats the single best of 8 at half the training compute; answering costs N times as much.
"""  # noqa: E501

from nevis_stream.experiments import run_config


def get_config():
    """Returns the central setting."""
    config = run_config.default("ft_dynamic")
    config.stream = "local25"
    config.budget = "small"
    config.ensemble = 4
    return config
