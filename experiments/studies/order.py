"""Does the order of the tasks matter?

Question: how far does the error of FT-prev depend on the order inside a year, and on the years'
order at all?

On the tasks whose data are on this machine (30 where local25's are), at budget small, about 30 CPU
minutes:

  python -m launch.sweep --config=experiments/studies/order.py --run_dir=runs/order \
      --set=stream=full+partial,shuffled_within_year@0+partial,shuffled_within_year@1+partial,shuffled_within_year@2+partial,\
shuffled@0+partial,shuffled@1+partial,shuffled@2+partial

At the paper's scale; pass the printed commands to launch.slurm (docs/sweeps-and-studies.md):

  python -m launch.sweep --config=experiments/studies/order.py --config.budget=paper --run_dir=runs/order-paper \
      --set=stream=full,shuffled_within_year@0,shuffled_within_year@1,shuffled_within_year@2,shuffled@0,shuffled@1,shuffled@2 \
      --commands

Cost by --dry_run: 8.9e13 FLOPs in all, 6.5e13 of them training, for 7 runs. In the report
every stream has its own section, and the last part compares them: use the errors over the whole
stream there, not those of the judged tasks, which may be anywhere in a shuffled stream.

The paper (NEVIS'22, section 5.11): FT-prev has 0.260 on average over orders shuffled within years
and 0.253 over three full shuffles, so the order inside a year does not matter. 0.260 is the mean of
FT-prev over all 104 rows of Table N, so these are averages over the whole stream, not over the
meta-test tasks. The earlier ImageNet comes, the lower the error.
"""  # noqa: E501

from nevis_stream.experiments import run_config


def get_config():
    """Returns the central setting."""
    config = run_config.default("ft_prev")
    config.stream = "shuffled_within_year+partial"
    config.budget = "small"
    return config
