"""Which part of the past matters: ImageNet, the early tasks, the late ones, or their number?

Question: how much does FT-d, judged on the same meta-test tasks, lose without ImageNet, the first
30, the last 30 or 30 random meta-train tasks?

On the tasks whose data are on this machine (30 where local25's are, 19 of them in the streams
without the first or last 30), at budget small, about 15 CPU minutes:

  python -m launch.sweep --config=experiments/studies/stream_variants.py --run_dir=runs/variants \
      --set=stream=full+partial,remove_first_30+partial,remove_last_30+partial,remove_random_30@0+partial,\
remove_random_30@1+partial

ImageNet is not among local25's tasks, so with its data no_imagenet+partial is full+partial again
and imagenet_only has no task at all. The other variants are useful: remove_first_30 removes the
11 tasks of 1998 to 2010, remove_last_30 the last 11 of 2015 to 2018, and remove_random_30@0 and @1
11 others.

At the paper's scale; pass the printed commands to launch.slurm (docs/sweeps-and-studies.md).
imagenet_only has no meta-test task, so it is run separately, for the error on ImageNet alone:

  python -m launch.sweep --config=experiments/studies/stream_variants.py --config.budget=paper --run_dir=runs/variants-paper \
      --set=stream=full,no_imagenet,remove_first_30,remove_last_30,remove_random_30@0,remove_random_30@1,remove_random_30@2,\
random_40@0,random_40@1,random_40@2,random_43@0,random_43@1,random_43@2 --commands
  python -m launch.run --config=experiments/studies/stream_variants.py --config.budget=paper --config.stream=imagenet_only \
      --config.protocol=meta_train --run_dir=runs/imagenet-paper

Cost by --dry_run: 5.0e13 FLOPs in all, 3.3e13 of them training, for 5 runs.

The paper (NEVIS'22, Table 5, FT-d):

  | meta-train tasks   | number | error | std over 5 draws |
  | all                | 79     | 0.276 |       |
  | without ImageNet   | 78     | 0.303 |       |
  | without first 30   | 49     | 0.295 |       |
  | without last 30    | 49     | 0.283 |       |
  | without 30 random  | 49     | 0.283 | 0.009 |
  | 40 random          | 40     | 0.282 | 0.01  |
  | 43 random          | 43     | 0.286 | 0.01  |

ImageNet alone is worth three points; the first 30 tasks are worth more than the last.
"""  # noqa: E501

from nevis_stream.experiments import run_config


def get_config():
    """Returns the central setting."""
    config = run_config.default("ft_dynamic")
    config.stream = "remove_first_30+partial"
    config.budget = "small"
    return config
