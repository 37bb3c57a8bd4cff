"""Is it worth choosing where to start when all tasks are alike?

Question: on the classes of one data set, ten per task, is FT-d better than FT-prev, as it is on a
stream of different data sets?

On CIFAR-100 (10 tasks, the last two are judged) at budget small, about 15 CPU minutes:

  python -m launch.sweep --config=experiments/studies/split.py --set=learner=indep,ft_prev,ft_dynamic --seeds=3 \
      --run_dir=runs/split

The order of the classes is the data set's; --config.stream=split_cifar100@1 draws another.

At the paper's scale, on ImageNet (100 tasks, the last 20 are judged):

  python -m launch.run --config=ft_prev --config.stream=split_imagenet --config.budget=paper \
      --run_dir=runs/split-paper/ft_prev
  python -m launch.run --config=ft_dynamic --config.stream=split_imagenet --config.budget=paper \
      --run_dir=runs/split-paper/ft_dynamic

Cost by --dry_run: 2.4e13 FLOPs in all, 2.3e13 of them training, for 9 runs.

The paper (NEVIS'22, on Split-ImageNet; no figures here): FT-prev is best, and differences shrink
with compute.
"""  # noqa: E501

from nevis_stream.experiments import run_config


def get_config():
    """Returns the central setting."""
    config = run_config.default("ft_prev")
    config.stream = "split_cifar100"
    config.budget = "small"
    return config
