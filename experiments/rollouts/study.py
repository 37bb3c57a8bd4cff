"""A study of rollouts in a directory: settings, the base classifier, and what every classifier of a
rollout predicts.

OUT/study.json identifies the study; OUT/rollouts/trial-NNN are finished rollouts, and positions of
unfinished ones. More rollouts of the same study can be added by a later call.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from nevis_stream.cost.meter import total
from nevis_stream.errors import BadInput, plural
from nevis_stream.executor import Executor
from nevis_stream.experiments.rollouts.statistics import (
    RiskCurve,
    compute_curve,
    compute_plurality_risks,
)
from nevis_stream.experiments.rollouts.training import (
    BATCH,
    UNKNOWN,
    ImagePool,
    Trainer,
    predict_pool,
    train_epochs,
)
from nevis_stream.experiments.study_record import keep_settings
from nevis_stream.experiments.theory.designs import Design, run_design
from nevis_stream.experiments.theory.populations import Population
from nevis_stream.learner import Context
from nevis_stream.progress import Progress
from nevis_stream.storage import lock_exclusively
from nevis_stream.storage.checkpoint import EventWorkspace

MOST_EPOCHS = 50
MOST_CLASSIFIERS = 10_000
"""Of one rollout; at a second each, a rollout of so many takes hours."""


@dataclass(frozen=True)
class RolloutSettings:
    """What identifies a study.

    Attributes:
      data: name of the data set.
      images: number of images.
      fingerprint: of these images and their labels.
      depth, width: of the design.
      base_accuracy: the base classifier is trained until its accuracy on the images reaches this;
        every classifier is trained for as many epochs.
      seed: root of all random numbers.
    """

    data: str
    images: int
    fingerprint: str
    depth: int
    width: int
    base_accuracy: float
    seed: int

    @property
    def design(self) -> Design:
        """The design of the rollouts."""
        return Design(self.depth, self.width)


@dataclass(frozen=True)
class Base:
    """The base classifier: epochs until its accuracy was reached, its accuracy, and where it is
    right, bool[n]: the images of the rollouts."""

    epochs: int
    accuracy: float
    right: np.ndarray


@dataclass(frozen=True)
class Rollouts:
    """Finished rollouts.

    Attributes:
      settings, base: of the study.
      predicted: int16[r, T, n], the class that each classifier predicts; UNKNOWN where it errs and
        an earlier version kept only that.
      labels: int32[n].
      flops: int[r].
    """

    settings: RolloutSettings
    base: Base
    predicted: np.ndarray
    labels: np.ndarray
    flops: Sequence[int]

    @functools.cached_property
    def errors(self) -> np.ndarray:
        """bool[r, T, n], where each classifier errs."""
        return self.predicted != self.labels

    @functools.cached_property
    def curves(self) -> list[RiskCurve]:
        """The curve of each rollout, of votes on error sets."""
        return [compute_curve(errors, self.settings.design) for errors in self.errors]

    @functools.cached_property
    def plurality_risks(self) -> np.ndarray:
        """float64[r, T], of votes on classes; see `compute_plurality_risks`."""
        design = self.settings.design
        return np.stack(
            [compute_plurality_risks(each, self.labels, design) for each in self.predicted]
        )


def train_base(ctx: Context, pool: ImagePool, accuracy: float) -> dict:
    """Returns {"epochs", "accuracy", "right"} of a classifier trained until it is accurate enough.

    Raises:
      BadInput: it is not accurate enough after 50 epochs.
    """
    uniform = np.full(len(pool), 1 / len(pool))
    best = 0.0
    networks = train_epochs(ctx, pool, uniform, MOST_EPOCHS, "base")
    for epoch, parameters in enumerate(networks, start=1):
        errors = predict_pool(ctx, pool, parameters) != pool.labels
        best = max(best, 1 - errors.mean())
        if 1 - errors.mean() >= accuracy:
            return {"epochs": epoch, "accuracy": float(1 - errors.mean()), "right": ~errors}
    raise BadInput(
        f"the base classifier reached an accuracy of {best:.3f} on its training images in"
        f" {MOST_EPOCHS} epochs, less than --base_accuracy={accuracy:g}. Lower it, and choose a new"
        " --out."
    )


def _base_trial(ctx: Context, item: tuple[ImagePool, float]) -> dict:
    return train_base(ctx, *item)


@dataclass(frozen=True)
class _Rollout:
    """The trial of one rollout: its result is {"predicted": int16[T, n]}."""

    pool: ImagePool
    epochs: int
    design: Design

    def __call__(self, ctx: Context, item: int) -> dict:
        position = ctx.restore()
        saved = [] if position is None else list(_read_predicted(position[1], self.pool.labels))
        trainer = Trainer(ctx, self.pool, self.epochs, saved)
        run_design(Population.uniform(len(self.pool)), trainer, self.design)
        return {"predicted": np.stack(trainer.saved)}


def _read_predicted(tree: Mapping[str, np.ndarray], labels: np.ndarray) -> np.ndarray:
    """Returns the predicted classes, int16[T, n], of a rollout's position or result; an earlier
    version kept {"errors": packed uint8[T, ceil(n / 8)]}."""
    if "predicted" in tree:
        return np.asarray(tree["predicted"])
    errors = np.unpackbits(np.asarray(tree["errors"]), axis=1, count=len(labels)).astype(bool)
    return np.where(errors, UNKNOWN, labels).astype(np.int16)


def begin(settings: RolloutSettings, out: Path) -> None:
    """Makes the directory of a study, if it is missing.

    Raises:
      BadInput: the directory contains another study; or the design has too many classifiers.
    """
    depth, width = settings.depth, settings.width
    if depth * math.log(width) > math.log(MOST_CLASSIFIERS):  # width ** depth may have any length
        raise BadInput(
            f"a design of depth {depth} and width {width} has more than {MOST_CLASSIFIERS:,}"
            " classifiers. Choose a smaller one."
        )
    keep_settings(out / "study.json", asdict(settings))


def run_rollouts(
    settings: RolloutSettings,
    pool: ImagePool,
    out: Path,
    rollouts: int,
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Rollouts:
    """Runs rollouts 0, 1, …, or continues them, and returns them all.

    Rollouts of two designs with the same seed have the same base classifier and the same random
    numbers, so they can be compared in pairs.

    Args:
      settings: of the study.
      pool: its images.
      out: directory; made if missing.
      rollouts: their number; finished ones are read, also if there are more.
      executor: runs them; None: one after the other.
      progress: is shown how far they are.

    Raises:
      BadInput: the directory contains another study; or the base accuracy is not reached.
      RunLocked: another process works in the directory.
    """
    busy = "is working in this directory. Wait for it or stop it, or choose another --out."
    with lock_exclusively(out / "lock", busy):
        begin(settings, out)
        make = functools.partial(Context, phase="train", progress=progress, executor=executor)
        root = (f"seed {settings.seed}", "rollouts")
        # one file for each finished classifier: what a kill can lose is a single one
        base_ctx = make(path=(*root, "base"), workspace=EventWorkspace(out / "base", 0.0))
        (trial,) = base_ctx.map(_base_trial, [(pool, settings.base_accuracy)])
        base = Base(int(trial["epochs"]), float(trial["accuracy"]), np.asarray(trial["right"]))
        workspace = EventWorkspace(out / "rollouts", 0.0)
        ctx = make(path=root, workspace=workspace)
        kept = pool.take(np.flatnonzero(base.right))
        if len(kept) < BATCH:
            raise BadInput(
                f"the base classifier is right on {plural(len(kept), 'image')}, but a population"
                f" needs at least {BATCH}. Give more --images or a higher --base_accuracy, and"
                " choose a new --out."
            )
        while workspace.load_finished(rollouts):
            rollouts += 1
        trees = ctx.map(_Rollout(kept, base.epochs, settings.design), list(range(rollouts)))
        flops = [total(workspace.load_finished(number)[1]) for number in range(rollouts)]
    predicted = np.stack([_read_predicted(tree, kept.labels) for tree in trees])
    return Rollouts(settings, base, predicted, kept.labels, flops)
