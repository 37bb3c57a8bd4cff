"""What identifies a column and a row of a cache, and where values that are added belong.

A column is one sample: its data set, content (a hash), metric with its filter, direction and range.
Two values may stand in one column only if these agree. A fact that one side does not state matches
any.

A row is a model with its revision, adapter and reasoning effort, as evaluated with one number of
shots, prompt template and set of generation arguments on each task. The name of a row is that of
the model, followed by what distinguishes it from other rows of that model where there are any:
`M [revision=step1000]`, `M [num_fewshot=0]`. Of rows that come in together all names have the
difference; a name that is in a cache stays, and that of the newcomer has it.

What is known of a row stands in its provenance: `model`, the name without the difference;
`variant`, the difference; `identity`, facts of the model; and `tasks`, the settings by task. What
is not known there matches anything.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput, plural
from nevis_stream.evaluation_cache.arguments import (
    clean,
    conceal,
    differ,
    find_credentials,
    is_credential,
    is_digest,
)
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
LATER_FACTS = (METRIC, DIRECTION)
# in a model's provenance: by data set, facts such as number of shots, template and generation
# arguments
TASKS = "tasks"


def describe(provenance: Provenance) -> dict[str, str]:
    """Returns by name, such as "data set", what a sample's provenance states of its identity."""
    texts = {
        "data set": get_dataset(provenance),
        "metric": str(provenance.get(METRIC) or ""),
        "direction": describe_direction(provenance),
        "content": str(provenance.get(HASH) or ""),
        "range": format_range(provenance),
    }
    return {name: text for name, text in texts.items() if text}


def compare_samples(
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
      stored: columns and provenance of the cache's samples (see `entries.read_batches`).
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
            verdicts[pair] = _compare_facts(stored[batch][1], provenance)
        differs, lacking = verdicts[pair]
        old, new = hashes.get(int(columns[k]), ""), str(provenance.get(HASH) or "")
        if old and new and old != new:
            differs = f"content {old} in this cache, not {new}: it is another question"
        if differs:
            raise BadInput(_format_refusal(ids[k], place(ids[k]), differs))
        missing.update(lacking)
        missing["content"] += bool(old) != bool(new)
    return +missing


def _compare_facts(stored: Provenance, new: Provenance) -> tuple[str, list[str]]:
    """Returns how two samples differ, "" if they do not, and the facts that only one states."""
    old, given = ({**describe(each), "content": ""} for each in (stored, new))
    for name in given:
        if name in old and old[name] != given[name]:
            return f"{name} {old[name]} in this cache, not {given[name]}", []
    return "", [name for name in ("metric", "direction") if (name in old) != (name in given)]


def _format_refusal(sample: str, place: str, differs: str) -> str:
    advice = (
        "Values of both kinds cannot stand in one column: state what the file has (columns"
        " `metric`, `higher_is_better`, `low` and `high`, or --metrics, --lower_is_better,"
        " --range), or import it into another cache."
    )
    return f"sample {sample!r}{place} has the {differs}. {advice}"


def count_missing(missing: Mapping[str, int]) -> list[str]:
    """Returns a line for people that counts the facts which only the cache or only the file states;
    [] if there are none.
    """
    if not missing:
        return []
    counts = ", ".join(
        f"the {name} of {plural(count, 'sample')}" for name, count in sorted(missing.items())
    )
    return [f"stated only by the cache or only here, so not compared: {counts}"]


def find_gained_facts(stored: Provenance, new: Provenance) -> dict[str, Any]:
    """Returns the facts that only the new provenance of a stored sample states. `low` and `high`
    are among them once a sample that had outcomes gets a value between 0 and 1 (partial credit,
    F1).
    """
    names = (*LATER_FACTS, *RANGE)
    return {name: new[name] for name in names if name in new and name not in stored}


def match_names(
    ids: Sequence[str], provenances: Sequence[Provenance], in_cache: Mapping[str, str]
) -> list[str]:
    """Returns the ids under which a cache has samples of a file. These must not depend on how many
    metrics a file has: the F1 of `squad/1` may be `squad/1#F1` in one, and `squad/1` in the other.

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
        old_facts = merged.setdefault(name, {})
        for fact, value in task.items():
            if is_credential(fact):
                continue
            if differ(fact, old_facts.setdefault(fact, value), value):
                raise BadInput(
                    f"model {model!r} on {name}: has {fact} = {old_facts[fact]!r} in this cache,"
                    f" not {value!r}. Such values are another model's: give it another id, for"
                    f" example '{model} [{fact}={value}]'."
                )
    return merged


MODEL, VARIANT, IDENTITY = "model", "variant", "identity"
Facts = Mapping[str, str]
# facts without a default: where a log does not state one, it is unknown
_WITHOUT_DEFAULT = ("num_fewshot", "prompt", "solver", "version")
# the most telling facts, which are named first, in this order; the others by the alphabet
_NAMED_FIRST = ("revision", "peft", "adapter", "reasoning_effort", "num_fewshot", "temperature")
_DEFAULTS = {"revision": "main"}
_MOST_NAMED = 3  # facts, or values of a fact, in a line for people


def find_differences(first: Facts | None, second: Facts | None) -> list[str]:
    """Returns the names of facts that differ, the most telling ones first; none if one side is
    None, unknown.
    """
    if first is None or second is None:
        return []
    names = [
        name
        for name in {*first, *second}
        if not is_credential(name)  # what is shown of a fact that is not stated may be stated
        and show_fact(first, name) != show_fact(second, name)
        and not (name in _WITHOUT_DEFAULT and (name not in first or name not in second))
    ]
    return sorted(names, key=_make_sort_key)


def name_row(model: str, variant: Facts) -> str:
    """Returns the name of a row: "M", or "M [num_fewshot=0]"."""
    listed = [f"{key}={variant[key]}" for key in sorted(variant, key=_make_sort_key)]
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
    """Returns, for each of several sets of facts, the few facts that tell the different ones apart;
    {} for an unknown set, None, and for all if none differ.
    """
    all_facts = list(all_facts)
    names: list[str] = []
    for i, first in enumerate(all_facts):
        for second in all_facts[:i]:
            if (differing := find_differences(first, second)) and not set(differing) & set(names):
                names.append(differing[0])
    names.sort(key=_make_sort_key)
    return [
        {} if each is None else {key: show_fact(each, key) for key in names} for each in all_facts
    ]


def show_fact(facts: Facts, name: str) -> str:
    """Returns the value of a fact; where it is not stated its default or "none", or "unknown" if it
    has no default.
    """
    if name in facts:
        return conceal(name, facts[name])
    return "unknown" if name in _WITHOUT_DEFAULT else _DEFAULTS.get(name, "none")


def name_variants(
    logs: Sequence[tuple[str, Facts | None, str, Facts | None]],
) -> list[dict[str, str]]:
    """Returns the variant of each log: what distinguishes its row from others of its model.

    Args:
      logs: model, identity, task and settings of each.
    """
    variants: list[dict[str, str]] = [{} for _ in logs]
    for places in _group_by(logs, lambda log: log[0]):
        known = {_make_key(logs[i][1]): logs[i][1] for i in places if logs[i][1] is not None}
        keys = sorted(known)
        labels = dict(zip(keys, distinguish(known[key] for key in keys), strict=True))
        only = next(iter(labels.values())) if len(labels) == 1 else {}
        for i in places:
            variants[i] |= labels.get(_make_key(logs[i][1]), only)
    for row in _group_by(
        list(zip(logs, variants, strict=True)), lambda each: (each[0][0], _make_key(each[1]))
    ):
        _add_settings(logs, row, variants)
    return variants


def _add_settings(logs, row: Sequence[int], variants: list[dict[str, str]]) -> None:
    """Adds to the variants of the logs of one model, `row` by number, how their settings differ."""
    labels: list[dict[str, str]] = []
    others: list[int] = []
    for places in _group_by([logs[i] for i in row], lambda log: log[2]):
        places = [row[place] for place in places]
        keys = sorted({_make_key(logs[i][3]) for i in places if logs[i][3] is not None})
        found = dict(zip(keys, distinguish(map(dict, keys)), strict=True))
        if not any(found.values()):
            others += places
        for i in places if any(found.values()) else ():
            variants[i] = variants[i] | (label := found.get(_make_key(logs[i][3]), {}))
            if label and label not in labels:
                labels.append(label)
    # a log of a task without variants belongs to the only one whose settings it has
    for i in others:
        settings = logs[i][3]
        fitting = [each for each in labels if settings is not None and _has_facts(settings, each)]
        if len(fitting) == 1:
            variants[i] = variants[i] | fitting[0]


def _has_facts(facts: Facts, label: Facts) -> bool:
    return all(show_fact(facts, key) == text for key, text in label.items())


def take_out_credentials(
    rows: Iterable[tuple[str, Mapping[str, Any]]],
) -> list[tuple[str, dict[str, Any]]]:
    """Returns names and provenance of rows of logs without the credentials that earlier versions
    kept; rows whose names differ in one have its number instead.
    """
    kept = []
    numbers: dict[tuple[str, str], dict[str, str]] = {}
    for row, facts in rows:
        if MODEL in facts and any(find_credentials(facts)):
            model, variant = clean(facts[MODEL]), {}
            for name, text in facts.get(VARIANT, {}).items():
                if is_credential(name) and not is_digest(text):
                    known = numbers.setdefault((repr(model), name), {})
                    text = known.setdefault(text, f"#{len(known) + 1}")
                variant[name] = clean(text)
            facts = clean(facts) | ({VARIANT: variant} if variant else {})
            row = name_row(model, variant)
        kept.append((row, dict(facts)))
    return kept


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
        by_model.setdefault(repr(clean(each.get(MODEL, key))), []).append(key)
    named: list[tuple[str, dict[str, Any]]] = []
    lines: list[str] = []
    for given, (row, facts) in zip(rows, take_out_credentials(rows), strict=True):
        if given[0] in known and known[given[0]] == given[1]:
            named.append((given[0], dict(given[1])))
            continue
        if (model := facts.get(MODEL)) is None:
            named.append((row, facts))
            continue
        relatives = by_model.get(repr(model), [])
        fitting = [key for key in relatives if _fits(facts, stored[key], key == row)]
        if fitting:
            chosen = max(
                fitting, key=lambda key: (_count_shared_tasks(facts, stored[key]), key == row)
            )
            facts.pop(VARIANT, None)
            facts |= {
                name: stored[chosen][name]
                for name in (MODEL, VARIANT, IDENTITY)
                if name in stored[chosen]
            }
        else:
            against = [key for key in relatives if _find_conflicts(facts, stored[key])]
            variant = dict(facts.get(VARIANT, {}))
            for key in against:
                texts, differing = _find_conflicts(facts, stored[key])[0]
                if name_row(model, variant) == key or not set(variant) & set(differing):
                    variant[differing[0]] = show_fact(texts, differing[0])
            if variant:
                facts[VARIANT] = variant
            chosen = name_row(model, variant)
            if against:
                differing = _find_conflicts(facts, stored[against[0]])[0][1]
                lines.append(
                    f"{chosen}: differs from {against[0]} in this cache ({', '.join(differing)}),"
                    " so it is another row"
                )
        named.append((chosen, facts))
        known[chosen] = facts
    return named, lines


def _fits(facts: Mapping[str, Any], stored: Mapping[str, Any], is_same_name: bool) -> bool:
    """Returns whether a row belongs to a row of a cache: nothing contradicts it, and it has the
    facts of the variants of both.
    """
    if _find_conflicts(facts, stored):
        return False
    labels = (facts.get(VARIANT, {}), stored.get(VARIANT, {}))
    return (
        is_same_name
        or labels[0] == labels[1]
        or _count_shared_tasks(facts, stored) > 0
        or all(_carries(each, label) for each, label in zip((stored, facts), labels, strict=True))
    )


def _carries(facts: Mapping[str, Any], label: Facts) -> bool:
    """Returns whether each fact of a variant is one of a row's model, or of all its settings."""
    identity = facts.get(IDENTITY) or {}
    settings = list(facts.get(TASKS, {}).values())
    return all(
        show_fact(identity, key) == show_fact(label, key)
        or (settings != [] and all(show_fact(e, key) == show_fact(label, key) for e in settings))
        for key in label
    )


def _find_conflicts(
    facts: Mapping[str, Any], stored: Mapping[str, Any]
) -> list[tuple[Facts, list[str]]]:
    """Returns how a row differs from another row of the model: a pair for its identity, and for its
    settings on each task, if they differ: the facts, and the names of those that differ.
    """
    pairs = [(facts.get(IDENTITY), stored.get(IDENTITY))]
    theirs = stored.get(TASKS, {})
    pairs += [(each, theirs.get(task)) for task, each in facts.get(TASKS, {}).items()]
    return [
        (first, differing)
        for first, second in pairs
        if first is not None and (differing := find_differences(first, second))
    ]


def _count_shared_tasks(facts: Mapping[str, Any], stored: Mapping[str, Any]) -> int:
    """Returns the number of tasks that both rows have."""
    return len(facts.get(TASKS, {}).keys() & stored.get(TASKS, {}).keys())


def compare_settings(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Returns a line for people if different models were evaluated in different ways on a task,
    given name and provenance of each row; else [].
    """
    by_fact: dict[tuple[str, str], dict[str, list[str]]] = {}
    tasks: dict[str, list[tuple[str, Facts]]] = {}
    for row, facts in rows:
        for task, settings in facts.get(TASKS, {}).items():
            tasks.setdefault(task, []).append((row, settings))
    models = {row: facts.get(MODEL, row) for row, facts in rows}
    for task, each in tasks.items():
        names = {key for _, settings in each for key in settings if not is_credential(key)}
        for key in names:
            values: dict[str, list[str]] = {}
            for row, settings in each:
                if key in settings or key not in _WITHOUT_DEFAULT:
                    values.setdefault(show_fact(settings, key), []).append(row)
            if (
                len(values) > 1
                and len({models[row] for all_of in values.values() for row in all_of}) > 1
            ):
                by_fact[task, key] = values
    if not by_fact:
        return []
    texts = []
    differing = sorted(by_fact, key=lambda each: (_make_sort_key(each[1]), each[0]))
    for task, key in differing[:_MOST_NAMED]:
        shown = [
            f"{text} ({rows[0]}{f' and {len(rows) - 1} more' if len(rows) > 1 else ''})"
            for text, rows in sorted(by_fact[task, key].items())
        ]
        texts.append(f"{key} on {task}: " + ", ".join(shown[:_MOST_NAMED]))
    more = f"; and {len(by_fact) - len(texts)} more" if len(by_fact) > len(texts) else ""
    return [f"models that were evaluated in different ways share columns: {'; '.join(texts)}{more}"]


def _make_sort_key(key: str) -> tuple[int, str]:
    return (_NAMED_FIRST.index(key) if key in _NAMED_FIRST else len(_NAMED_FIRST)), key


def _make_key(facts: Facts | None) -> Any:
    return None if facts is None else tuple(sorted(facts.items()))


def _group_by(items: Sequence[Any], key) -> list[list[int]]:
    """Returns the numbers of items with the same key, in the order in which keys come first."""
    groups: dict[Hashable, list[int]] = {}
    for place, item in enumerate(items):
        groups.setdefault(key(item), []).append(place)
    return list(groups.values())
