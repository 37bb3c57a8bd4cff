"""Reads per-sample logs of lm-evaluation-harness, of three programs and versions:

- from 0.4.3 on, `samples_TASK_DATE.jsonl`, and the details of the Open LLM Leaderboard of 2024,
  `samples_TASK_DATE.json`, which are one JSON array. What was evaluated, and how, stands in the
  results of the same run: `results_DATE.json` beside them, or NAME_DATE.json (with `--output_path
  NAME.json`, for which logs of several models may lie in one folder);
- 0.4.0 to 0.4.2, MODEL_ARGS_TASK.jsonl, which in spite of its name is one JSON array, beside
  `results.json`. The model's arguments are part of the name, with "__" for "/" and "=". Follows the
  source of these versions; no real file of theirs was seen;
- lmms-eval, DATE_samples_TASK.jsonl beside DATE_results.json. A value may be an object with facts
  about the sample beside its score: METRIC,PART is read of it, for the parts that are scores by
  their name. Follows the package's source; of real files only the layout of objects was seen.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache.arguments import (
    IDENTITY_ARGUMENTS,
    MODEL_ARGUMENTS,
    digest,
    format_facts,
)
from nevis_stream.evaluation_cache.importers.record import (
    JSONL,
    Format,
    Log,
    Reported,
    SharedFiles,
    get_object,
    read_beginning,
    read_json_array,
    read_json_lines,
)

SAMPLES = re.compile(r"^samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl?$")
# keys of a line that are not metrics
OTHER_KEYS = frozenset(
    [
        *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"),
        *("doc_hash", "prompt_hash", "target_hash"),
    ]
)
# they say where and how fast it ran; all other arguments are settings
TECHNICAL_ARGUMENTS = frozenset(
    [
        *("device", "batch_size", "max_batch_size", "trust_remote_code", "parallelize"),
        *("device_map", "device_map_option", "max_memory_per_gpu", "max_cpu_memory"),
        *("offload_folder", "tensor_parallel_size", "data_parallel_size", "swap_space"),
        *("pipeline_parallel_size", "gpu_memory_utilization", "max_num_seqs", "base_url"),
        *("num_concurrent", "max_retries", "timeout", "tokenizer_backend", "tokenized_requests"),
        *("verify_certificate", "cache_dir", "download_dir", "low_cpu_mem_usage"),
    ]
)
_PERPLEXITY = "perplexity"  # a metric that is aggregated as exp(−mean) of log-likelihoods
# parts of a task's configuration that make its prompts
_TEMPLATE = (
    *("doc_to_text", "doc_to_target", "doc_to_choice", "description", "gen_prefix"),
    *("target_delimiter", "fewshot_delimiter"),
)


def read(path: Path, shared: SharedFiles) -> list[Log]:
    """Reads a samples file.

    Raises:
      BadInput: it cannot be read; the message names file and line.
    """
    match = SAMPLES.search(path.name)
    assert match
    run = _read_results(path, match["task"], match["date"], shared)
    log = _make_log(path, match, run, shared)
    if not run.get("model_name"):
        kind = "models named after the folder, as no results file of the same date names them"
        log.remarks.append((kind, f"{log.model} ({log.file})"))
    is_array = path.suffix == ".json"
    lines = read_json_array(log, shared.read_content(path)) if is_array else read_json_lines(log)
    return _fill(log, lines, run)


def _make_log(path: Path, match: re.Match[str], run: dict[str, Any], shared: SharedFiles) -> Log:
    """Returns the log, without samples, of a file in whose name `match` found task and date."""
    # without results, the directory's name, in which the harness replaces "/" by "__"
    model = str(run.get("model_name") or path.resolve().parent.name.replace("__", "/"))
    return Log(path, model, match["task"], match["date"], grades=shared.grades)


def _fill(log: Log, lines: Iterable[tuple[str, Any]], run: dict[str, Any]) -> list[Log]:
    """Returns [log] with its samples, and with what the results of its run say."""
    add_samples(log, lines)
    add_description(log, run)
    return [log]


def add_samples(log: Log, lines: Iterable[tuple[str, Any]]) -> None:
    """Adds the samples of a log.

    Args:
      log: gains values and hashes.
      lines: place and content of each sample and filter.

    Raises:
      BadInput: one is not a sample; the message names file and place.
    """
    for place, line in lines:
        if not isinstance(line, dict) or "doc_id" not in line:
            raise BadInput(f"{log.path}, {place}: has no `doc_id`, so it is not a sample.")
        sample, suffix = str(line["doc_id"]), _format_filter(line.get("filter"))
        metrics = line.get("metrics", [name for name in line if name not in OTHER_KEYS])
        if not isinstance(metrics, list) or not all(isinstance(each, str) for each in metrics):
            raise BadInput(f"{log.path}, {place}: `metrics` is not a list of names.")
        for name in metrics:
            if name in line:
                log.add(f"{name}{suffix}", sample, line[name], place)
        if "doc_hash" in line:
            log.add_hash(sample, str(line["doc_hash"]), place, "`doc_hash`")


def _format_filter(name: Any) -> str:
    """Returns what a filter adds to the name of a metric, ",FILTER"; "" if there is none."""
    return "" if name in (None, "none") else f",{name}"


def _read_results(path: Path, task: str, date: str, shared: SharedFiles) -> dict[str, Any]:
    """Returns the results of the run that wrote a samples file; empty if there are none."""
    files = [path.with_name(f"results_{date}.json")]
    if not files[0].is_file():
        files = sorted(
            each
            for each in path.parent.glob("*.json")
            if each.stem.endswith(f"_{date}") and not SAMPLES.search(each.name)
        )
    if len(files) > 1:
        files = [f for f in files if task in get_object(shared.read_object(f), "results")] or files
    if len(files) > 1:
        names = ", ".join(each.name for each in files)
        raise BadInput(
            f"{path}: {names} are of the same date, so its model is not clear; move each run into a"
            " folder of its own."
        )
    return shared.read_object(files[0]) if files else {}


def add_description(log: Log, run: dict[str, Any]) -> None:
    """Adds what the results of a run say of a log: identity, settings, scores and truncation."""
    config, task = get_object(run, "config"), get_object(get_object(run, "configs"), log.task)
    arguments = parse_arguments(config.get("model_args"))
    shots = get_object(run, "n-shot").get(log.task, task.get("num_fewshot"))
    if config:
        bases = {name: arguments[name] for name in MODEL_ARGUMENTS if name in arguments}
        identity = {name: arguments[name] for name in IDENTITY_ARGUMENTS if name in arguments}
        others = {name: value for name, value in bases.items() if value != log.model}
        log.identity = format_facts(identity | others)
    if config or task or shots is not None:
        generation = {}
        if task.get("output_type", "generate_until") == "generate_until":
            generation = get_object(task, "generation_kwargs") | parse_arguments(
                config.get("gen_kwargs")
            )
        template = {name: task[name] for name in _TEMPLATE if task.get(name)}
        others = {
            name: value
            for name, value in arguments.items()
            if name not in IDENTITY_ARGUMENTS | TECHNICAL_ARGUMENTS | set(MODEL_ARGUMENTS)
            and not isinstance(value, dict | list)
        }
        log.settings = format_facts(
            others
            | generation
            | {
                "num_fewshot": shots,
                "prompt": f"#{digest(template)[:8]}" if template else None,
                "chat_template": run.get("chat_template"),
                "system_instruction": run.get("system_instruction"),
                "fewshot_as_multiturn": run.get("fewshot_as_multiturn"),
                "fewshot_seed": config.get("fewshot_seed") if shots else None,
                "version": get_object(run, "versions").get(log.task),
            }
        )
    _add_scores(log, run, task)
    sizes = get_object(get_object(run, "n-samples"), log.task)
    log.size, effective = sizes.get("original"), sizes.get("effective")
    limit = config.get("limit")
    if log.truncation:
        return
    if effective is not None and len(log.samples) < effective:
        log.truncation = f"cut short, as its run evaluated {effective:,}"
    elif effective is not None and log.size is not None:
        reason = f"--limit={limit:g}" if isinstance(limit, int | float) else "limited"
        log.truncation = reason if effective < log.size else ""
    elif isinstance(limit, int | float):
        log.truncation = f"--limit={limit:g}"


def _add_scores(log: Log, run: dict[str, Any], task: dict[str, Any]) -> None:
    """Adds the scores that the results report, and the directions of metrics."""
    listed = [each for each in task.get("metric_list") or [] if isinstance(each, dict)]
    aggregations = {each.get("metric"): each.get("aggregation") for each in listed}
    better = {
        each["metric"]: each["higher_is_better"]
        for each in listed
        if {"metric", "higher_is_better"} <= each.keys()
    } | get_object(get_object(run, "higher_is_better"), log.task)
    sizes = get_object(get_object(run, "n-samples"), log.task)
    scores = get_object(get_object(run, "results"), log.task)
    for key, score in scores.items():
        metric, _, filtered = key.partition(",")
        is_number = isinstance(score, int | float) and not isinstance(score, bool)
        if is_number and not metric.endswith("_stderr"):
            size, aggregation = sizes.get("effective"), _find_aggregation(metric, aggregations)
            if aggregation == _PERPLEXITY and score > 0:
                score, aggregation = -math.log(score), "mean"
            log.reported[metric + _format_filter(filtered or None)] = Reported(
                score, size, aggregation
            )
    for name in {*log.values, *log.skipped}:
        metric = name.partition(",")[0]
        if _find_aggregation(metric, aggregations) == _PERPLEXITY and name in log.values:
            log.higher_is_better[name] = True
            kind = "the log has the log-likelihood of each sample, of which higher is better"
            log.remarks.append((kind, f"{metric} on {log.task}"))
        elif isinstance(is_better := better.get(metric), bool):
            log.higher_is_better[name] = is_better


def _find_aggregation(metric: str, stated: Mapping[str, Any]) -> str:
    """Returns how a metric is aggregated: as the log states, or by the harness's default."""
    return str(stated.get(metric) or (_PERPLEXITY if metric == "perplexity" else "mean"))


def parse_arguments(arguments: Any) -> dict[str, Any]:
    """Returns arguments of the harness by name; older versions write them as "a=1,b=2"."""
    if isinstance(arguments, dict):
        return arguments
    pairs = (pair.partition("=") for pair in str(arguments or "").split(",") if "=" in pair)
    return {name.strip(): value.strip() for name, _, value in pairs}


FORMAT = Format(
    "lm-evaluation-harness (--log_samples), Open LLM Leaderboard of 2024",
    "samples_TASK_DATE.jsonl or .json",
    SAMPLES,
    read,
)


_RESULTS = "results.json"


def is_old(path: Path) -> bool:
    """Returns whether a file is a log of 0.4.0 to 0.4.2: a JSON array called .jsonl, beside the
    results.
    """
    return path.with_name(_RESULTS).is_file() and read_beginning(path, 64).startswith("[")


def read_old(path: Path, shared: SharedFiles) -> list[Log]:
    """Reads a log of 0.4.0 to 0.4.2.

    Raises:
      BadInput: it cannot be read, or it is not clear of which task it is.
    """
    run = shared.read_object(path.with_name(_RESULTS))
    arguments = str(get_object(run, "config").get("model_args") or "")
    beginning = re.sub("/|=", "__", arguments) + "_"
    tasks = {*get_object(run, "configs"), *get_object(run, "results")}
    fitting = sorted((task for task in tasks if path.stem.endswith(f"_{task}")), key=len)
    if fitting:
        task = fitting[-1]
    elif path.stem.startswith(beginning):
        task = path.stem.removeprefix(beginning)
    else:
        raise BadInput(
            f"{path}: {_RESULTS} beside it has no task with which the name ends, and other"
            " arguments of the model, so it is of another run; move each run into a folder of its"
            " own."
        )
    values = parse_arguments(arguments)
    others = ",".join(f"{name}={value}" for name, value in format_facts(values).items())
    model = next((values[name] for name in MODEL_ARGUMENTS if name in values), others)
    model = model or path.stem.removesuffix(f"_{task}")
    # the results of these versions have no date, so that of two runs the path decides
    log = Log(path, model, task, str(run.get("date") or ""), grades=shared.grades)
    return _fill(log, read_json_array(log, shared.read_content(path)), run)


OLD_FORMAT = Format(
    "lm-evaluation-harness 0.4.0 to 0.4.2",
    f"MODEL_ARGS_TASK.jsonl beside {_RESULTS}",
    JSONL,
    read_old,
    is_old,
)


LMMS_SAMPLES = re.compile(r"^(?P<date>\d{8}_\d{6})_samples_(?P<task>.+)\.jsonl$")
_LMMS_OTHER_KEYS = OTHER_KEYS | {"input", "submission"}
_LMMS_SCORES = ("score", "correct", "is_correct", "acc", "accuracy", "exact_match")


def read_lmms(path: Path, shared: SharedFiles) -> list[Log]:
    """Reads a log of lmms-eval.

    Raises:
      BadInput: it cannot be read; the message names file and line.
    """
    match = LMMS_SAMPLES.search(path.name)
    assert match
    run = shared.read_object(path.with_name(f"{match['date']}_results.json"))
    log = _make_log(path, match, run, shared)
    return _fill(log, _split_scores(read_json_lines(log)), run)


def _split_scores(lines: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yields lines in which each score of an object is a value of its own, and `metrics` names all
    values.
    """
    for place, line in lines:
        if not isinstance(line, dict):
            yield place, line
            continue
        values: dict[str, Any] = {}
        for name, value in line.items():
            if name in _LMMS_OTHER_KEYS:
                continue
            if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
                value = value[0]
            parts = [each for each in _LMMS_SCORES if isinstance(value, dict) and each in value]
            values |= {f"{name},{each}": value[each] for each in parts} or {name: value}
        kept = {name: value for name, value in line.items() if name in _LMMS_OTHER_KEYS}
        yield place, kept | values | {"metrics": list(values)}


LMMS_FORMAT = Format("lmms-eval", "DATE_samples_TASK.jsonl", LMMS_SAMPLES, read_lmms)
