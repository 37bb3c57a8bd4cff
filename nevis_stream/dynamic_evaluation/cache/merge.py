"""Merging one `EvaluationCache` into another."""

from collections.abc import Callable

import numpy as np

from nevis_stream.dynamic_evaluation.cache import entries, integrity, packing, writing
from nevis_stream.dynamic_evaluation.cache.packing import (
    CONFIDENCE,
    CORRECT,
    FEATURES,
    OBSERVED,
    PREDICTED,
    PROBABILITIES,
)
from nevis_stream.errors import BadInput


def merge(
    target, source, progress: Callable[[str, int, int], None] = lambda model, done, total: None
) -> None:
    """Adds all that `source` has to `target`: samples, then model by model, each all or nothing;
    again adds nothing.

    Args:
      target, source: two `EvaluationCache`.
      progress: called with each model's id, the number of models done and of all.

    Raises:
      BadInput: the caches are of different things, or contradict each other; what comes before that
        has been added.
      DamagedCache: `verify` finds damage in `source`; nothing has been added.
    """
    if target.about != source.about:
        raise BadInput(
            f"{source.directory} is about {source.about}, {target.directory} about {target.about}:"
            " they are not merged."
        )
    if target.directory.resolve() == source.directory.resolve():
        raise BadInput(f"{source.directory}: a cache is not merged into itself.")
    integrity.check(source)
    with source.index.reading() as db:
        names, batches, models = entries.samples(db), entries.batches(db), entries.models(db)
        predicted = entries.tiles(db, "state = ?", [PREDICTED])
        features = entries.tiles(db, "plane = ?", [FEATURES])
        makers = [entries.maker(db, tile.number) for tile in predicted]
        view = source.cells.view(entries.end(db))
    with target.index.writing() as db:
        columns = entries.add_samples(db, names, entries.of_each(batches))
        for tile in features:
            at, values = packing.decode(
                tile.shape, view[tile.offset : tile.offset + tile.shape.length]
            )
            writing.write_features(db, target.cells, columns[at], values)
    for number, (model, provenance) in enumerate(models.items()):
        progress(model, number, len(models))
        planes = _planes(source, number, model, len(names))
        with target.index.writing() as db:
            row = entries.add_model(db, model, provenance)
            writing.write(db, target.cells, OBSERVED, [(model, row)], columns, planes)
            for tile, made_by in zip(predicted, makers, strict=True):
                if tile.shape.model == number:
                    at, values = packing.decode(
                        tile.shape, view[tile.offset : tile.offset + tile.shape.length]
                    )
                    order = np.argsort(columns[at])
                    copy = packing.encode(
                        row, PREDICTED, tile.shape.plane, columns[at][order], values[order]
                    )
                    writing.enter(db, target.cells, [(model, *copy)], made_by)


def _planes(source, row: int, model: str, n: int) -> writing.Planes:
    """Returns what was observed of one model on the first n samples, [1, n]; others may have added
    more.
    """
    which, samples = np.array([row]), np.arange(n)
    planes = {CORRECT: source.matrix(which, samples), CONFIDENCE: source.confidence(which, samples)}
    probabilities = source.probabilities(model, samples)
    return planes | {PROBABILITIES: probabilities[None]} if probabilities.shape[1] else planes
