"""The transfer matrix (NEVIS'22, Appendix J): what training from each earlier task's predictor
gains on each later task.

`launch.transfer_matrix` writes it as matrix.csv (one row a pair) and matrix.json (which tasks, in
which order).
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from nevis_stream.analysis.own_files import own_file
from nevis_stream.errors import BadInput

PAIRS, FACTS = "matrix.csv", "matrix.json"
_COLUMNS = ("source", "target", "error", "indep_error", "gain")


@dataclass(frozen=True)
class TransferMatrix:
    """One matrix.

    Attributes:
      path: its directory.
      facts: learner, budget, stream, stream_digest and seed of the Indep run; empty where nobody
        wrote them down.
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
        """The stream's name, or that of the directory where nobody wrote it down."""
        return str(self.facts.get("stream", self.path.name))

    @property
    def gains(self) -> pd.DataFrame:
        """Gains with a row a source and a column a target, both in stream order; NaN where there is
        none.
        """
        order = list(self.domains)
        table = self.pairs.pivot(index="source", columns="target", values="gain")
        rows, columns = (
            [task for task in order if task in set(found)] for found in (table.index, table.columns)
        )
        return table.reindex(index=rows, columns=columns)


def pair(source: str, target: str, before: float | None, after: float | None) -> dict[str, Any]:
    """Returns a row of the matrix from the target's error alone (`before`) and after transfer;
    None: undefined.

    `gain` is accuracy (or mAP) above that of Indep, `ratio` its ratio to it (NaN where that is 0).
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
      BadInput: a file can't be read, lacks a column, holds a pair twice, or has no pair.
    """
    try:
        pairs = pd.read_csv(own_file(path, PAIRS), dtype={"source": str, "target": str})
        missing = [column for column in _COLUMNS if column not in pairs]
        if missing:
            raise ValueError(f"lacks the columns {', '.join(missing)}")
        pairs = pairs[list(_COLUMNS)].astype(dict.fromkeys(_COLUMNS[2:], float))
        if pairs.empty:
            raise ValueError("has no pair")
        if pairs.duplicated(["source", "target"]).any():
            raise ValueError("holds a pair twice")
    except (OSError, ValueError) as error:
        raise BadInput(f"{path / PAIRS}: cannot be read as a transfer matrix ({error}).") from None
    met = list(dict.fromkeys([*pairs["source"], *pairs["target"]]))
    facts = _facts(path / FACTS)
    domains = {str(task["task_id"]): str(task["domain"]) for task in facts.pop("tasks", ())}
    return TransferMatrix(
        path, facts, domains if set(met) <= set(domains) else dict.fromkeys(met, "unstated"), pairs
    )


def _facts(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}  # a matrix of an earlier version: its order is that of its rows
    try:
        facts = json.loads(own_file(path.parent, path.name).read_text(encoding="utf-8"))
        _ = [(task["task_id"], task["domain"]) for task in facts["tasks"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{path}: cannot be read ({error!r}).") from None
    return facts


def best_sources(matrix: TransferMatrix) -> pd.DataFrame:
    """Returns one row a target in stream order: its best source and what that and the mean source
    gain.

    Columns: target, domain, sources (number that were tried), best_source, source_domain,
    best_gain, mean_gain, helped
    (number of sources that gain), indep_error. The best of many noisy gains is above what the
    source is worth.
    """
    rows = []
    for target, pairs in _each(matrix, "target"):
        best = pairs.loc[pairs["gain"].idxmax()] if pairs["gain"].notna().any() else None
        row = {
            "target": target,
            "domain": matrix.domains[target],
            "sources": int(pairs["gain"].notna().sum()),
        }
        row |= {"best_source": "" if best is None else best["source"]}
        row |= {"source_domain": "" if best is None else matrix.domains[best["source"]]}
        row |= {
            "best_gain": math.nan if best is None else best["gain"],
            "mean_gain": pairs["gain"].mean(),
        }
        rows.append(
            row
            | {
                "helped": int((pairs["gain"] > 0).sum()),
                "indep_error": pairs["indep_error"].iloc[0],
            }
        )
    return pd.DataFrame(rows)


def sources(matrix: TransferMatrix) -> pd.DataFrame:
    """Returns one row a source in stream order: domain, targets (number), mean_gain over them,
    helped, and best_target.
    """
    rows = []
    for source, pairs in _each(matrix, "source"):
        known = pairs[pairs["gain"].notna()]
        best = known.loc[known["gain"].idxmax(), "target"] if len(known) else ""
        row = {
            "source": source,
            "domain": matrix.domains[source],
            "targets": len(known),
            "mean_gain": known["gain"].mean(),
        }
        rows.append(row | {"helped": int((known["gain"] > 0).sum()), "best_target": best})
    return pd.DataFrame(rows)


def _each(matrix: TransferMatrix, column: str) -> list[tuple[str, pd.DataFrame]]:
    """Each task's pairs, in stream order."""
    groups = dict(iter(matrix.pairs.groupby(column)))
    return [(task, groups[task]) for task in matrix.domains if task in groups]
