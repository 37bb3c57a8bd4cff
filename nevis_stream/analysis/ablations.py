"""Streams set side by side: what a method's error and cost are on variants of a stream that judge
the same tasks.

Runs of different streams are not compared elsewhere. Here they are, on the tasks that all of them
judge, if these are the same tasks on the same data; everything else is left out with the reason.
"""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nevis_stream.analysis.judged import task_errors
from nevis_stream.analysis.own_files import own_file
from nevis_stream.analysis.points import point
from nevis_stream.analysis.runs import Run
from nevis_stream.analysis.seeds import SeedGroup, Spread, by_seed, spread
from nevis_stream.catalogue import published
from nevis_stream.errors import BadInput

_OF_THE_STREAM = ("stream", "stream_digest")
_PARTIAL = "+partial"


@dataclass(frozen=True)
class Variant:
    """One method on one stream variant; draws of a variant (`random_40@0`, `@1`, …) count as runs
    of it.

    Attributes:
      name: the stream's, without the draw.
      runs: number of runs in the means; draws: number of different streams among them; seeds: of
        different seeds.
      tasks, judged: number of tasks and of judged tasks, of the first run.
      error: mean error over the compared tasks.
      whole_error: mean error over all tasks, where these are the same as the reference's; else
        without a value.
      paper_total: FLOPs of training over the variant's whole stream.
      difference: of the mean error to the reference's; NaN for the reference itself.
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
        """What is published of the whole variant (`catalogue.published.variants`), whatever the
        method; None: nothing.
        """
        return published.variants().get(self.name.removesuffix(_PARTIAL))


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


def ablations(runs: Sequence[Run]) -> list[Ablation]:
    """Returns a comparison for each method and protocol that has runs of two streams or more; NaN
    and unfinished runs left out.

    A method is what has the same config but for stream and seed. The reference is the stream with
    most tasks; a run is compared with it if it judges all tasks that the reference judges, on the
    same data (fingerprints in stream.csv).
    """
    own = [run for run in runs if not run.published and run.settings is not None]
    by_protocol: dict[str, list[Run]] = {}
    for run in own:
        settings = {
            name: value for name, value in run.settings.items() if name not in _OF_THE_STREAM
        }
        alike = replace(run, settings=settings)
        by_protocol.setdefault(run.header.protocol, []).append(alike)
    found = [
        _ablation(group, protocol)
        for protocol, alike in by_protocol.items()
        for group in by_seed(alike)
    ]
    return [ablation for ablation in found if ablation is not None]


def variant_of(stream: str) -> str:
    """Returns a stream's name without its draw.

    >>> variant_of("random_40@3"), variant_of("full")
    ('random_40', 'full')
    """
    return stream.partition("@")[0]


def _ablation(group: SeedGroup, protocol: str) -> Ablation | None:
    if len({run.header.stream_digest for run in group.runs}) < 2:
        return None
    left_out, judged = [], {}
    for run in group.runs:
        result = point(run.ledger)
        judged[run.path] = _judged(run)
        if math.isnan(result.error):
            left_out.append((run.name, result.reason))
    unusable = {name for name, _ in left_out}
    usable = [run for run in group.runs if run.name not in unusable]
    if not usable:
        return None
    largest = max(
        usable,
        key=lambda run: (
            run.header.tasks,
            run.header.stream == variant_of(run.header.stream),
        ),
    )
    wanted = judged[largest.path]
    kept: dict[str, list[Run]] = {}
    for run in usable:
        same = sum(judged[run.path].get(task) == data for task, data in wanted.items())
        if same < len(wanted):
            reason = (
                f"judges {same} of the {len(wanted)} tasks that {largest.header.stream} judges,"
                " on the same data"
            )
            left_out.append((run.name, reason))
        else:
            kept.setdefault(_kind(run), []).append(run)
    if len(kept) < 2:
        return None
    reference = _kind(largest)
    names = sorted(kept, key=lambda name: (name != reference, name))
    whole = _errors(largest)
    base = spread([_mean(_errors(run), wanted) for run in kept[reference]]).mean
    variants = tuple(
        _variant(name, kept[name], wanted, whole, math.nan if name == reference else base)
        for name in names
    )
    return Ablation(group.label, protocol, reference, tuple(wanted), variants, tuple(left_out))


def _kind(run: Run) -> str:
    """The variant, with the mark of a stream that lacks tasks (its digest's), so that it is told
    from the whole one.
    """
    digest = run.header.stream_digest
    return variant_of(run.header.stream) + (_PARTIAL if digest.endswith("-partial") else "")


def _variant(
    name: str,
    runs: Sequence[Run],
    wanted: Mapping[str, str],
    whole: Mapping[str, float],
    base: float,
) -> Variant:
    errors = [_errors(run) for run in runs]
    error = spread([_mean(each, wanted) for each in errors])
    same = all(set(each) == set(whole) for each in errors)
    first = runs[0]
    return Variant(
        name=name,
        runs=len(runs),
        draws=len({run.header.stream_digest for run in runs}),
        seeds=len({run.header.seed for run in runs}),
        tasks=first.header.tasks,
        judged=len(_judged(first)),
        error=error,
        whole_error=spread([_mean(each, each) for each in errors] if same else []),
        paper_total=spread([point(run.ledger).paper_total for run in runs]),
        difference=error.mean - base,
    )


def _errors(run: Run) -> dict[str, float]:
    return {result.task_id: result.error for result in task_errors(run.ledger)}


def _mean(errors: Mapping[str, float], tasks: Mapping[str, object]) -> float:
    return math.fsum(errors[task] for task in tasks) / len(tasks)


def _judged(run: Run) -> dict[str, str]:
    """The data of each judged task: the fingerprint that stream.csv has, else the number of samples
    that were predicted.
    """
    try:
        with open(own_file(run.path, "stream.csv"), newline="", encoding="utf-8") as file:
            prints = {row["task_id"]: row["fingerprint"] for row in csv.DictReader(file)}
    except (BadInput, OSError, ValueError, KeyError, csv.Error):
        prints = {}
    return {
        r.task_id: prints.get(r.task_id) or f"n = {r.n}"
        for r in task_errors(run.ledger)
        if r.judged
    }
