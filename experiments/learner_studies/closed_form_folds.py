"""Errors of a configuration of `closed_form` on held-out folds of 15 meta-train tasks of local25.

  python -m launch.data prepare --stream=local25
  python -m experiments.learner_studies.closed_form_folds --config=closed_form --config.budget=huge [--config.patches=256 …]

For choices: no test image is used. The train, dev and dev_test splits of a task, at most 2,400
images, are divided at random into four folds; three times, one fold is held out and the other three
are learned. Left out are the tasks on which every budget has an error near 0. Prints the error of
each task, its three errors, and the FLOPs of learning and of answering one image.
"""  # noqa: E501

import numpy as np

from nevis_stream.cost.meter import total
from nevis_stream.datasets.images import JoinedImages
from nevis_stream.errors import BadInput, unknown
from nevis_stream.experiments import run_config
from nevis_stream.experiments.learner_studies.recorded_runs import require_prepared
from nevis_stream.experiments.machine import describe
from nevis_stream.learner import Context, Learner
from nevis_stream.learners.closed_form.learner import error_of
from nevis_stream.storage.checkpoint import to_host
from nevis_stream.streams.named_streams import load_stream
from nevis_stream.streams.task import LabelledImages, Task, TaskView

TASKS = (
    "landsat",
    "brodatz",
    "mpeg7",
    "caltech101",
    "scenes15",
    "voc2007",
    "gtsrb",
    "cifar10",
    "silhouettes",
    "chars74k",
    "cifar100",
    "mnist_m",
    "office_caltech",
    "pacs",
    "emnist_balanced",
)
IMAGES, FOLDS, HELD_OUT = 2400, 4, 3
LEARNERS = ("closed_form", "frontier")


def measure(learner: Learner, task: Task, splits) -> tuple[list[float], float, float]:
    """Returns the error on each held-out fold, the FLOPs of learning, and of answering an image.

    Args:
      learner: which learns each task on its own.
      task: a meta-train task.
      splits: its LabelledImages, by the name of the split.
    """
    parts = [splits[name] for name in ("train", "dev", "dev_test")]
    images = JoinedImages([part.images for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    order = np.random.default_rng(0).permutation(len(labels))[:IMAGES]
    facts = task.task_id, task.year, task.kind, task.domain, task.num_classes
    errors, learning, answering = [], [], []
    for number in range(HELD_OUT):
        held_out = order[number::FOLDS]
        used = np.setdiff1d(order, held_out)
        train, dev = [
            LabelledImages(images.take(rows), labels[rows]) for rows in (used[::2], used[1::2])
        ]
        ctx = Context(path=(f"fold {number}", task.task_id), phase="train")
        _, predictors = learner.train(TaskView(*facts, train, dev), learner.init(ctx), ctx)
        learning.append(total(ctx.meter.counts()))
        answers = learner.predict(to_host(predictors[0].tree), images.take(held_out), ctx)
        answering.append((total(ctx.meter.counts()) - learning[-1]) / len(held_out))
        errors.append(error_of(task.kind, labels[held_out], answers))
    return errors, float(np.mean(learning)), float(np.mean(answering))


def main(command) -> None:
    """Measures one configuration and prints its table.

    Args:
      command: what `launch.config_flag.split_words` finds on the command line.
    """
    for name in ("stream", "seed", "protocol"):
        if name in command.values:
            raise BadInput(f"--config.{name}: this is fixed here, see --help.")
    config = command.config()
    if config.learner not in LEARNERS:
        raise BadInput(unknown("learner", config.learner, LEARNERS))
    require_prepared("local25")
    learner = run_config.resolve(config).build()
    stream = load_stream("local25")
    print(f"{describe()}\n\n| task | error | each fold | FLOPs to learn | to answer an image |")
    print("|---|---:|---:|---:|---:|")
    rows = []
    for task in stream.tasks:
        if task.task_id in TASKS:
            errors, *flops = measure(learner, task, stream.splits(task))
            rows.append([np.mean(errors), *flops])
            each = ", ".join(f"{error:.3f}" for error in errors)
            cost = " | ".join(f"{value:.3g}" for value in flops)
            print(f"| {task.task_id} | {rows[-1][0]:.4f} | {each} | {cost} |", flush=True)
    error, *flops = np.mean(rows, axis=0)
    print(f"| mean | {error:.4f} | | {' | '.join(f'{value:.3g}' for value in flops)} |")


if __name__ == "__main__":
    from nevis_stream.launch import entry
    from nevis_stream.launch.config_flag import split_words

    entry.start(
        lambda _: main(split_words(entry.arguments())), take=lambda words: split_words(words).rest
    )
