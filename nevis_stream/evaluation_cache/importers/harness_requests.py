"""Lists of samples in the forms by which evaluation harnesses are told to run only these, and the
names that a harness would read as something else.

Names come out of anybody's logs and tables and become words of a command, so each harness's own
rules are checked (of lm-evaluation-harness 0.4 and inspect_ai 0.3), for all samples of a board, so
that a session does not end at one in the middle.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.facts import METRIC, get_dataset
from nevis_stream.terminal import is_plain_line

_PATTERNS = "*?["
_DOC_ID = re.compile("0|[1-9][0-9]{0,14}")


def check_names(samples: Sequence[str], provenances: Sequence[Mapping[str, Any]]) -> None:
    """Refuses names of samples and tasks that could not be asked by.

    Args:
      samples: n ids.
      provenances: what is stated about each.

    Raises:
      BadInput: a name is not printed as it is; or tasks whose samples are numbered, so that
        lm-evaluation-harness could run them, have names that it reads as something else.
    """
    tasks: dict[str, bool] = {}
    for sample, facts in zip(samples, provenances, strict=True):
        task, name = _split(sample, facts)
        _check_plain(sample, task)
        tasks[task] = tasks.get(task, True) and bool(_DOC_ID.fullmatch(name))
    for task, is_numbered in tasks.items():
        if task and is_numbered:
            _check_lm_eval_task(task)


def _split(sample: str, facts: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the task of a sample, and its id within the task."""
    task, metric = get_dataset(facts), str(facts.get(METRIC) or "")
    name = sample.removeprefix(f"{task}/") if task else sample
    return task, name.removesuffix(f"#{metric}") if metric else name


def _check_plain(sample: str, task: str) -> None:
    for name, kind in ((sample, "sample"), (task, "task")):
        if not is_plain_line(name) and name:
            raise BadInput(
                f"{kind} {name!r}: has a control character or a new line, so what is printed would"
                " be another name. Give it another one in the board."
            )


def _check_lm_eval_task(task: str) -> None:
    reasons = {
        "as several tasks": set(f",{_PATTERNS}") & set(task),
        "as a file or folder that it loads": task.endswith(".yaml") or task[:1] in tuple("/."),
        "as an option": task.startswith("-"),
    }
    for reason, is_so in reasons.items():
        if is_so:
            raise BadInput(
                f"task {task!r}: lm-evaluation-harness would read this name {reason}. Give the task"
                " its name in the harness, without , * ? [ and neither beginning with - / . nor"
                " ending with .yaml, in the board's column `dataset`."
            )


def _check_inspect_names(names: Sequence[tuple[str, str]]) -> None:
    """Refuses pairs of task and id that inspect_ai would not read as these."""
    several = len({task for task, _ in names}) > 1
    for task, name in names:
        problem = ""
        if set(f",{_PATTERNS}") & set(name):
            problem = "has one of , * ? [ which --sample-id reads as several ids or a pattern"
        elif name != name.strip():
            problem = "has a blank at an end, which --sample-id takes away"
        elif not several and name.lower().startswith(f"{task.lower()}:"):
            problem = "begins with the task, of which --sample-id takes only the rest"
        if problem:
            raise BadInput(f"sample {name!r} of {task}: {problem}. Give the samples other ids.")
        if several and (set(",:") & set(task) or task != task.strip()):
            raise BadInput(
                f"task {task!r}: has a comma, a colon or a blank at an end, so --sample-id does not"
                " read TASK:ID as one of its samples. Give the task its name in inspect_ai, in the"
                " board's column `dataset`."
            )


def _split_all(cache: EvaluationCache) -> Iterator[tuple[str, str]]:
    """Yields the task of each sample, and its id within the task.

    Raises:
      BadInput: the cache does not know the task of one.
    """
    ids = cache.samples()
    for columns, facts in cache.sample_provenance():
        for sample in ids[columns.start : columns.stop]:
            task, name = _split(sample, facts)
            if not task:
                raise BadInput(
                    f"sample {sample!r}: the board does not know its task: it has no column"
                    " `dataset`. Import logs of the harness, or a table with the columns dataset"
                    " and sample."
                )
            _check_plain(sample, task)
            yield task, name


def _find(cache: EvaluationCache, samples: Sequence[str], names: Sequence[Any]) -> list[Any]:
    """Returns what belongs to some samples of a cache."""
    columns = {sample: column for column, sample in enumerate(cache.samples())}
    return [names[columns[sample]] for sample in samples]


def format_for_lm_eval(cache: EvaluationCache, samples: Sequence[str]) -> dict[str, list[int]]:
    """Returns what `--samples` of lm-evaluation-harness takes: the ascending numbers of the samples
    of each task. The harness attributes its results to other samples if they do not ascend (its
    issue 4089).

    Args:
      cache: has the samples; logs and tables with a column `dataset` name them TASK/ID.
      samples: their ids.

    Raises:
      BadInput: the cache does not know the task of a sample, or its number, `doc_id`, or the
        harness would read the name of a task as something else.
    """
    names = [*_split_all(cache)]
    for task in dict.fromkeys(task for task, _ in names):
        _check_lm_eval_task(task)
    tasks: dict[str, list[int]] = {}
    for task, name in _find(cache, samples, names):
        if not _DOC_ID.fullmatch(name):
            raise BadInput(
                f"sample {name!r} of {task}: the board does not know its `doc_id`, a whole"
                " number: in its column `sample` is something else. Import logs of the harness, or"
                " a table whose samples are named by doc_id."
            )
        tasks.setdefault(task, []).append(int(name))
    return {task: sorted(numbers) for task, numbers in sorted(tasks.items())}


def format_for_inspect(cache: EvaluationCache, samples: Sequence[str]) -> str:
    """Returns what `--sample-id` of inspect_ai takes: ids that commas separate; TASK:ID if the
    board has several tasks, as a bare id stands for the samples of all tasks of a run. Arguments as
    of `format_for_lm_eval`.

    Raises:
      BadInput: the cache does not know the task of a sample, or inspect_ai would read its id as a
        pattern, as several or as another one.
    """
    names = [*_split_all(cache)]
    _check_inspect_names(names)
    several = len({task for task, _ in names}) > 1
    tasks: dict[str, list[str]] = {}
    for task, name in _find(cache, samples, names):
        tasks.setdefault(task, []).append(f"{task}:{name}" if several else name)
    return ",".join(itertools.chain(*tasks.values()))
