"""The models, pool and surrogate that the flags of `start` and `simulate` name."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from absl.flags import FlagValues

from nevis_stream.active_testing.acquisition_functions import RULES
from nevis_stream.active_testing.labelling.pools import PoolImages, load_pool
from nevis_stream.active_testing.labelling.settings import SETTINGS, STUDY
from nevis_stream.active_testing.losses import LOSSES
from nevis_stream.active_testing.material import Material
from nevis_stream.active_testing.surrogates import SURROGATES
from nevis_stream.errors import BadInput, look_up
from nevis_stream.experiments.labelling.models import TestedModel, gather, tested_model
from nevis_stream.experiments.recorded import open_run
from nevis_stream.launch import entry
from nevis_stream.launch.evaluate_commands.caches import one_cache
from nevis_stream.launch.terminal import bar


@dataclass(frozen=True)
class Subject:
    """What is tested.

    Attributes:
      pool: the images.
      models: the tested models, at least one.
      material: what the surrogate can learn from; of the first model.
      surrogate: its name.
    """

    pool: PoolImages
    models: list[TestedModel]
    material: Material
    surrogate: str

    @property
    def predictions(self) -> np.ndarray:
        """float64[models, n, c]."""
        return np.stack([model.predictions for model in self.models])


_MADE_BY = {SETTINGS: "start", STUDY: "simulate"}


def check_flags(values: FlagValues, rules, mine: str) -> None:
    """Refuses what cannot be before anything is read, and says what may bias the estimates.

    Args:
      values: the flags.
      rules: names of the rules.
      mine: the file that says what --out contains, `SETTINGS` or `STUDY`.
    """
    out = Path(values.out)
    if out.is_file():
        raise BadInput(f"--out={out}: is a file; expected a directory.")
    for name, maker in _MADE_BY.items():
        if name != mine and (out / name).exists():
            raise BadInput(
                f"--out={out}: contains what {maker} made ({name}). Choose another directory."
            )
    look_up(LOSSES, "loss", values.loss)
    for rule in rules:
        look_up(RULES, "acquisition rule", rule)
    if values.surrogate is not None:
        look_up(SURROGATES, "surrogate", values.surrogate)
    if values.uniform == 0:
        print(
            "note: with --uniform=0 a sample with a score of 0 is never drawn, so estimates that"
            " are weighted by probabilities may be biased"
        )


def load_subject(values: FlagValues, models, surrogate: str | None, seed: int) -> Subject:
    """Returns what the flags name.

    Args:
      values: the flags.
      models: paths of the tested models.
      surrogate: its name; None chooses one.
      seed: of the features.
    """
    entry.use_compilation_cache()
    if not models:
        raise BadInput("--model is missing: a checkpoint (RUN/checkpoints/EVENT-TASK) or an .npz.")
    files = [os.path.realpath(model) for model in models]
    twice = [model for model, file in zip(models, files, strict=True) if files.count(file) > 1]
    if twice:
        raise BadInput(f"--model={twice[-1]}: given twice.")
    with bar("start", lines=True) as move:
        move("reading the pool", 0, None)
        pool = load_pool(values.pool)
        tested = []
        for number, path in enumerate(models):
            move(f"model {path} on {len(pool.ids):,} samples", number, len(models))
            tested.append(tested_model(path, pool, values.stream, values.trust))
        classes = {model.predictions.shape[1] for model in tested}
        if len(classes) > 1:
            raise BadInput(f"the models have {', '.join(map(str, sorted(classes)))} classes.")
        tested = [tested[0], *(in_order(tested[0].classes, model) for model in tested[1:])]
        if surrogate is None:
            surrogate = "heads" if tested[0].run is not None else "tested_model"
        runs = [open_run(Path(run), values.stream, values.trust) for run in values.run_dir]
        cache = None
        if values.cache is not None:
            first = tested[0].predictor
            cache = one_cache(Path(values.cache), first.task.dataset_id if first else "")
        move(f"what the surrogate {surrogate!r} needs", 0, None)
        kind = SURROGATES[surrogate]
        material = gather(tested[0], pool, kind.needs, runs, cache, seed)
    kind.check(surrogate, material)
    for remark in filter(None, (model.remark for model in tested)):
        print(f"note: {remark}")
    return Subject(pool, tested, material, surrogate)


def in_order(classes: Sequence[str], model: TestedModel) -> TestedModel:
    """Returns a model whose classes are in this order, if both have names.

    Raises:
      BadInput: the names are others.
    """
    if _numbered(classes) or _numbered(model.classes) or list(classes) == list(model.classes):
        return model
    order = _places(classes, model.classes, f"--model={model.name}: the model")
    return replace(model, predictions=model.predictions[:, order], classes=list(classes))


def pool_labels(subject: Subject) -> np.ndarray | None:
    """Returns int64[n], the pool's labels as classes of the model.

    Raises:
      BadInput: the pool's classes have other names than the model's.
    """
    pool, classes = subject.pool, subject.models[0].classes
    if pool.labels is None or _numbered(pool.classes) or _numbered(classes):
        return pool.labels
    return _places(pool.classes, classes, "the model")[pool.labels]


def _numbered(classes: Sequence[str]) -> bool:
    """Whether classes have no names, or their numbers as names."""
    return list(classes) == [str(number) for number in range(len(classes))]


def _places(names: Sequence[str], among: Sequence[str], owner: str) -> np.ndarray:
    """Returns int64[k]: the position of each name among others."""
    if missing := [name for name in names if name not in among]:
        raise BadInput(
            f"{owner} has no class {missing[0]!r}; its classes are {', '.join(among)}, and"
            f" {', '.join(names)} are expected. Give the same names to the same classes."
        )
    return np.array([list(among).index(name) for name in names])
