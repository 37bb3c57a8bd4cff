"""Is Bayesian search worth its sequential trials?

Question: does Bayesian search beat random search at equal trials and steps, for Indep, and does a
larger search space help, with few and many steps per trial and, at the paper's scale, few and many
trials?

On local25's 30 tasks at budget small, about 40 CPU minutes:

  python -m launch.sweep --config=experiments/studies/bhpo.py --set=search.space=small,large \
      --set=search.method=random,bayesian --trials=8 --steps=60,120 --run_dir=runs/bhpo

Indep with search.method bayesian and search.space large is the learner bhpo.

At the paper's scale; pass the printed commands to launch.slurm (docs/sweeps-and-studies.md):

  python -m launch.sweep --config=experiments/studies/bhpo.py --config.stream=full --config.budget=paper \
      --config.train.validate_every=1000 --set=search.space=small,large --set=search.method=random,bayesian \
      --trials=20,40 --steps=5000,10000,20000,50000 --run_dir=runs/bhpo-paper --commands

Cost by --dry_run: 1.1e14 FLOPs in all, 5.5e13 of them training, for 8 runs (in 60 steps the
four evaluations on the dev split have a large share). The estimate assumes the batch and network of
the small space for the large space too; its runs count the FLOPs of what they draw.

The paper (NEVIS'22, Appendix H; no figures here): the small space has learning rate and label
smoothing, the large one also schedule, batch size, architecture (VGG or ResNet-34), crop and flip.
The large space helps most at few steps; Bayesian search beats random search mainly in the large
space; the choice of batch sizes makes the large space much costlier. In the main text Bayesian
search lowers the error, but not the Pareto front.
"""  # noqa: E501

from nevis_stream.experiments import run_config


def get_config():
    """Returns the central setting."""
    config = run_config.default("indep")
    config.stream = "local25"
    config.budget = "small"
    config.search.method = "bayesian"
    return config
