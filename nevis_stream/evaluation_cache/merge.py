"""Merges one `EvaluationCache` into another."""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import cells, entries, identity, integrity, packing, records
from nevis_stream.evaluation_cache.arguments import find_credentials, is_credential
from nevis_stream.evaluation_cache.cells import Snapshot
from nevis_stream.evaluation_cache.entries import CHECKPOINT
from nevis_stream.evaluation_cache.packing import (
    CONFIDENCE,
    CORRECT,
    FEATURES,
    OBSERVED,
    PREDICTED,
    PROBABILITIES,
    Shape,
    Tile,
)
from nevis_stream.progress import SILENT, Progress
from nevis_stream.storage.reading import locate, make_relative, resolve_path

_MOST_MODELS = 500  # that one transaction adds
_MOST_CELLS = 1 << 24  # that one transaction adds; each class of a probability counts as one


class MovedModel(NamedTuple):
    """A model of the source: its row in the source, and its name and provenance in the target."""

    row: int
    name: str
    provenance: dict[str, Any]


class MergeResult(NamedTuple):
    """What a merge did.

    Attributes:
      lines: for people: on models that are other rows in the target, and on facts of samples that
        could not be compared.
      names: by id of a model in the source, its id in the target.
    """

    lines: list[str]
    names: dict[str, str]


def merge(target, source, progress: Progress = SILENT) -> MergeResult:
    """Adds everything in `source` to `target`: the samples, then the models, each as a whole or not
    at all. Repeating it adds nothing; after a kill it adds what is missing.

    Args:
      target, source: two `EvaluationCache`.
      progress: is told the stages.

    Raises:
      BadInput: the caches are about different things, or contradict each other; the models before
        the contradiction have been added.
      DamagedCache: `verify` finds damage in `source`; nothing has been added.
    """
    ours, theirs = target.about, source.about
    for name in sorted(ours.keys() | theirs.keys()):
        own, other = (about.get(name, "not set") for about in (ours, theirs))
        if own != other:
            raise BadInput(
                f"{source.directory}: its {name} is {other}, that of {target.directory} is {own}:"
                " they cannot be merged."
            )
    if resolve_path(target.directory) == resolve_path(source.directory):
        raise BadInput(f"{source.directory}: a cache cannot be merged into itself.")
    integrity.refuse_damage(source)
    with source.index.reading() as db:
        names, models = entries.list_samples(db), entries.read_models(db)
        provenances, imports = entries.list_provenances(db), records.read_imports(db)
        source_errata = records.read_errata(db)
        predicted = entries.list_tiles(db, "state = ?", [PREDICTED])
        features = entries.list_tiles(db, "plane = ?", [FEATURES])
        origins = [entries.read_origin(db, tile.number) for tile in predicted]
        view = source.cells.view(entries.read_end(db))
        vectors = entries.list_tiles(db, "plane = ?", [PROBABILITIES])
        classes = max((tile.shape.classes for tile in vectors), default=1)
    found = [pair for facts in models.values() for pair in find_credentials(facts)]
    credentials = {text for name, text in found if is_credential(name)}
    imports = [each.redact(credentials) for each in imports]
    with target.index.writing() as db:
        ids = entries.find_names(db, names, provenances)
        missing = entries.compare_samples(db, ids, provenances)
        columns = entries.add_samples(db, ids, provenances)
        records.add_imports(db, imports)
        for tile in features:
            positions, values = tile.decode(view)
            cells.write_features(db, target.cells, columns[positions], values)
        rows, lines = identity.match_rows(list(models.items()), entries.read_models(db))
        target_names = {own: name for own, (name, _) in zip(models, rows, strict=True)}
        target_samples = dict(zip(names, ids, strict=True))
        renamed = [each.rename(target_names, target_samples) for each in source_errata]
        if added := cells.add_errata(db, target.cells, renamed):
            lines += [f"erratum of {each.line()}" for each in added]
    for _, facts in rows:
        if CHECKPOINT in facts:
            place = locate(facts[CHECKPOINT], source.directory)
            facts[CHECKPOINT] = make_relative(place, target.directory)
    moved_models = [MovedModel(number, *row) for number, row in enumerate(rows)]
    predictions: dict[int, list[tuple[Tile, dict[str, Any]]]] = defaultdict(list)
    for tile, made_by in zip(predicted, origins, strict=True):
        predictions[tile.shape.model].append((tile, made_by))

    def add(part: Sequence[MovedModel]) -> None:
        """Adds some models in one transaction."""
        planes = _read_planes(source, [each.row for each in part], len(names))
        with target.index.writing() as db:
            placed = {
                each.row: (each.name, entries.add_model(db, each.name, each.provenance))
                for each in part
            }
            cells.write(db, target.cells, OBSERVED, list(placed.values()), columns, planes)
            tiles = [prediction for each in part for prediction in predictions[each.row]]
            for made_by, group in itertools.groupby(tiles, lambda prediction: prediction[1]):
                moved = [
                    _move_tile(tile, view, columns, *placed[tile.shape.model]) for tile, _ in group
                ]
                cells.enter(db, target.cells, moved, made_by)

    source_names = list(models)
    for part in _split_into_transactions(moved_models, len(names), classes):
        for each in part:
            progress.stage(source_names[each.row], each.row, len(models))
        try:
            add(part)
        except BadInput:  # the models before the one that contradicts are added
            for each in part if len(part) > 1 else ():
                add([each])
            raise
    return MergeResult([*lines, *identity.count_missing(missing)], target_names)


def _split_into_transactions(
    models: Sequence[MovedModel], samples: int, classes: int
) -> Iterator[list[MovedModel]]:
    """Yields the models that one transaction adds, as many as possible since each commit waits for
    the disk; no name is twice in one.
    """
    most = max(1, min(_MOST_MODELS, _MOST_CELLS // max(1, samples * max(1, classes))))
    batch: dict[str, MovedModel] = {}
    for each in models:
        if len(batch) == most or each.name in batch:
            yield list(batch.values())
            batch = {}
        batch[each.name] = each
    if batch:
        yield list(batch.values())


def _read_planes(source, rows: Sequence[int], n: int) -> cells.Planes:
    """Returns the observed values of models, rows of the source, on the first n samples; other
    processes may have added samples since.
    """
    snapshot = Snapshot(source.index, source.cells, np.array(rows), np.arange(n))
    planes = {
        CORRECT: snapshot.read_values(OBSERVED),
        CONFIDENCE: snapshot.read_plane(CONFIDENCE, OBSERVED),
    }
    probabilities = snapshot.read_plane(PROBABILITIES, OBSERVED)
    return planes | {PROBABILITIES: probabilities} if probabilities.shape[2] else planes


def _move_tile(
    tile: Tile, view: np.ndarray, columns: np.ndarray, model: str, row: int
) -> tuple[str, Shape, bytes]:
    """Returns id, shape and bytes of a tile of predictions in the target, where its model has
    `row`, and the source's samples have `columns`, int64[n].
    """
    positions, values = tile.decode(view)
    order = np.argsort(columns[positions])
    target_columns = columns[positions][order]
    return model, *packing.encode(row, PREDICTED, tile.shape.plane, target_columns, values[order])
