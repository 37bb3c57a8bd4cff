"""Merges one `EvaluationCache` into another."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import (
    entries,
    identity,
    integrity,
    packing,
    texts,
    variants,
    writing,
)
from nevis_stream.evaluation_cache.packing import (
    CONFIDENCE,
    CORRECT,
    FEATURES,
    OBSERVED,
    PREDICTED,
    PROBABILITIES,
)


class Merged(NamedTuple):
    """What a merge did.

    Attributes:
      lines: for people: on models that are other rows in the target, and on facts of samples that
        could not be compared.
      names: by id of a model in the source, its id in the target.
    """

    lines: list[str]
    names: dict[str, str]


def merge(
    target, source, progress: Callable[[str, int, int], None] = lambda model, done, total: None
) -> Merged:
    """Adds everything in `source` to `target`: the samples, then model by model, each as a whole or
    not at all. Repeating it adds nothing.

    Args:
      target, source: two `EvaluationCache`.
      progress: called with each model's id, the number of models done and of all.

    Raises:
      BadInput: the caches are about different things, or contradict each other; the models before
        the contradiction have been added.
      DamagedCache: `verify` finds damage in `source`; nothing has been added.
    """
    if target.about != source.about:
        raise BadInput(
            f"{source.directory} is about {source.about}, {target.directory} about {target.about}:"
            " they cannot be merged."
        )
    if target.directory.resolve() == source.directory.resolve():
        raise BadInput(f"{source.directory}: a cache cannot be merged into itself.")
    integrity.check(source)
    with source.index.reading() as db:
        names, models = entries.samples(db), entries.models(db)
        provenances, imports = entries.full_provenances(db), texts.imports(db)
        predicted = entries.tiles(db, "state = ?", [PREDICTED])
        features = entries.tiles(db, "plane = ?", [FEATURES])
        makers = [entries.maker(db, tile.number) for tile in predicted]
        view = source.cells.view(entries.end(db))
    with target.index.writing() as db:
        ids = entries.names_in_cache(db, names, provenances)
        missing = entries.compare(db, ids, provenances)
        columns = entries.add_samples(db, ids, provenances)
        texts.add_imports(db, imports)
        for tile in features:
            positions, values = tile.decode(view)
            writing.write_features(db, target.cells, columns[positions], values)
        rows, lines = variants.in_cache(list(models.items()), entries.models(db))
    for number, ((own, _), (model, provenance)) in enumerate(
        zip(models.items(), rows, strict=True)
    ):
        progress(own, number, len(models))
        planes = _planes(source, number, own, len(names))
        with target.index.writing() as db:
            row = entries.add_model(db, model, provenance)
            writing.write(db, target.cells, OBSERVED, [(model, row)], columns, planes)
            for tile, made_by in zip(predicted, makers, strict=True):
                if tile.shape.model == number:
                    positions, values = tile.decode(view)
                    order = np.argsort(columns[positions])
                    columns_in_order = columns[positions][order]
                    copy = packing.encode(
                        row, PREDICTED, tile.shape.plane, columns_in_order, values[order]
                    )
                    writing.enter(db, target.cells, [(model, *copy)], made_by)
    names_there = {own: name for own, (name, _) in zip(models, rows, strict=True)}
    return Merged([*lines, *identity.missing_line(missing)], names_there)


def _planes(source, row: int, model: str, n: int) -> writing.Planes:
    """Returns the observed values of one model on the first n samples, [1, n]; other processes may
    have added samples since.
    """
    rows, samples = np.array([row]), np.arange(n)
    planes = {CORRECT: source.matrix(rows, samples), CONFIDENCE: source.confidence(rows, samples)}
    probabilities = source.probabilities(model, samples)
    return planes | {PROBABILITIES: probabilities[None]} if probabilities.shape[1] else planes
