"""Which of several logs of one row and task counts: a complete one before a fragment, then the
latest.
"""

from collections.abc import Sequence

from nevis_stream.evaluation_cache.imported import LeftOut
from nevis_stream.evaluation_cache.importers.record import Log, named


def counting(
    logs: Sequence[tuple[str, Log]],
) -> tuple[list[tuple[str, Log]], list[LeftOut], list[str]]:
    """Returns the logs that count, those that do not, and lines for people about fragments that
    count.

    Args:
      logs: name of the row, and log.
    """
    by_cell: dict[tuple[str, str], list[Log]] = {}
    for row, log in logs:
        by_cell.setdefault((row, log.task), []).append(log)
    counted, fragments = [], []
    left_out: dict[str, list[str]] = {}
    for (row, task), group in by_cell.items():
        group.sort(key=lambda log: str(log.path))  # of equal dates the first path counts
        best = max(group, key=lambda log: (not _is_fragment(log, group), log.date))
        counted.append((row, best))
        for log in (log for log in group if log is not best):
            left_out.setdefault(_why_not(log, best), []).append(f"{log.state()} of {row} on {task}")
        if _is_fragment(best, group):
            fragments.append(f"{best.state()} of {row} on {task}")
    replaced = [LeftOut(reason, len(texts), named(texts)) for reason, texts in left_out.items()]
    remarks = [f"read, although not complete: {named(fragments)}"] if fragments else []
    return counted, replaced, remarks


def _why_not(log: Log, best: Log) -> str:
    """Returns why a log does not count beside the one that does."""
    if log.date != best.date or bool(log.fragment) != bool(best.fragment):
        return "logs of a model and task that has another log, which is complete or later"
    values, others = (
        {name: {k: v for k, (v, _) in by.items()} for name, by in each.values.items()}
        for each in (log, best)
    )
    if values == others:
        return "copies of logs that are read"
    return "logs with other values than those of the same date that are read"


def _is_fragment(log: Log, group: Sequence[Log]) -> bool:
    """Whether a log lacks samples: it says so; or it says nothing, and another log of the group has
    all of its samples and more.
    """
    if log.fragment is not None:
        return bool(log.fragment)
    return any(log.samples < other.samples for other in group)
