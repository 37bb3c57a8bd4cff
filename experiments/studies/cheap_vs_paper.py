"""Does a cheap setting lead to the same conclusions as an expensive one?

Question: do learners rank the same at a budget for a single GPU as at the paper's own?

The same question for smaller budgets, tiny and small, on local25's 30 tasks, about 20 CPU
minutes for one seed (three are needed to separate the learners):

  python -m launch.sweep --config=experiments/studies/cheap_vs_paper.py --set=budget=tiny,small \
      --set=learner=indep,ft_prev,ft_dynamic --run_dir=runs/cheap_vs_paper

At the paper's scale; pass the printed commands to launch.slurm (docs/sweeps-and-studies.md):

  python -m launch.sweep --config=experiments/studies/cheap_vs_paper.py --config.stream=full --set=budget=cheap,paper \
      --set=learner=indep,ft_prev,ft_static,ft_dynamic,mt --run_dir=runs/cheap_vs_paper-paper --commands

Cost by --dry_run: 5.4e13 FLOPs in all, 3.5e13 of them training, for 6 runs.

The paper (NEVIS'22, Appendix C): with ResNets of a standard stem, label smoothing fixed at 0.15 and
four learning rates (25,000 steps in its code) the whole stream takes 1e17 to 1e18 FLOPs, 28 hours
on 4 devices or about 4 days on one GPU of 16 GB, against 1e18 to 1e21 of the main text, with the
same conclusions.
"""  # noqa: E501

from nevis_stream.experiments import run_config


def get_config():
    """Returns the central setting."""
    config = run_config.default("ft_prev")
    config.stream = "local25"
    config.budget = "small"
    return config
