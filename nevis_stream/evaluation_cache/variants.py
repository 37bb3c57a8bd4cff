"""Which row of a cache the logs of a model belong to, and its name.

A row is a model with its revision, adapter and reasoning effort, as evaluated with one number of
shots, prompt template and set of generation arguments on each task. The name of a row is that of
the model, followed by what distinguishes it from other rows of that model where there are any:
`M [revision=step1000]`, `M [num_fewshot=0]`. Rows that come in together all carry the difference; a
name that is in a cache stays, and the newcomer carries it.

What is known of a row stands in its provenance: `model`, the name without the difference;
`variant`, the difference; `identity`, facts of the model; and `tasks`, the settings by task. What
is not known there matches anything.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from nevis_stream.evaluation_cache.identity import TASKS

MODEL, VARIANT, IDENTITY = "model", "variant", "identity"
Facts = Mapping[str, str]
# facts that every log with settings should have; without one it is unknown, not a default
_NEVER_DEFAULT = ("num_fewshot", "prompt", "solver", "version")
# named in this order, then by the alphabet
_FIRST = ("revision", "peft", "adapter", "reasoning_effort", "num_fewshot", "temperature")
_DEFAULTS = {"revision": "main"}
_MOST_NAMED = 3


def differences(first: Facts | None, second: Facts | None) -> list[str]:
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


def name(model: str, variant: Facts) -> str:
    """Returns the name of a row: "M", or "M [num_fewshot=0]"."""
    listed = [f"{key}={variant[key]}" for key in sorted(variant, key=_place)]
    return f"{model} [{', '.join(listed)}]" if listed else model


def provenance(
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
            if (differing := differences(first, second)) and not set(differing) & set(names):
                names.append(differing[0])
    names.sort(key=_place)
    return [{} if each is None else {key: value(each, key) for key in names} for each in all_facts]


def value(facts: Facts, name: str) -> str:
    """Returns the value of a fact; "none" if it has its default, "unknown" if it is unknown."""
    return facts.get(name, "unknown" if name in _NEVER_DEFAULT else _DEFAULTS.get(name, "none"))


def by_variant(
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
    for (
        i
    ) in others:  # a log of a task without variants belongs to the only one whose settings it has
        settings = logs[i][3]
        fitting = [] if settings is None else [each for each in labels if _has(settings, each)]
        if len(fitting) == 1:
            variants[i] = variants[i] | fitting[0]


def _has(facts: Facts, label: Facts) -> bool:
    return all(value(facts, key) == text for key, text in label.items())


def in_cache(
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
                if name(model, variant) == key or not set(variant) & set(differing):
                    variant[differing[0]] = value(texts, differing[0])
            if variant:
                facts[VARIANT] = variant
            chosen = name(model, variant)
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
        value(identity, key) == text
        or (settings != [] and all(value(each, key) == text for each in settings))
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
        if first is not None and (differing := differences(first, second))
    ]


def _shared(facts: Mapping[str, Any], stored: Mapping[str, Any]) -> int:
    """Returns the number of tasks that both rows have."""
    return len(facts.get(TASKS, {}).keys() & stored.get(TASKS, {}).keys())


def joined_settings(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
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
                    values.setdefault(value(settings, key), []).append(row)
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
