"""Where the board of a session was copied from, and what was corrected there since.

A session rests on its own copy of the known models' values, so that nothing changes under it. What
`evaluate remove` and `amend` correct in the cache later is said beside its estimates, which stay as
they are.
"""

import os
from pathlib import Path

from nevis_stream.dynamic_evaluation.session_records import BOARD, SETTINGS
from nevis_stream.errors import BadInput, NevisStreamError
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.storage import write_file
from nevis_stream.storage.reading import read_json
from nevis_stream.storage.record import as_lines

SOURCE = "source.json"


def write_source(directory: Path, cache: EvaluationCache) -> None:
    """Writes from which cache the board of a session is copied."""
    path = os.path.abspath(cache.directory)
    write_file(directory / SOURCE, as_lines({"cache": path}).encode())


def later_corrections(directory: Path, board: EvaluationCache) -> list[str]:
    """Returns a line for each correction of the cache, since the session began, that changes the
    values of its known models.

    Args:
      directory: of the session.
      board: the copy of its board.
    """
    file = directory / SOURCE
    if not file.is_file():  # the board was a file or an array, or an earlier version began it
        return []
    try:
        path = Path(read_json(file)["cache"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{file}: damaged ({error}). Put a copy of the file back.") from None
    try:
        source = EvaluationCache(path)
        records = source.errata()
    except NevisStreamError:
        return [f"the board's cache, {path}, cannot be read: later corrections are not known"]
    known = {each.to_text() for each in board.errata()}
    models, samples = {*board.models()}, {*board.samples()}
    lines = []
    for record in records:
        if record.to_text() in known:
            continue
        touched = any(
            model in models and not samples.isdisjoint(cells)
            for model, cells in record.values.items()
        )
        removed = not record.values and all(
            names is None or not own.isdisjoint(names)
            for names, own in ((record.models, models), (record.samples, samples))
        )
        if touched or removed:
            lines.append(f"rests on values from before a correction: {record.line()}")
    return lines


def check_no_copy(cache: EvaluationCache) -> None:
    """Refuses to correct the copy of a session.

    Raises:
      BadInput: it is one.
    """
    session = cache.directory.absolute().parent
    if cache.directory.name == BOARD and (session / SETTINGS).is_file():
        raise BadInput(
            f"{cache.directory}: is the copy of a session, which stays as it is. Correct the cache"
            " that it was copied from; the session then says so."
        )
