"""Do tasks of other domains help?

Question: judged on the same meta-test tasks, is FT-d better with meta-train tasks of all domains
than with objects and scenes alone? Streams of equally many tasks drawn from all domains separate the
effect of domains from that of their number.

On the tasks whose data are on this machine (30 where local25's are, 16 to 18 of them in each
smaller stream), at budget small, about 15 CPU minutes:

  python -m launch.sweep --config=experiments/studies/domain.py --run_dir=runs/domain \
      --set=stream=full+partial,major_domain_only+partial,random_43@0+partial,random_43@1+partial,random_43@2+partial

At the paper's scale; pass the printed commands to launch.slurm (docs/sweeps-and-studies.md):

  python -m launch.sweep --config=experiments/studies/domain.py --config.budget=paper --run_dir=runs/domain-paper --commands \
      --set=stream=full,major_domain_only,random_43@0,random_43@1,random_43@2,random_43@3,random_43@4

Cost by --dry_run: 4.3e13 FLOPs in all, 2.9e13 of them training, for 5 runs. The streams share their
meta-test tasks, so their errors may be compared although the report keeps streams apart.

The paper (NEVIS'22, Table 5, FT-d): all 79 meta-train tasks 0.276; the 43 of objects and scenes
0.285; 43 random ones 0.286 (standard deviation 0.01, 5 draws): leaving out other domains hurts no
more than leaving out equally many random tasks.
"""  # noqa: E501

from nevis_stream.experiments import run_config


def get_config():
    """Returns the central setting."""
    config = run_config.default("ft_dynamic")
    config.stream = "major_domain_only+partial"
    config.budget = "small"
    return config
