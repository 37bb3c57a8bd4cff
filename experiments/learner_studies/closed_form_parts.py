"""What each part of `closed_form` and `frontier` contributes.

  python -m experiments.learner_studies.closed_form_parts runs/parts

Prints a table of the complete runs below a folder (NAME/seed-N), by rising cost: errors, FLOPs of
each phase, CPU seconds of the events; then paired bootstrap intervals over tasks and seeds, between
neighbours of one learner and between learners of one budget; and the errors of every task.

The contribution is measured on the dev_test splits of the meta-train tasks, with names that
begin with the name of what they change:

  run="python -m launch.run --config=closed_form --config.stream=local25 --config.protocol=meta_train --seeds=3"
  $run --config.budget=medium --run_dir=runs/parts/medium
  $run --config.budget=medium '--config.mirrored=(False,)' --run_dir=runs/parts/medium_not_mirrored
  $run --config.budget=medium '--config.mirrored=(True,)' --run_dir=runs/parts/medium_always_mirrored
  $run --config.budget=medium --config.pixels=0 --run_dir=runs/parts/medium_without_pixels
  $run --config.budget=medium '--config.gradients=(32,64)' --run_dir=runs/parts/medium_two_scales
  $run --config.budget=medium '--config.gradients=(32,)' --run_dir=runs/parts/medium_one_scale
  $run --config.budget=large --run_dir=runs/parts/large
  $run --config.budget=large '--config.gradients=(32,64)' --run_dir=runs/parts/large_two_scales
  $run --config.budget=large --config.patches=0 --run_dir=runs/parts/large_without_patches
  $run --config.budget=large --config.patches_above=0.0 --run_dir=runs/parts/large_patches_everywhere

That of the networks of `giant` likewise:

  run="python -m launch.run --config=frontier --config.stream=local25 --config.protocol=meta_train --config.budget=giant --seeds=3"
  $run --run_dir=runs/parts/giant
  $run --config.network_steps=0 --run_dir=runs/parts/giant_without_networks
  $run --config.chained=False --run_dir=runs/parts/giant_from_random
"""  # noqa: E501

from itertools import combinations, pairwise
from pathlib import Path

from nevis_stream.experiments.learner_studies.run_tables import (
    Runs,
    complete_runs,
    print_differences,
    print_points,
    print_tasks,
)
from nevis_stream.experiments.machine import describe


def pairs(runs: Runs) -> list[tuple[str, str]]:
    """Returns pairs of names to compare, each the plainer or cheaper first.

    They are the budgets of one learner, by rising cost; then two learners at one budget; then NAME
    and NAME_CHANGE at one budget.
    """
    headers = {name: ledgers[0].header for name, ledgers in runs.items()}
    budgets: dict[str, dict[str, str]] = {}
    for name in sorted(runs, key=len):
        budgets.setdefault(headers[name].learner, {}).setdefault(headers[name].budget, name)
    by_cost = [sorted(names.values(), key=list(runs).index) for names in budgets.values()]
    same = [
        (first, second)
        for first, second in combinations(sorted(runs), 2)
        if headers[first].budget == headers[second].budget
        and (headers[first].learner != headers[second].learner or second.startswith(first))
    ]
    return [pair for names in by_cost for pair in pairwise(names)] + same


def main(folder: Path) -> None:
    """Prints the tables."""
    runs = complete_runs(folder)
    print(describe() + "\n")
    print_points(runs)
    print_differences(runs, pairs(runs))
    print_tasks(runs)


if __name__ == "__main__":
    from nevis_stream.launch import entry

    entry.start(
        lambda words: main(Path(entry.take_only_word(words, "the folder of the runs"))),
        words="FOLDER",
    )
