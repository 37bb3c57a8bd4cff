"""Dictionaries from earlier tasks' images: errors of `closed_form` on held-out folds.

  python -m launch.data prepare --stream=local25
  python -m benchmarks.pooled_dictionaries pool     # of earlier tasks alone
  python -m benchmarks.pooled_dictionaries mixed    # half of the patches from the task itself
  python -m benchmarks.closed_form_folds --config=closed_form --config.budget=huge   # its own

As `closed_form_folds` at the budget `huge`, but the patches of a dictionary are cut from 32 training
images of each earlier task of local25. The first task has its own dictionaries. The maps of the
pooled images are charged.
"""  # noqa: E501

import sys
from collections.abc import Sequence

import numpy as np

from benchmarks import closed_form_folds
from launch import entry
from learners.closed_form import embedding, maps, patches
from learners.closed_form.embedding import FeaturePlan, ImageSelection
from nevis_stream.errors import BadInput, unknown
from nevis_stream.learner import Context
from nevis_stream.run_directory.checkpoint import Tree
from nevis_stream.streams.stream import load_stream

OWN_SHARE = {"pool": 0.0, "mixed": 0.5}  # of the patches
IMAGES_OF_EACH_TASK = 32


def pooled(own_share: float):
    """Returns a function that takes the place of `embedding._dictionaries`."""
    stream = load_stream("local25")
    train = {task.task_id: stream.splits(task)["train"].images for task in stream.tasks}
    own_dictionaries = embedding._dictionaries

    def dictionaries(ctx: Context, plan: FeaturePlan, images: ImageSelection) -> Tree:
        task = next(name for name in ctx._path if name in train)
        earlier = [train[name] for name in list(train)[: list(train).index(task)]]
        if not earlier:
            return own_dictionaries(ctx, plan, images)
        generator = ctx.generator("pool")
        rows = [generator.permutation(len(each))[:IMAGES_OF_EACH_TASK] for each in earlier]
        numbered = [np.stack([np.full(len(r), i), r], 1) for i, r in enumerate(rows)]
        pool = maps_of(ctx, plan, ImageSelection(earlier, np.concatenate(numbered)))
        own = maps_of(ctx, plan, images.take(slice(embedding._IMAGES_FOR_PATCHES)))
        found = {}
        for source in plan.sources:
            ours, theirs, mirrored = own[source.name], pool[source.name], maps.MIRRORED_BINS
            if not source.cell:
                if (ours == ours[..., :1]).all():  # grey images
                    ours, theirs = ours[..., :1], theirs.mean(-1, keepdims=True)
                mirrored = np.arange(ours.shape[-1])
            draw, count = ctx.generator("patches", source.name), embedding._PATCHES
            few = int(own_share * count)
            cut = patches.sample(theirs, source.side, count - few, draw)
            if few:
                cut = np.concatenate([cut, patches.sample(ours, source.side, few, draw)])
                cut = cut[draw.permutation(count)]
            components = min(embedding._PATCH_COMPONENTS, cut[0].size)
            fit = patches.dictionary_program(plan.patches, components, source.contrast)
            found[source.name] = ctx.jit(fit)(cut, mirrored)
        return found

    return dictionaries


def maps_of(ctx: Context, plan: FeaturePlan, images: ImageSelection) -> dict[str, np.ndarray]:
    """Returns the maps of every dictionary, by its name."""
    program = ctx.jit(embedding.sources_program(plan))
    batches = [
        {name: np.asarray(array)[:count] for name, array in program(views).items()}
        for views, count in images.views(plan.gradients)
    ]
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def main(words: Sequence[str]) -> None:
    """Prints the table of `closed_form_folds` with pooled dictionaries."""
    if len(words) != 1 or words[0] not in OWN_SHARE:
        raise BadInput(unknown("kind of dictionary", " ".join(words), OWN_SHARE))
    embedding._dictionaries = pooled(OWN_SHARE[words[0]])
    sys.argv[1:] = ["--config=closed_form", "--config.budget=huge"]
    closed_form_folds.main([])


if __name__ == "__main__":
    entry.start(main, words="pool|mixed")
