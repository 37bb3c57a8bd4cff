"""Adaptive streams: each rule's error on the target distribution by round, next to that of
random samples at an equal number of labels.
"""

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from nevis_stream.analysis.own_files import read_own_file
from nevis_stream.analysis.points import list_task_errors, sum_phase_flops
from nevis_stream.analysis.runs import Run
from nevis_stream.analysis.seeds import SeedGroup, spread
from nevis_stream.run_directory.records import TrainRecord
from nevis_stream.storage.reading import read_bytes
from nevis_stream.vocabulary import ADAPTIVE

CONTROL = "random"


@dataclass(frozen=True)
class RuleResult:
    """A rule's results with one learner on one pool; errors are means over the pool's data sets.

    Attributes:
      pool: the stream's name up to the first comma.
      design: the adaptive stream's `Specification.rule_text` after the rule's name: design, rounds,
        samples and candidates.
      rule: name of the rule.
      learner: label of the learner.
      seeds: of the finished runs.
      errors: float64[rounds, seeds], on the target distribution.
      labels, labels_seen: means over seeds: in training sets, and with those the rule looked at.
      flops: mean of the full totals, the predictions of candidates included.
    """

    pool: str
    design: str
    rule: str
    learner: str
    seeds: tuple[int, ...]
    errors: np.ndarray
    labels: float
    labels_seen: float
    flops: float


@dataclass(frozen=True)
class AgainstControl:
    """The mean difference of last-round errors, a rule's minus the control's, over seeds that both
    have, with its 95% interval (paired, Student's t; NaN for fewer than 2 seeds)."""

    difference: float
    low: float
    high: float
    n: int


def is_adaptive(run: Run) -> bool:
    """Returns whether a run is of an adaptive stream, by its name and rule."""
    rule = run.header.rule
    return run.header.stream.startswith(ADAPTIVE) and rule is not None and ": " in rule


def get_rule_name(run: Run) -> str:
    """Returns the name of the rule of such a stream."""
    return run.header.rule.partition(": ")[0]


def get_pool_name(run: Run) -> str:
    """Returns the name of the pool of such a stream."""
    return run.header.stream.removeprefix(ADAPTIVE).partition(",")[0]


def summarise_rules(groups: Sequence[SeedGroup]) -> list[list[RuleResult]]:
    """Returns the results that may be compared with each other, the control first in each list.

    Comparable are runs with the same pool (rows and data), design and learner.

    Args:
      groups: of any streams; unfinished runs are left out.
    """
    comparable: dict[tuple, list[RuleResult]] = {}
    for group in groups:
        runs = [run for run in group.runs if is_adaptive(run) and run.ledger.complete]
        if runs:
            result = _result(runs, group.label)
            key = (_pool_digest(runs[0]), result.design, result.learner)
            comparable.setdefault(key, []).append(result)
    return [
        sorted(results, key=lambda each: (each.rule != CONTROL, each.rule))
        for results in comparable.values()
    ]


def compare_with_control(result: RuleResult, control: RuleResult) -> AgainstControl:
    """Compares a rule with the control, seed by seed, after the last round."""
    shared = [seed for seed in result.seeds if seed in control.seeds]
    ours, theirs = (
        np.array([each.errors[-1, each.seeds.index(seed)] for seed in shared])
        for each in (result, control)
    )
    differences = ours - theirs
    n = len(differences)
    if n < 2:
        mean = float(differences.mean()) if n else math.nan
        return AgainstControl(mean, math.nan, math.nan, n)
    half = float(stdtrit(n - 1, 0.975) * differences.std(ddof=1) / math.sqrt(n))
    mean = float(differences.mean())
    return AgainstControl(mean, mean - half, mean + half, n)


def _result(runs: Sequence[Run], label: str) -> RuleResult:
    last = [run.ledger.of_kind(TrainRecord)[-1] for run in runs]
    return RuleResult(
        pool=get_pool_name(runs[0]),
        design=runs[0].header.rule.partition(": ")[2],
        rule=get_rule_name(runs[0]),
        learner=label,
        seeds=tuple(run.header.seed for run in runs),
        errors=np.stack([_errors(run) for run in runs], axis=1),
        labels=spread([record.labels or math.nan for record in last]).mean,
        labels_seen=spread([record.labels_seen or math.nan for record in last]).mean,
        flops=spread([sum(sum_phase_flops(run.ledger).values()) for run in runs]).mean,
    )


def _errors(run: Run) -> np.ndarray:
    """Returns float64[rounds], the mean error over the data sets after each round."""
    by_round: dict[int, list[float]] = {}
    for result in list_task_errors(run.ledger):
        number = re.search(r"\.round(\d+)$", result.task_id)
        by_round.setdefault(int(number[1]) if number else 0, []).append(result.error)
    return np.array([math.fsum(errors) / len(errors) for _, errors in sorted(by_round.items())])


def _pool_digest(run: Run) -> str:
    """Returns what is equal for equal data: the digest of stream.csv, in which no rule is."""
    content = read_own_file(run.path, "stream.csv", read_bytes, run.unread)
    return run.header.stream_digest if content is None else hashlib.sha256(content).hexdigest()
