"""On which other tasks should a task also be trained, and where should it start?

Question: does MT gain from auxiliary tasks of the past, and from which: the most related one, the
three most related, all, or one that is drawn at random at each update? Does where it starts (as FT-d, as FT-prev, at random)
matter more?

On SHORT's tasks whose data are on this machine (14 where local25's are), at budget small, about 120
CPU minutes including FT-d, 50 of them for `all`, which trains on up to 13 other tasks in every step:

  python -m launch.sweep --config=experiments/studies/multitask.py --set=initialisation=related,previous,random \
      --run_dir=runs/multitask
  python -m launch.sweep --config=experiments/studies/multitask.py --set=auxiliary.count=3 --run_dir=runs/multitask
  python -m launch.sweep --config=experiments/studies/multitask.py --set=auxiliary.which=random,all --run_dir=runs/multitask
  python -m launch.run --config=ft_dynamic --config.stream=short+partial --config.budget=small \
      --run_dir=runs/multitask/ft_dynamic/seed-0

At the paper's scale, all twelve runs; pass the printed commands to launch.slurm
(docs/sweeps-and-studies.md):

  python -m launch.sweep --config=experiments/studies/multitask.py --config.stream=short --config.budget=paper \
      --set=initialisation=related,previous,random --set=auxiliary.which=related,random,all \
      --run_dir=runs/multitask-paper --commands
  python -m launch.sweep --config=experiments/studies/multitask.py --config.stream=short --config.budget=paper \
      --set=initialisation=related,previous,random --set=auxiliary.count=3 --run_dir=runs/multitask-paper --commands

Cost by --dry_run: 2.4e14 FLOPs in all, 2.2e14 of them training, for the 7 runs: 8.1e12 and 5.1e12
for FT-d, about five times as much training with one auxiliary task, whose batch of 64 is four times
the current task's, and twenty times with all.

The paper (NEVIS'22, Appendix G, on SHORT; no figures here): initialisation matters most; all
earlier tasks or a subset give the same trade-off; FT-d with the most related task is what its main
text reports as MT. At budget small, MT's helper is the task with the highest score while its start is
the latest within four standard errors of it, so they may be two tasks; at paper they are one. There (Table N) MT has 0.2694 on the 27 meta-test tasks and FT-d 0.2704; over
the 104 rows 0.2332 and 0.2318.
"""  # noqa: E501

from nevis_stream.experiments import run_config


def get_config():
    """Returns the central setting."""
    config = run_config.default("mt")
    config.stream = "short+partial"
    config.budget = "small"
    return config
