"""The transfer matrix (NEVIS'22, Appendix J): what training from each earlier task's predictor
gains on each later task.

`launch.transfer_matrix` writes it as matrix.csv (one row for each pair) and matrix.json (the tasks
in their order, and facts of the runs).
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from nevis_stream.analysis.own_files import find_own_file
from nevis_stream.errors import BadInput
from nevis_stream.storage.reading import read_json
from nevis_stream.storage.tables import unquote

PAIRS, FACTS = "matrix.csv", "matrix.json"
_COLUMNS = ("source", "target", "error", "indep_error", "gain")


@dataclass(frozen=True)
class TransferMatrix:
    """One matrix.

    Attributes:
      path: its directory.
      facts: learner, budget, stream, stream_digest and seed of the indep run; empty if unrecorded.
      domains: of every task, in stream order.
      pairs: columns source, target, error (on the target after transfer), indep_error and gain
        (indep_error - error); NaN where an error is undefined. Pairs that have not been run are
        missing.
    """

    path: Path
    facts: dict[str, Any]
    domains: dict[str, str]
    pairs: pd.DataFrame

    @property
    def stream(self) -> str:
        """The stream's name, or the directory's if it is not recorded."""
        return str(self.facts.get("stream", self.path.name))

    @property
    def gains(self) -> pd.DataFrame:
        """Gains with a row for each source and a column for each target, both in stream order; NaN
        for pairs without a gain.
        """
        table = self.pairs.pivot(index="source", columns="target", values="gain")
        rows, columns = set(table.index), set(table.columns)
        return table.reindex(
            index=[task for task in self.domains if task in rows],
            columns=[task for task in self.domains if task in columns],
        )


def make_pair_row(
    source: str, target: str, before: float | None, after: float | None
) -> dict[str, Any]:
    """Returns a row of the matrix.

    Args:
      source, target: the tasks.
      before: the target's error when it is trained alone, by indep; None if undefined.
      after: its error after transfer from the source; None if undefined.

    Returns:
      Among the rest `gain`, the accuracy (or mAP) after transfer minus that of indep, and `ratio`,
      the first divided by the second (NaN if that is 0).
    """
    known = before is not None and after is not None
    gain = before - after if known else math.nan
    ratio = (1 - after) / (1 - before) if known and before < 1 else math.nan
    return {
        "source": source,
        "target": target,
        "error": after,
        "indep_error": before,
        "gain": gain,
        "ratio": ratio,
    }


def is_matrix(path: Path) -> bool:
    """Whether a directory is one that `launch.transfer_matrix` wrote."""
    return (path / PAIRS).is_file()


def read_matrix(path: Path) -> TransferMatrix:
    """Reads a directory's matrix, finished or not.

    Raises:
      BadInput: a file cannot be read, lacks a column, contains a pair twice, or has no pair.
    """
    try:
        pairs = pd.read_csv(find_own_file(path, PAIRS), dtype={"source": str, "target": str})
        missing = [column for column in _COLUMNS if column not in pairs]
        if missing:
            raise ValueError(f"has no column {' or '.join(missing)}")
        pairs = pairs[list(_COLUMNS)].astype(dict.fromkeys(_COLUMNS[2:], float))
        for column in _COLUMNS[:2]:
            pairs[column] = pairs[column].map(unquote, na_action="ignore")
        if pairs.empty:
            raise ValueError("has no pair")
        if pairs.duplicated(["source", "target"]).any():
            raise ValueError("contains a pair twice")
    except (OSError, ValueError) as error:
        raise BadInput(f"{path / PAIRS}: cannot be read as a transfer matrix ({error}).") from None
    facts = _facts(path / FACTS)
    domains = {str(task["task_id"]): str(task["domain"]) for task in facts.pop("tasks", ())}
    tasks = dict.fromkeys([*pairs["source"], *pairs["target"]], "unstated")
    return TransferMatrix(path, facts, domains if set(tasks) <= set(domains) else tasks, pairs)


def _facts(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}  # a matrix of an earlier version: its order is that of its rows
    try:
        facts = read_json(find_own_file(path.parent, path.name))
        _ = [(task["task_id"], task["domain"]) for task in facts["tasks"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{path}: cannot be read ({error!r}).") from None
    return facts


def tabulate_best_sources(matrix: TransferMatrix) -> pd.DataFrame:
    """Returns one row for each target in stream order: its best source, what that gains, and what
    sources gain on average.

    Columns: target, domain, sources (number whose gain is defined), best_source, source_domain,
    best_gain, mean_gain, helped (number of sources that gain), indep_error. The best of many noisy
    gains overstates what its source is worth.
    """
    rows = []
    for target, pairs in _group_pairs(matrix, "target"):
        gains = pairs["gain"]
        best = pairs.loc[gains.idxmax()] if gains.notna().any() else None
        rows.append(
            {
                "target": target,
                "domain": matrix.domains[target],
                "sources": int(gains.notna().sum()),
                "best_source": "" if best is None else best["source"],
                "source_domain": "" if best is None else matrix.domains[best["source"]],
                "best_gain": math.nan if best is None else best["gain"],
                "mean_gain": gains.mean(),
                "helped": int((gains > 0).sum()),
                "indep_error": pairs["indep_error"].iloc[0],
            }
        )
    return pd.DataFrame(rows)


def tabulate_sources(matrix: TransferMatrix) -> pd.DataFrame:
    """Returns one row for each source in stream order: domain, targets (number whose gain is
    defined), mean_gain over them, helped (number of targets that gain), and best_target.
    """
    rows = []
    for source, pairs in _group_pairs(matrix, "source"):
        known = pairs[pairs["gain"].notna()]
        best = known.loc[known["gain"].idxmax(), "target"] if len(known) else ""
        rows.append(
            {
                "source": source,
                "domain": matrix.domains[source],
                "targets": len(known),
                "mean_gain": known["gain"].mean(),
                "helped": int((known["gain"] > 0).sum()),
                "best_target": best,
            }
        )
    return pd.DataFrame(rows)


def _group_pairs(matrix: TransferMatrix, column: str) -> list[tuple[str, pd.DataFrame]]:
    """Each task's pairs, in stream order."""
    groups = dict(iter(matrix.pairs.groupby(column)))
    return [(task, groups[task]) for task in matrix.domains if task in groups]
