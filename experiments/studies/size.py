"""Do small data sets help?

Question: judged on the same meta-test tasks, is FT-d as good with only the large meta-train data
sets (about 10,000 samples or more)? Streams of equally many tasks drawn from all sizes separate the
effect of size from that of their number.

On the tasks whose data are on this machine (30 where local25's are, 20 of them in the stream of
large ones, 16 to 18 in random ones), at budget small, about 15 CPU minutes:

  python -m launch.sweep --config=experiments/studies/size.py --run_dir=runs/size \
      --set=stream=full+partial,large_dataset_only+partial,random_40@0+partial,random_40@1+partial,random_40@2+partial

At the paper's scale; pass the printed commands to launch.slurm (docs/sweeps-and-studies.md):

  python -m launch.sweep --config=experiments/studies/size.py --config.budget=paper --run_dir=runs/size-paper --commands \
      --set=stream=full,large_dataset_only,random_40@0,random_40@1,random_40@2,random_40@3,random_40@4

Cost by --dry_run: 4.8e13 FLOPs in all, 3.1e13 of them training, for 5 runs.

The paper (NEVIS'22, Table 5, FT-d): all 79 meta-train tasks 0.276; the 40 large ones 0.270; 40
random ones 0.282 (standard deviation 0.01, 5 draws): large data sets alone are no worse than the
whole stream.
"""  # noqa: E501

from nevis_stream.experiments import run_config


def get_config():
    """Returns the central setting."""
    config = run_config.default("ft_dynamic")
    config.stream = "large_dataset_only+partial"
    config.budget = "small"
    return config
