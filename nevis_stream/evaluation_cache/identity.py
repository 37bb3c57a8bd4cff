"""What identifies a column and a row of a cache, and where values that are added belong.

A column is one sample: its data set, content (a hash), metric with its filter, direction and range.
Two values may stand in one column only if these agree. A fact that one side does not state matches
any.

A row is a model with its revision, adapter and reasoning effort, as evaluated with one number of
shots, prompt template and set of generation arguments on each task. The name of a row is that of
the model, followed by what distinguishes it from other rows of that model where there are any:
`M [revision=step1000]`, `M [num_fewshot=0]`. Rows that come in together all carry the difference; a
name that is in a cache stays, and the newcomer carries it.

What is known of a row stands in its provenance: `model`, the name without the difference;
`variant`, the difference; `identity`, facts of the model; and `tasks`, the settings by task. What
is not known there matches anything.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput, plural
from nevis_stream.evaluation_cache.facts import (
    DIRECTION,
    HASH,
    METRIC,
    RANGE,
    describe_direction,
    format_range,
    get_dataset,
)

Provenance = Mapping[str, Any]
# what a column gains from a later import if it was not stated before
GAINED = (METRIC, DIRECTION)
# in a model's provenance: by data set, facts such as number of shots, template and generation
# arguments
TASKS = "tasks"


def describe(provenance: Provenance) -> dict[str, str]:
    """Returns what a sample's provenance states of its identity, as people read it."""
    texts = {
        "data set": get_dataset(provenance),
        "metric": str(provenance.get(METRIC) or ""),
        "direction": describe_direction(provenance),
        "content": str(provenance.get(HASH) or ""),
        "range": format_range(provenance),
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


def count_missing(missing: Mapping[str, int]) -> list[str]:
    """Returns a line that counts the facts which only the cache or only the file states."""
    if not missing:
        return []
    counts = ", ".join(
        f"the {name} of {plural(count, 'sample')}" for name, count in sorted(missing.items())
    )
    return [f"stated only by the cache or only here, so not compared: {counts}"]


def find_gained_facts(stored: Provenance, new: Provenance) -> dict[str, Any]:
    """Returns the facts that a stored sample gains: one that had outcomes has scores once a value
    between 0 and 1 comes (partial credit, F1), and then `low` and `high`.
    """
    names = (*GAINED, *RANGE)
    return {name: new[name] for name in names if name in new and name not in stored}


def match_names(
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


def merge_tasks(model: str, old: Provenance, new: Provenance) -> dict[str, dict[str, Any]]:
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


MODEL, VARIANT, IDENTITY = "model", "variant", "identity"
Facts = Mapping[str, str]
# facts that every log with settings should have; without one it is unknown, not a default
_NEVER_DEFAULT = ("num_fewshot", "prompt", "solver", "version")
# named in this order, then by the alphabet
_FIRST = ("revision", "peft", "adapter", "reasoning_effort", "num_fewshot", "temperature")
_DEFAULTS = {"revision": "main"}
_MOST_NAMED = 3


def find_differences(first: Facts | None, second: Facts | None) -> list[str]:
    """Returns the names of facts that differ, the most telling ones first."""
    if first is None or second is None:
        return []
    names = [
        name
        for name in {*first, *second}
        if first.get(name) != second.get(name)
        and not (name in _NEVER_DEFAULT and (name not in first or name not in second))
    ]
    return sorted(names, key=_place)


def name_row(model: str, variant: Facts) -> str:
    """Returns the name of a row: "M", or "M [num_fewshot=0]"."""
    listed = [f"{key}={variant[key]}" for key in sorted(variant, key=_place)]
    return f"{model} [{', '.join(listed)}]" if listed else model


def describe_row(
    model: str,
    variant: Facts,
    identity: Facts | None,
    settings: Mapping[str, Facts | None],
) -> dict[str, Any]:
    """Returns what a row's provenance says of its model and of its settings by task."""
    known = {task: dict(each) for task, each in settings.items() if each is not None}
    return (
        {MODEL: model}
        | ({VARIANT: dict(variant)} if variant else {})
        | ({} if identity is None else {IDENTITY: dict(identity)})
        | ({TASKS: known} if known else {})
    )


def distinguish(all_facts: Iterable[Facts | None]) -> list[dict[str, str]]:
    """Returns for each of several facts the few that distinguish it from the others that differ;
    empty for unknown ones, and for all if none differ.
    """
    all_facts = list(all_facts)
    names: list[str] = []
    for i, first in enumerate(all_facts):
        for second in all_facts[:i]:
            if (differing := find_differences(first, second)) and not set(differing) & set(names):
                names.append(differing[0])
    names.sort(key=_place)
    return [
        {} if each is None else {key: show_fact(each, key) for key in names} for each in all_facts
    ]


def show_fact(facts: Facts, name: str) -> str:
    """Returns the value of a fact; "none" if it has its default, "unknown" if it is unknown."""
    return facts.get(name, "unknown" if name in _NEVER_DEFAULT else _DEFAULTS.get(name, "none"))


def name_variants(
    logs: Sequence[tuple[str, Facts | None, str, Facts | None]],
) -> list[dict[str, str]]:
    """Returns the difference in the name of the row of each log.

    Args:
      logs: model, identity, task and settings of each.
    """
    variants: list[dict[str, str]] = [{} for _ in logs]
    for places in _groups(logs, lambda log: log[0]):
        known = {_key(logs[i][1]): logs[i][1] for i in places if logs[i][1] is not None}
        keys = sorted(known)
        labels = dict(zip(keys, distinguish(known[key] for key in keys), strict=True))
        only = next(iter(labels.values())) if len(labels) == 1 else {}
        for i in places:
            variants[i] |= labels.get(_key(logs[i][1]), only)
    for row in _groups(
        list(zip(logs, variants, strict=True)), lambda each: (each[0][0], _key(each[1]))
    ):
        _by_settings(logs, row, variants)
    return variants


def _by_settings(logs, row: Sequence[int], variants: list[dict[str, str]]) -> None:
    """Adds the differences in settings among the logs of one model to their variants."""
    labels: list[dict[str, str]] = []
    others: list[int] = []
    for places in _groups([logs[i] for i in row], lambda log: log[2]):
        places = [row[place] for place in places]
        keys = sorted({_key(logs[i][3]) for i in places if logs[i][3] is not None})
        found = dict(zip(keys, distinguish(map(dict, keys)), strict=True))
        if not any(found.values()):
            others += places
        for i in places if any(found.values()) else ():
            variants[i] = variants[i] | (label := found.get(_key(logs[i][3]), {}))
            if label and label not in labels:
                labels.append(label)
    # a log of a task without variants belongs to the only one whose settings it has
    for i in others:
        settings = logs[i][3]
        fitting = [] if settings is None else [each for each in labels if _has(settings, each)]
        if len(fitting) == 1:
            variants[i] = variants[i] | fitting[0]


def _has(facts: Facts, label: Facts) -> bool:
    return all(show_fact(facts, key) == text for key, text in label.items())


def match_rows(
    rows: Sequence[tuple[str, Mapping[str, Any]]], stored: Mapping[str, Mapping[str, Any]]
) -> tuple[list[tuple[str, dict[str, Any]]], list[str]]:
    """Returns the name and provenance in a cache of each of several rows, and lines for people.

    Args:
      rows: name and provenance of each. A row without facts keeps its name.
      stored: provenance of the cache's models.
    """
    known = dict(stored)
    by_model: dict[str, list[str]] = {}  # by the text of any JSON value
    for key, each in stored.items():
        by_model.setdefault(repr(each.get(MODEL, key)), []).append(key)
    named: list[tuple[str, dict[str, Any]]] = []
    lines: list[str] = []
    for row, facts in rows:
        facts, model = dict(facts), facts.get(MODEL)
        if model is None or row in known and known[row] == facts:
            named.append((row, facts))
            continue
        relatives = by_model.get(repr(model), [])
        fitting = [key for key in relatives if _fits(facts, stored[key], key == row)]
        if fitting:
            chosen = max(fitting, key=lambda key: (_shared(facts, stored[key]), key == row))
            facts.pop(VARIANT, None)
            if variant := stored[chosen].get(VARIANT):
                facts[VARIANT] = variant
        else:
            against = [key for key in relatives if _conflicts(facts, stored[key])]
            variant = dict(facts.get(VARIANT, {}))
            for key in against:
                texts, differing = _conflicts(facts, stored[key])[0]
                if name_row(model, variant) == key or not set(variant) & set(differing):
                    variant[differing[0]] = show_fact(texts, differing[0])
            if variant:
                facts[VARIANT] = variant
            chosen = name_row(model, variant)
            if against:
                differing = _conflicts(facts, stored[against[0]])[0][1]
                lines.append(
                    f"{chosen}: differs from {against[0]} in this cache ({', '.join(differing)}),"
                    " so it is another row"
                )
        named.append((chosen, facts))
        known[chosen] = facts
    return named, lines


def _fits(facts: Mapping[str, Any], stored: Mapping[str, Any], is_same_name: bool) -> bool:
    """Whether a row belongs to a row of a cache: nothing contradicts it, and it has the difference
    that either carries.
    """
    if _conflicts(facts, stored):
        return False
    labels = (facts.get(VARIANT, {}), stored.get(VARIANT, {}))
    return (
        is_same_name
        or labels[0] == labels[1]
        or _shared(facts, stored) > 0
        or all(_carries(each, label) for each, label in zip((stored, facts), labels, strict=True))
    )


def _carries(facts: Mapping[str, Any], label: Facts) -> bool:
    identity = facts.get(IDENTITY) or {}
    settings = list(facts.get(TASKS, {}).values())
    return all(
        show_fact(identity, key) == text
        or (settings != [] and all(show_fact(each, key) == text for each in settings))
        for key, text in label.items()
    )


def _conflicts(
    facts: Mapping[str, Any], stored: Mapping[str, Any]
) -> list[tuple[Facts, list[str]]]:
    """Returns facts of a row that differ from those of another row of the model: the facts, and the
    names of those that differ.
    """
    pairs = [(facts.get(IDENTITY), stored.get(IDENTITY))]
    theirs = stored.get(TASKS, {})
    pairs += [(each, theirs.get(task)) for task, each in facts.get(TASKS, {}).items()]
    return [
        (first, differing)
        for first, second in pairs
        if first is not None and (differing := find_differences(first, second))
    ]


def _shared(facts: Mapping[str, Any], stored: Mapping[str, Any]) -> int:
    """Returns the number of tasks that both rows have."""
    return len(facts.get(TASKS, {}).keys() & stored.get(TASKS, {}).keys())


def compare_settings(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Returns a line for people if different models were evaluated in different ways on a task."""
    by_fact: dict[tuple[str, str], dict[str, list[str]]] = {}
    tasks: dict[str, list[tuple[str, Facts]]] = {}
    for row, facts in rows:
        for task, settings in facts.get(TASKS, {}).items():
            tasks.setdefault(task, []).append((row, settings))
    models = {row: facts.get(MODEL, row) for row, facts in rows}
    for task, each in tasks.items():
        names = {key for _, settings in each for key in settings}
        for key in names:
            values: dict[str, list[str]] = {}
            for row, settings in each:
                if key in settings or key not in _NEVER_DEFAULT:
                    values.setdefault(show_fact(settings, key), []).append(row)
            if (
                len(values) > 1
                and len({models[row] for all_of in values.values() for row in all_of}) > 1
            ):
                by_fact[task, key] = values
    if not by_fact:
        return []
    texts = []
    for task, key in sorted(by_fact, key=lambda each: (_place(each[1]), each[0]))[:_MOST_NAMED]:
        shown = [
            f"{text} ({rows[0]}{f' and {len(rows) - 1} more' if len(rows) > 1 else ''})"
            for text, rows in sorted(by_fact[task, key].items())
        ]
        texts.append(f"{key} on {task}: " + ", ".join(shown[:_MOST_NAMED]))
    more = f"; and {len(by_fact) - len(texts)} more" if len(by_fact) > len(texts) else ""
    return [f"models that were evaluated in different ways share columns: {'; '.join(texts)}{more}"]


def _place(key: str) -> tuple[int, str]:
    return (_FIRST.index(key) if key in _FIRST else len(_FIRST)), key


def _key(facts: Facts | None) -> Any:
    return None if facts is None else tuple(sorted(facts.items()))


def _groups(items: Sequence[Any], key) -> list[list[int]]:
    """Returns the places of items with the same key, in the order of the keys' first places."""
    groups: dict[Hashable, list[int]] = {}
    for place, item in enumerate(items):
        groups.setdefault(key(item), []).append(place)
    return list(groups.values())
