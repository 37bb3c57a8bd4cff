"""What identifies a column of a cache, and the one comparison of what is there with what is added.

A column is one sample: its data set, content (a hash), metric with its filter, direction and range.
Two values may stand in one column only if these agree. A fact that one side does not state matches
any.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput, plural
from nevis_stream.evaluation_cache import facts
from nevis_stream.evaluation_cache.facts import DIRECTION, HASH, METRIC

Provenance = Mapping[str, Any]
# what a column gains from a later import if it was not stated before
GAINED = (METRIC, DIRECTION)
# in a model's provenance: by data set, facts such as number of shots, template and generation
# arguments
TASKS = "tasks"


def describe(provenance: Provenance) -> dict[str, str]:
    """Returns what a sample's provenance states of its identity, as people read it."""
    texts = {
        "data set": facts.dataset(provenance),
        "metric": str(provenance.get(METRIC) or ""),
        "direction": facts.direction(provenance),
        "content": str(provenance.get(HASH) or ""),
        "range": facts.range_text(provenance),
    }
    return {name: text for name, text in texts.items() if text}


def compare(
    ids: Sequence[str],
    columns: np.ndarray,
    stored: Sequence[tuple[slice, Provenance]],
    hashes: Mapping[int, str],
    provenances: Sequence[Provenance | None],
    place: Callable[[str], str] = lambda sample: "",
) -> Counter[str]:
    """Compares k samples with the columns of a cache into which their values would go.

    Args:
      ids: of the samples.
      columns: int64[k], −1 for a new sample.
      stored: the cache's batches: columns, and their provenance without hashes.
      hashes: by column, of the contents that the cache has.
      provenances: of the k samples; None states nothing.
      place: returns the place of a sample in its file, for messages, for example ", line 3".

    Returns:
      By fact, the number of samples of which only one side states it.

    Raises:
      BadInput: a fact differs; the message names the sample, its place and both values.
    """
    missing: Counter[str] = Counter()
    known = np.flatnonzero(np.asarray(columns) >= 0)
    firsts = np.array([batch.start for batch, _ in stored], np.int64)
    batches = np.searchsorted(firsts, columns[known], side="right") - 1
    verdicts: dict[tuple[int, int], tuple[str, list[str]]] = {}  # of each pair that was compared
    for k, batch in zip(known.tolist(), batches.tolist(), strict=True):
        provenance = provenances[k]
        if provenance is None:
            continue
        pair = batch, id(provenance)
        if pair not in verdicts:
            verdicts[pair] = _verdict(stored[batch][1], provenance)
        differs, lacking = verdicts[pair]
        there, here = hashes.get(int(columns[k]), ""), str(provenance.get(HASH) or "")
        if there and here and there != here:
            differs = f"content {there} in this cache, not {here}: it is another question"
        if differs:
            raise BadInput(_message(ids[k], place(ids[k]), differs))
        missing.update(lacking)
        missing["content"] += bool(there) != bool(here)
    return +missing


def _verdict(stored: Provenance, new: Provenance) -> tuple[str, list[str]]:
    """Returns how two samples differ, "" if they do not, and the facts that one of them lacks."""
    old, given = ({**describe(each), "content": ""} for each in (stored, new))
    for name in given:
        if name in old and old[name] != given[name]:
            return f"{name} {old[name]} in this cache, not {given[name]}", []
    return "", [name for name in ("metric", "direction") if (name in old) != (name in given)]


def _message(sample: str, place: str, differs: str) -> str:
    advice = (
        "Values of both kinds cannot stand in one column: state what the file has (columns"
        " `metric`, `higher_is_better`, `low` and `high`, or --metrics, --lower_is_better,"
        " --range), or import it into another cache."
    )
    return f"sample {sample!r}{place} has the {differs}. {advice}"


def missing_line(missing: Mapping[str, int]) -> list[str]:
    """Returns a line that counts the facts which only the cache or only the file states."""
    if not missing:
        return []
    counts = ", ".join(
        f"the {name} of {plural(count, 'sample')}" for name, count in sorted(missing.items())
    )
    return [f"stated only by the cache or only here, so not compared: {counts}"]


def gained_facts(stored: Provenance, new: Provenance) -> dict[str, Any]:
    """Returns the facts that a stored sample gains: one that had outcomes has scores once a value
    between 0 and 1 comes (partial credit, F1), and then `low` and `high`.
    """
    names = (*GAINED, *facts.RANGE)
    return {name: new[name] for name in names if name in new and name not in stored}


def names_in_cache(
    ids: Sequence[str], provenances: Sequence[Provenance], in_cache: Mapping[str, str]
) -> list[str]:
    """Returns the ids under which a cache has samples, which must not depend on how many metrics a
    file has: the F1 of `squad/1` may be `squad/1#F1` in one of them, and `squad/1` in the other.

    Args:
      ids, provenances: of k samples.
      in_cache: the metric by id of the cache's samples; "" if it is not stated.
    """
    names = []
    for sample, provenance in zip(ids, provenances, strict=True):
        metric = str(provenance.get(METRIC) or "")
        ending = f"#{metric}"
        if metric and sample not in in_cache:
            base = sample.removesuffix(ending)
            if base != sample and in_cache.get(base) == metric:
                sample = base
            elif base == sample and in_cache.get(sample + ending) == metric:
                sample += ending
        names.append(sample)
    return names


def merged_tasks(model: str, old: Provenance, new: Provenance) -> dict[str, dict[str, Any]]:
    """Returns what two provenances of a model state of it by data set.

    Raises:
      BadInput: they differ; the message names the data set, the fact and both values.
    """
    merged = {name: dict(task) for name, task in old.get(TASKS, {}).items()}
    for name, task in new.get(TASKS, {}).items():
        there = merged.setdefault(name, {})
        for fact, value in task.items():
            if there.setdefault(fact, value) != value:
                raise BadInput(
                    f"model {model!r} on {name}: has {fact} = {there[fact]!r} in this cache, not"
                    f" {value!r}. Such values are another model's: give it another id, for example"
                    f" '{model} [{fact}={value}]'."
                )
    return merged
