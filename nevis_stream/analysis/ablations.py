"""A method's error and cost on variants of a stream that judge the same tasks.

Runs of different streams are compared on the tasks that all of them judge, if these are the same
tasks on the same data. Everything else is left out with the reason.
"""

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from nevis_stream.analysis.points import list_task_errors, point
from nevis_stream.analysis.runs import Run, read_fingerprints
from nevis_stream.analysis.seeds import SeedGroup, Spread, group_by_seed, spread
from nevis_stream.catalogue import published

_OF_THE_STREAM = ("stream", "stream_digest")
_PARTIAL = "+partial"


@dataclass(frozen=True)
class Variant:
    """One method on one stream variant; draws of a variant (`random_40@0`, `@1`, …) count as runs
    of it.

    Attributes:
      name: the stream's, without the draw.
      runs: number of runs in the means.
      draws: number of different streams among them.
      seeds: number of different seeds among them.
      tasks, judged: number of tasks and of judged tasks, of the first run.
      error: mean error over the compared tasks.
      whole_error: mean error over all tasks; without a value unless the tasks are those of the
        reference.
      paper_total: FLOPs of training over the variant's whole stream.
      difference: mean error minus the reference's; NaN for the reference itself.
    """

    name: str
    runs: int
    draws: int
    seeds: int
    tasks: int
    judged: int
    error: Spread
    whole_error: Spread
    paper_total: Spread
    difference: float

    @property
    def published(self) -> dict[str, float | int | str] | None:
        """What is published about the whole variant, for any method
        (`catalogue.published.read_variants`); None if nothing is.
        """
        return published.read_variants().get(self.name.removesuffix(_PARTIAL))


@dataclass(frozen=True)
class Ablation:
    """One method on variants that judge the same tasks.

    Attributes:
      label: the method.
      protocol: of all its runs.
      reference: name of the variant with most tasks.
      compared: ids of the judged tasks, the same in all variants.
      variants: the reference first, then by name.
      left_out: (run's name, reason).
    """

    label: str
    protocol: str
    reference: str
    compared: tuple[str, ...]
    variants: tuple[Variant, ...]
    left_out: tuple[tuple[str, str], ...]


def compare_variants(runs: Sequence[Run]) -> list[Ablation]:
    """Returns a comparison for each method and protocol that has runs of two or more streams;
    unfinished runs and those with an undefined error are left out.

    Runs are of one method if their configs differ in stream and seed alone. The reference is the
    stream with most tasks. A run is compared with it if it judges all tasks that the reference
    judges, on the same data (fingerprints in stream.csv).
    """
    by_protocol: dict[str, list[Run]] = {}
    for run in runs:
        if not run.published and run.settings is not None:
            settings = {
                name: value for name, value in run.settings.items() if name not in _OF_THE_STREAM
            }
            alike = by_protocol.setdefault(run.header.protocol, [])
            alike.append(replace(run, settings=settings))
    comparisons = [
        _ablation(group, protocol)
        for protocol, alike in by_protocol.items()
        for group in group_by_seed(alike)
    ]
    return [comparison for comparison in comparisons if comparison is not None]


def find_variant(stream: str) -> str:
    """Returns a stream's name without its draw.

    >>> find_variant("random_40@3"), find_variant("full")
    ('random_40', 'full')
    """
    return stream.partition("@")[0]


def _ablation(group: SeedGroup, protocol: str) -> Ablation | None:
    if len({run.header.stream_digest for run in group.runs}) < 2:
        return None
    usable, left_out = [], []
    for run in group.runs:
        result = point(run.ledger)
        if math.isnan(result.error):
            left_out.append((run.name, result.reason))
        else:
            usable.append(run)
    if not usable:
        return None
    largest = max(
        usable,
        key=lambda run: (
            run.header.tasks or 0,
            run.header.stream == find_variant(run.header.stream),
        ),
    )
    compared = _judged_data(largest)
    by_variant: dict[str, list[Run]] = {}
    for run in usable:
        own = _judged_data(run)
        same = sum(own.get(task) == data for task, data in compared.items())
        if same == len(compared):
            by_variant.setdefault(_variant_name(run), []).append(run)
        else:
            reason = (
                f"judges {same} of the {len(compared)} tasks that {largest.header.stream} judges,"
                " on the same data"
            )
            left_out.append((run.name, reason))
    if len(by_variant) < 2:
        return None
    reference = _variant_name(largest)
    names = sorted(by_variant, key=lambda name: (name != reference, name))
    largest_tasks = frozenset(_errors(largest))
    reference_error = spread([_mean(_errors(run), compared) for run in by_variant[reference]]).mean
    variants = tuple(
        _variant(
            name,
            by_variant[name],
            compared,
            largest_tasks,
            math.nan if name == reference else reference_error,
        )
        for name in names
    )
    return Ablation(group.label, protocol, reference, tuple(compared), variants, tuple(left_out))


def _variant_name(run: Run) -> str:
    """The variant's name, marked where the stream lacks tasks (as its digest says), so that it is
    not taken for the whole stream.
    """
    digest = run.header.stream_digest
    return find_variant(run.header.stream) + (_PARTIAL if digest.endswith("-partial") else "")


def _variant(
    name: str,
    runs: Sequence[Run],
    compared: Mapping[str, str],
    largest_tasks: Set[str],
    reference_error: float,
) -> Variant:
    errors = [_errors(run) for run in runs]
    error = spread([_mean(each, compared) for each in errors])
    same = all(set(each) == largest_tasks for each in errors)
    first = runs[0]
    return Variant(
        name=name,
        runs=len(runs),
        draws=len({run.header.stream_digest for run in runs}),
        seeds=len({run.header.seed for run in runs}),
        tasks=first.header.tasks,
        judged=len(_judged_data(first)),
        error=error,
        whole_error=spread([_mean(each, each) for each in errors] if same else []),
        paper_total=spread([point(run.ledger).paper_total for run in runs]),
        difference=error.mean - reference_error,
    )


def _errors(run: Run) -> dict[str, float]:
    return {result.task_id: result.error for result in list_task_errors(run.ledger)}


def _mean(errors: Mapping[str, float], tasks: Mapping[str, object]) -> float:
    return math.fsum(errors[task] for task in tasks) / len(tasks)


def _judged_data(run: Run) -> dict[str, str]:
    """What identifies the data of each judged task: the fingerprint in stream.csv, or without one
    the number of predicted samples.
    """
    fingerprints = read_fingerprints(run)
    return {
        result.task_id: fingerprints.get(result.task_id) or f"n = {result.n}"
        for result in list_task_errors(run.ledger)
        if result.judged
    }
