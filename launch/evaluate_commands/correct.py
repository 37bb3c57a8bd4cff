"""`launch.evaluate remove` and `amend`: cells that were wrong."""

from collections.abc import Collection, Sequence
from pathlib import Path

from absl.flags import FlagValues

from nevis_stream.errors import BadInput, plural
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.additions import digest_errata, read_additions
from nevis_stream.evaluation_cache.exchange import read_for_cache
from nevis_stream.evaluation_cache.values import join_words
from nevis_stream.launch.evaluate_commands.flags import get_reading_choices, open_one_cache
from nevis_stream.queries.samples import is_observed


def remove(_: Sequence[str], values: FlagValues) -> None:
    """Removes the cells of --models on --samples from the cache --cache."""
    cache = open_one_cache(Path(values.cache), to_change=True)
    models = _names(values.models, cache.models())
    samples = _names(values.samples, cache.samples())
    before = _observed(cache)
    record = cache.remove(models, samples, _reason(values))
    print(f"{cache.directory}: {record.line()}")
    print(f"{cache.directory}: {plural(before - _observed(cache), 'observed cell')} removed")
    if samples is not None and models is None:
        print(
            "a removed sample stays a column without values; `export` leaves it out, and its file"
            " can be imported into a new cache"
        )
    _say_what_rested_on_it(cache)


def amend(words: Sequence[str], values: FlagValues) -> None:
    """Gives cells of the cache --cache the values of a file."""
    cache, path = open_one_cache(Path(values.cache), to_change=True), Path(words[0])
    table = read_for_cache(cache, path, **get_reading_choices(values))
    for kind, names, known in (
        ("model", table.models, {*cache.models()}),
        ("sample", table.samples, {*cache.samples()}),
    ):
        if new := [name for name in names if name not in known]:
            raise BadInput(f"{path}: {kind} {new[0]!r} is not in {cache.directory}; `import` adds.")
    cells = {
        model: {table.samples[k]: float(row[k]) for k in is_observed(row).nonzero()[0].tolist()}
        for model, row in zip(table.models, table.values, strict=True)
    }
    record = cache.amend(cells, _reason(values))
    print(f"{cache.directory}: {record.line()}")
    _say_what_rested_on_it(cache)


def _reason(values: FlagValues) -> str:
    if not values.reason.strip():
        raise BadInput("--reason: say why, for those who meet the change.")
    return values.reason.strip()


def _names(words: Sequence[str], known: Collection[str]) -> list[str] | None:
    """Returns names, which may contain commas; None if none were given."""
    return join_words(words, known) if words else None


def _observed(cache: EvaluationCache) -> int:
    return int(cache.row_sums()[1].sum())


def _say_what_rested_on_it(cache: EvaluationCache) -> None:
    state = digest_errata(cache.directory)
    old = [each.name for each in read_additions(cache.directory) if each.errata != state]
    if old:
        print(
            f"{plural(len(old), 'estimate')} of additions rest on values from before, and are"
            f" marked: {', '.join(dict.fromkeys(old))}. Fits are made anew when they are needed."
        )
    print(
        "sessions that were started from this cache rest on their own copy of it, as it was; their"
        " `status` and `report` say so"
    )
