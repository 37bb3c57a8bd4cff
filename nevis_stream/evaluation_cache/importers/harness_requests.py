"""Lists of samples in the forms by which evaluation harnesses are told to run only these."""

from collections.abc import Sequence

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.facts import METRIC, get_dataset


def group_by_task(cache: EvaluationCache, samples: Sequence[str]) -> dict[str, list[str]]:
    """Returns the ids that samples have within their task, by task.

    Args:
      cache: has the samples; logs and tables with a column `dataset` name them TASK/ID.
      samples: their ids.

    Raises:
      BadInput: the cache does not know the task of a sample.
    """
    columns = {sample: column for column, sample in enumerate(cache.samples())}
    batches = cache.sample_provenance()
    tasks: dict[str, list[str]] = {}
    for sample in samples:
        column = columns[sample]
        facts = next(each for part, each in batches if part.start <= column < part.stop)
        task, metric = get_dataset(facts), str(facts.get(METRIC) or "")
        if not task:
            raise BadInput(
                f"sample {sample!r}: the board does not know its task: it has no column"
                " `dataset`. Import logs of the harness, or a table with the columns dataset"
                " and sample."
            )
        name = sample.removeprefix(f"{task}/")
        tasks.setdefault(task, []).append(name.removesuffix(f"#{metric}") if metric else name)
    return tasks


def format_for_lm_eval(cache: EvaluationCache, samples: Sequence[str]) -> dict[str, list[int]]:
    """Returns what `--samples` of lm-evaluation-harness takes: the ascending numbers of the samples
    of each task. The harness attributes its results to other samples if they do not ascend (its
    issue 4089).

    Raises:
      BadInput: the cache does not know the task of a sample, or its number, `doc_id`.
    """
    tasks = group_by_task(cache, samples)
    for task, names in tasks.items():
        if others := [name for name in names if not name.isdecimal()]:
            raise BadInput(
                f"sample {others[0]!r} of {task}: the board does not know its `doc_id`, a whole"
                " number: in its column `sample` is something else. Import logs of the harness, or"
                " a table whose samples are named by doc_id."
            )
    return {task: sorted(map(int, names)) for task, names in sorted(tasks.items())}


def format_for_inspect(cache: EvaluationCache, samples: Sequence[str]) -> str:
    """Returns what `--sample-id` of inspect_ai takes: ids that commas separate; TASK:ID if the
    board has several tasks, as a bare id stands for the samples of all tasks of a run.

    Raises:
      BadInput: the cache does not know the task of a sample, or inspect_ai would read its id as a
        pattern or as several.
    """
    tasks = group_by_task(cache, samples)
    for task, names in tasks.items():
        if others := [name for name in names if set(",*?[") & set(name)]:
            raise BadInput(
                f"sample {others[0]!r} of {task}: has one of , * ? [ which --sample-id reads as"
                " several ids or a pattern. Give the samples other ids."
            )
    if len({get_dataset(facts) for _, facts in cache.sample_provenance()}) == 1:
        return ",".join(*tasks.values())
    return ",".join(f"{task}:{name}" for task, names in tasks.items() for name in names)
