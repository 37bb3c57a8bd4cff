"""Files of outcomes go into an evaluation cache, and a cache into a file."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from nevis_stream.dynamic_evaluation.cache import EvaluationCache, integrity, records, writing
from nevis_stream.dynamic_evaluation.cache.files import THRESHOLD, Outcomes, read_outcomes
from nevis_stream.dynamic_evaluation.cache.packing import CONFIDENCE, CORRECT, OBSERVED, PREDICTED
from nevis_stream.dynamic_evaluation.matrix import UNKNOWN
from nevis_stream.storage import write_file


def import_file(
    cache: EvaluationCache | Path,
    path: str | Path,
    threshold: float = THRESHOLD,
    told: Callable[[str], None] = lambda stage: None,
) -> Outcomes:
    """Adds a file's outcomes to a cache, all or nothing; arguments, returns and raises as
    `read_outcomes`; `told` of stages.

    The models' provenance gains the file's name, and the threshold where values are real. A cache
    that is given by its directory is made where there is none and the file can be read.
    """
    told("read")
    found, path = read_outcomes(path, threshold), Path(path)
    told(f"write {len(found.models)} models × {len(found.samples):,} samples")
    cache = EvaluationCache(cache, create=True) if isinstance(cache, Path) else cache
    planes = writing.checked(
        found.models, found.samples, {CORRECT: found.correct, CONFIDENCE: found.confidence}
    )
    # of None: no plane
    guessed = writing.checked(found.models, found.samples, {CORRECT: found.predicted})
    origin = {"file": path.name} | ({} if found.confidence is None else {"threshold": threshold})
    of_models = found.model_provenance or [{}] * len(found.models)
    with cache.index.writing() as db:
        columns = _columns(db, found)
        told = zip(found.models, of_models, strict=True)
        rows = [(model, records.add_model(db, model, origin | of)) for model, of in told]
        writing.write(db, cache.cells, OBSERVED, rows, columns, planes)
        if guessed:
            writing.write(db, cache.cells, PREDICTED, rows, columns, guessed, origin)
    return found


def _columns(db, found: Outcomes) -> np.ndarray:
    """Samples of the same provenance that stand together are added together."""
    of = found.sample_provenance or [{}] * len(found.samples)
    cuts = [0, *(k for k in range(1, len(of)) if of[k] != of[k - 1]), len(of)]
    parts = zip(cuts, cuts[1:], strict=False)
    new = [
        records.add_samples(db, found.samples[low:high], of[low])
        for low, high in parts
        if low < high
    ]
    return np.concatenate([np.zeros(0, np.int64), *new])


def export_npz(cache: EvaluationCache, path: str | Path) -> None:
    """Writes all of a cache but its class probabilities as one npz file, which `import_file` reads
    again.

    Raises:
      DamagedCache: `verify` finds damage; no file is written.
    """
    integrity.check(cache)
    models, samples = cache.models(), cache.samples()
    arrays = {
        "correct": cache.matrix(),
        "models": np.array(list(models), str),
        "samples": np.array(samples, str),
    }
    arrays["model_provenance"] = np.array([json.dumps(of) for of in models.values()], str)
    told = [
        json.dumps(of)
        for columns, of in cache.sample_provenance()
        for _ in range(columns.stop - columns.start)
    ]
    arrays["sample_provenance"] = np.array(told, str)
    confidence, states = cache.confidence(), cache.states()
    if not np.isnan(confidence).all():
        arrays["confidence"] = confidence
    if (states == 2).any():
        arrays["predicted"] = np.where(states == 2, cache.matrix(predicted=True), UNKNOWN).astype(
            np.uint8
        )
    with io.BytesIO() as buffer:
        np.savez_compressed(buffer, **arrays)
        write_file(Path(path), buffer.getvalue())
