"""Dictionaries from earlier tasks' images: errors of `closed_form` on held-out folds.

  python -m launch.data prepare --stream=local25
  python -m experiments.learner_studies.pooled_dictionaries pool     # of earlier tasks alone
  python -m experiments.learner_studies.pooled_dictionaries mixed    # half of the images from the task itself
  python -m experiments.learner_studies.closed_form_folds --config=closed_form --config.budget=huge   # its own

As `closed_form_folds` at the budget `huge` (or --config.budget=…), but the patches of a dictionary
are cut from training images of all earlier tasks of local25, as many of each. The first task has
its own dictionaries.
"""  # noqa: E501

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from nevis_stream.errors import BadInput, unknown
from nevis_stream.experiments.learner_studies import closed_form_folds
from nevis_stream.learner import Context
from nevis_stream.learners.closed_form import embedding
from nevis_stream.learners.closed_form.embedding import FeaturePlan, ImageSelection
from nevis_stream.storage.checkpoint import Tree
from nevis_stream.streams.named_streams import load_stream

OWN_SHARE = {"pool": 0.0, "mixed": 0.5}  # of the images


def pooled(own_share: float) -> Callable[[Context, FeaturePlan, ImageSelection], Tree]:
    """Returns a function that takes the place of `embedding._dictionaries`."""
    stream = load_stream("local25")
    train = {task.task_id: stream.splits(task)["train"].images for task in stream.tasks}
    dictionaries, count = embedding._dictionaries, embedding._IMAGES_FOR_PATCHES

    def of_earlier_tasks(ctx: Context, plan: FeaturePlan, images: ImageSelection) -> Tree:
        task = next(name for name in ctx._path if name in train)
        earlier = [train[name] for name in list(train)[: list(train).index(task)]]
        own = images.take(slice(int(own_share * count) if earlier else count))
        each = -(-(count - len(own)) // max(1, len(earlier)))
        draw = ctx.generator("pool")
        rows = [own.rows] + [
            np.stack([np.full(len(chosen), len(own.containers) + number), chosen], 1)
            for number, container in enumerate(earlier)
            for chosen in [draw.permutation(len(container))[:each]]
        ]
        both = ImageSelection([*own.containers, *earlier], np.concatenate(rows))
        return dictionaries(ctx, plan, both)

    return of_earlier_tasks


def main(words: Sequence[str], changed: Mapping[str, str], split_words) -> None:
    """Prints the table of `closed_form_folds` with pooled dictionaries.

    Args:
      words: the kind of dictionary.
      changed: values of the config, by dotted name.
      split_words: of `launch.config_flag`.
    """
    if len(words) != 1 or words[0] not in OWN_SHARE:
        raise BadInput(unknown("kind of dictionary", " ".join(words), OWN_SHARE))
    embedding._dictionaries = pooled(OWN_SHARE[words[0]])
    values = [f"--config.{name}={value}" for name, value in changed.items()]
    closed_form_folds.main(split_words(["--config=closed_form", "--config.budget=huge", *values]))


if __name__ == "__main__":
    from nevis_stream.launch import entry
    from nevis_stream.launch.config_flag import split_words

    entry.start(
        lambda words: main(words, split_words(entry.arguments()).values, split_words),
        take=lambda words: split_words(words).rest,
        words="pool|mixed",
    )
