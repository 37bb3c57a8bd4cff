"""Reads HELM's `per_instance_stats.json`, one for each model and scenario.

The model, the scenario and its arguments are read from `run_spec.json` beside it, else from the
name of the folder, SCENARIO:KEY=VALUE,…,model=MODEL; the content of instances is read from
`instances.json`. An instance may stand in several entries, one for each group of metrics. Its
values over training trials are averaged. Follows the package's source; no real file was seen.
"""

import re
from pathlib import Path
from typing import Any

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache.arguments import digest, format_facts, is_credential
from nevis_stream.evaluation_cache.importers.record import (
    Format,
    Log,
    SharedFiles,
    get_object,
)

_NAME = "per_instance_stats.json"
# statistics of the evaluation itself, not of the answer
_BOOKKEEPING = re.compile(
    r"^(num_|finish_reason_|inference_|training_|prompt_truncated$|batch_size$|predicted_index$)"
)
_TOKENS = ("num_prompt_tokens", "num_output_tokens")
_SECONDS = "inference_runtime"  # of the whole batch
_MODEL_ARGUMENTS = ("model", "model_deployment")
_SETTINGS = ("method", "max_train_instances", "temperature", "max_tokens", "num_outputs")


def read(path: Path, shared: SharedFiles) -> list[Log]:
    """Reads the statistics of one model on one scenario.

    Raises:
      BadInput: the file cannot be read, or has no list of instances.
    """
    content = shared.read_content(path)
    run = shared.read_object(path.with_name("run_spec.json"))
    adapter = get_object(run, "adapter_spec")
    task, model = _parse_run_name(str(run.get("name") or path.resolve().parent.name))
    model = str(adapter.get("model") or model)
    log = Log(path, model, task, "", grades=shared.grades)
    if not isinstance(content, list):
        raise BadInput(f"{path}: is not a JSON array of instances.")
    trials: dict[tuple[str, str], dict[str, Any]] = {}
    costs: dict[tuple[str, str], dict[str, float]] = {}
    perturbed = 0
    for number, entry in enumerate(content, start=1):
        if not isinstance(entry, dict) or "instance_id" not in entry:
            raise BadInput(f"{path}, entry {number}: has no `instance_id`.")
        if entry.get("perturbation"):
            perturbed += 1
            continue
        sample, trial = str(entry["instance_id"]), str(entry.get("train_trial_index"))
        stats = entry.get("stats") or []
        if not isinstance(stats, list) or not all(isinstance(each, dict) for each in stats):
            raise BadInput(f"{path}, entry {number}: `stats` is not a list of objects.")
        for stat in stats:
            name, value = get_object(stat, "name").get("name"), stat.get("mean")
            is_number = isinstance(value, bool | int | float) and value == value
            if not isinstance(name, str) or _BOOKKEEPING.search(name):
                if is_number:
                    costs.setdefault((sample, trial), {})[str(name)] = value
                continue
            value = value if is_number else None
            known = trials.setdefault((name, sample), {})
            if known.setdefault(trial, value) != value:
                raise BadInput(f"{path}, entry {number}: instance {sample} has {name} twice.")
    for (name, sample), values in trials.items():
        numbers = [value for value in values.values() if value is not None]
        mean = sum(numbers) / len(numbers) if numbers else None
        log.add(name, sample, mean, f"instance {sample}")
    for (sample, _), counts in costs.items():
        log.add_price("tokens", sample, sum(counts.get(name, 0) for name in _TOKENS))
        log.add_price("seconds", sample, counts.get(_SECONDS), per=counts.get("batch_size") or 1)
    if (most := max(map(len, trials.values()), default=0)) > 1:
        kind = "values that are means over training trials"
        log.remarks.append((kind, f"{model} on {task}, up to {most} trials"))
    if perturbed:
        kind = "perturbed copies of instances, which are not read"
        log.remarks.append((kind, f"{perturbed:,} of {model} on {task}"))
    _add_hashes(log, shared)
    if adapter:
        log.settings = format_facts({name: adapter.get(name) for name in _SETTINGS})
    return [log]


def _add_hashes(log: Log, shared: SharedFiles) -> None:
    path = log.path.with_name("instances.json")
    instances = shared.read_content(path) if path.is_file() else []
    for each in instances if isinstance(instances, list) else []:
        if isinstance(each, dict) and not each.get("perturbation"):
            content = [each.get("input"), each.get("references")]
            log.hashes[str(each.get("id"))] = digest(content)


def _parse_run_name(name: str) -> tuple[str, str]:
    """Returns what the name of a run says: the scenario with its arguments except the model, and
    the model.

    >>> _parse_run_name("mmlu:subject=law,model=openai_gpt2")
    ('mmlu:subject=law', 'openai/gpt2')
    """
    scenario, _, arguments = name.partition(":")
    pairs = [each for each in arguments.split(",") if each]
    others = [
        each
        for each in pairs
        if (of := each.partition("=")[0]) not in _MODEL_ARGUMENTS and not is_credential(of)
    ]
    model = next((each.partition("=")[2] for each in pairs if each.startswith("model=")), "")
    # HELM replaces "/" by "_" in names of folders; the first one ends the organisation
    return ":".join(filter(None, (scenario, ",".join(others)))), model.replace("_", "/", 1)


FORMAT = Format("HELM", _NAME, re.compile(rf"^{re.escape(_NAME)}$"), read)
