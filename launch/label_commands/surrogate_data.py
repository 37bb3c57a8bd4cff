"""The models, pool and surrogate that the flags of `start` and `simulate` name."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from absl.flags import FlagValues

from nevis_stream.active_testing.acquisition_functions import RULES
from nevis_stream.active_testing.labelling.files import STUDY
from nevis_stream.active_testing.labelling.pools import PoolImages, load_pool
from nevis_stream.active_testing.pool import LOSSES
from nevis_stream.active_testing.surrogate import SurrogateData
from nevis_stream.active_testing.surrogates import SURROGATES
from nevis_stream.configs.recorded import open_run
from nevis_stream.configs.tested_models import TestedModel, gather, load_tested_model
from nevis_stream.errors import BadInput, look_up
from nevis_stream.evaluation_cache.facts import make_natural_sort_key
from nevis_stream.launch import entry
from nevis_stream.launch.evaluate_commands.flags import open_one_cache
from nevis_stream.queries.session_log import SETTINGS
from nevis_stream.terminal import TerminalProgress

_SHOWN = 10  # names of classes in a note


@dataclass(frozen=True)
class Subject:
    """What is tested.

    Attributes:
      pool: the images.
      models: the tested models, at least one.
      data: what the surrogate can learn from; of the first model.
      surrogate: its name.
    """

    pool: PoolImages
    models: list[TestedModel]
    data: SurrogateData
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


def load_subject(
    values: FlagValues, models, surrogate: str | None, seed: int, classes: Sequence[str] = ()
) -> Subject:
    """Returns what the flags name.

    Args:
      values: the flags.
      models: paths of the tested models.
      surrogate: its name; None chooses one.
      seed: of the features.
      classes: names of a session's classes, in order; without them the first model's.
    """
    entry.use_compilation_cache()
    if not models:
        raise BadInput("--model is missing: a checkpoint (RUN/checkpoints/EVENT-TASK) or an .npz.")
    files = [os.path.realpath(model) for model in models]
    twice = [model for model, file in zip(models, files, strict=True) if files.count(file) > 1]
    if twice:
        raise BadInput(f"--model={twice[-1]}: given twice.")
    with TerminalProgress("start", lines=True) as progress:
        progress.stage("reading the pool")
        pool = load_pool(values.pool)
        tested = []
        for number, path in enumerate(models):
            progress.stage(f"model {path} on {len(pool.ids):,} samples", number, len(models))
            tested.append(load_tested_model(path, pool, values.stream, values.trust))
        counts = sorted({model.predictions.shape[1] for model in tested})
        if len(counts) > 1:
            raise BadInput(f"the models have {', '.join(map(str, counts))} classes.")
        if classes and counts != [len(classes)]:
            raise BadInput(f"the models have {counts[0]} classes; the session has {len(classes)}.")
        order = classes or tested[0].classes
        tested = [reorder_classes(order, model) for model in tested]
        if surrogate is None:
            surrogate = "heads" if tested[0].run is not None else "tested_model"
        runs = [open_run(Path(run), values.stream, values.trust) for run in values.run_dir]
        cache = None
        if values.cache is not None:
            first = tested[0].predictor
            cache = open_one_cache(Path(values.cache), first.task.dataset_id if first else "")
        progress.stage(f"what the surrogate {surrogate!r} needs")
        kind = SURROGATES[surrogate]
        data = gather(tested[0], pool, kind.needs, runs, cache, seed)
    kind.check(surrogate, data)
    for remark in filter(None, (model.remark for model in tested)):
        print(f"note: {remark}")
    return Subject(pool, tested, data, surrogate)


def reorder_classes(classes: Sequence[str], model: TestedModel) -> TestedModel:
    """Returns a model whose classes are in this order.

    Classes without names have their numbers as names. Where one has numbers and the other names,
    the order is taken as it is, with a remark.

    Raises:
      BadInput: the names are others.
    """
    count = model.predictions.shape[1]
    wanted, names = classes or _numbers(count), model.classes or _numbers(count)
    if list(wanted) == list(names):
        return model
    if set(wanted) != set(names) and _numbers(count) in (list(wanted), list(names)):
        remark = f"{model.name} has no names of classes: {_order(wanted)}"
        return replace(model, remark="; ".join(filter(None, (model.remark, remark))))
    order = _places(wanted, names, f"--model={model.name}: the model")
    return replace(model, predictions=model.predictions[:, order], classes=list(wanted))


def pool_labels(subject: Subject) -> np.ndarray | None:
    """Returns int64[n], the pool's labels as classes of the model.

    Raises:
      BadInput: the pool's classes have other names than the model's, or two orders.
    """
    pool, classes = subject.pool, subject.models[0].classes
    if pool.labels is None or not pool.classes:
        return pool.labels
    numbered = list(classes) == _numbers(len(classes))
    if numbered and not set(pool.classes) <= set(classes):
        check_order(pool.classes, "in its file")
        return pool.labels
    return _places(pool.classes, classes, "the model")[pool.labels]


def check_order(classes: Sequence[str], where: str) -> None:
    """Says in which order a model without names of classes has those of the pool.

    Args:
      classes: those of the pool, sorted.
      where: the names may be given, for the message.

    Raises:
      BadInput: by their numbers they have another order.
    """
    for here, there in zip(classes, sorted(classes, key=make_natural_sort_key), strict=True):
        if here != there:
            raise BadInput(
                f"the model has no names of classes, and those of the pool have two orders:"
                f" {here!r} or {there!r} may come first. Name the model's classes {where}."
            )
    print(f"note: the model has no names of classes: {_order(classes)}")


def _order(classes: Sequence[str]) -> str:
    few = ", ".join(classes[:_SHOWN]) + ", …" * (len(classes) > _SHOWN)
    return f"they are taken in the order {few}"


def _numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def _places(names: Sequence[str], among: Sequence[str], owner: str) -> np.ndarray:
    """Returns int64[k]: the position of each name among others."""
    if missing := [name for name in names if name not in among]:
        raise BadInput(
            f"{owner} has no class {missing[0]!r}; its classes are {', '.join(among)}, and"
            f" {', '.join(names)} are expected. Give the same names to the same classes."
        )
    return np.array([list(among).index(name) for name in names])
