"""`launch.evaluate study` and `metrics`: how well methods evaluate models that they have
not seen.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.table import Table

from launch.data_commands.terminal import console, progress_bars
from launch.evaluate_commands.terminal import caches_in
from nevis_stream.dynamic_evaluation import methods, summary
from nevis_stream.dynamic_evaluation import study as studies
from nevis_stream.dynamic_evaluation.additions import read_additions
from nevis_stream.dynamic_evaluation.cache.entries import repeated
from nevis_stream.dynamic_evaluation.cache.files import read_values
from nevis_stream.dynamic_evaluation.groups import groups_of
from nevis_stream.dynamic_evaluation.intervals import FEWEST
from nevis_stream.dynamic_evaluation.study import Matrix, Protocol
from nevis_stream.errors import BadInput
from nevis_stream.report import palette
from nevis_stream.report.evaluation_plots import budget_plot, styles_of
from nevis_stream.storage import write_file

SETTINGS = "study.json"  # in a study's folder: what it is of
MAIN = (
    "published",
    "sort_and_search",
    "random_mean",
    "stratified_mean",
    "single_order_floor",
    "recommended",
)
RECOMMENDED = MAIN[-1]
_SHOWN = {
    "mae": "MAE",
    "accuracy_error": "accuracy error",
    "spearman": "Spearman",
    "kendall": "Kendall",
}
_SHOWN["coverage95"] = "covered"
_FEWEST_GROUPS = 3  # fewer cannot be divided into known and new ones more than one way or two


def study(paths: Sequence[Path], what: dict[str, Any], out: str | None, threshold: float) -> None:
    """Tries methods on files of outcomes; writes OUT/study.csv, and a figure a file."""
    protocol = _protocol(what)
    if (twice := repeated([path.stem for path in paths])) is not None:
        raise BadInput(
            f"two of the files are called {twice!r}, and results are told by that name: rename one."
        )
    found = [(path, read_values(path, threshold)) for path in paths]
    for path, outcomes in found:
        for remark in outcomes.remarks:
            print(f"{path}: {remark}")
    matrices = [
        Matrix(path.stem, outcomes.values, _array(outcomes.groups)) for path, outcomes in found
    ]
    for matrix in matrices:
        _check(matrix, protocol)
    folder = Path(out or "study")
    _same_study(folder / SETTINGS, matrices, protocol)
    frame = _run(matrices, protocol, folder / "study.csv")
    for name, rows in frame.groupby("matrix", sort=False):
        curves = {
            method: summary.curve(part) for method, part in rows.groupby("method", sort=False)
        }
        samples = next(m.outcomes.shape[1] for m in matrices if m.name == name)
        about = {"methods": curves, "samples": samples, "seeds": protocol.seeds}
        with palette.printed():
            figure = budget_plot(about, styles_of(curves), wide=True, legend=True)
            for form in ("png", "pdf"):
                _save(figure, folder / f"{name}.{form}")
    _show(
        frame,
        f"means over {protocol.seeds} splits of {len(matrices)} matrices, {protocol.known:.0%} of"
        " the models known",
    )
    print(f"written: {folder / 'study.csv'}, and a figure for each matrix")


def _check(matrix: Matrix, protocol: Protocol) -> int:
    """Returns how many models or groups of a matrix will be known; refuses what would leave nothing
    to study.
    """
    if min(protocol.budgets) > (n := matrix.outcomes.shape[1]):
        raise BadInput(f"{matrix.name}: has {n} samples, fewer than the least of --budgets.")
    try:
        known, _ = studies.split(len(matrix.outcomes), matrix.groups, protocol.known, seed=0)
    except BadInput as error:
        raise BadInput(f"{matrix.name}: {error}") from None
    return len(known if matrix.groups is None else set(matrix.groups[known]))


def _same_study(path: Path, matrices: Sequence[Matrix], protocol: Protocol) -> None:
    """Writes down what a folder's study is of, and refuses to go on with another: its rows would be
    taken for this one's.
    """
    old = (
        json.loads(path.read_text(encoding="utf-8"))
        if path.is_file()
        else {"known": protocol.known, "matrices": {}}
    )
    if old["known"] != protocol.known:
        raise BadInput(
            f"{path.parent}: holds a study with --known={old['known']}. Give another --out, or"
            " delete it."
        )
    new = {matrix.name: _fingerprint(matrix) for matrix in matrices}
    for name, value in new.items():
        if old["matrices"].get(name, value) != value:
            raise BadInput(
                f"{path.parent}: holds a study of another {name!r}. Give another --out, or"
                " delete it."
            )
    about = {"known": protocol.known, "matrices": old["matrices"] | new}
    write_file(path, json.dumps(about, indent=1, sort_keys=True).encode())


def _fingerprint(matrix: Matrix) -> str:
    groups = b"" if matrix.groups is None else "\n".join(matrix.groups).encode()
    return hashlib.sha256(
        repr(matrix.outcomes.shape).encode() + matrix.outcomes.tobytes() + groups
    ).hexdigest()


def metrics(directory: Path, what: dict[str, Any]) -> None:
    """Tries methods on a cache (or each of those in a folder) and leaves there what a report shows
    of it.
    """
    protocol = _protocol(what)
    for cache in caches_in(directory):
        read_additions(cache.directory)  # a damaged line is told before the work, not after it
        outcomes, models, _ = summary.complete_part(cache)
        groups = groups_of(cache, models, outcomes)
        groups = groups if groups and len(set(groups)) >= _FEWEST_GROUPS else None
        path = cache.directory / "study.csv"
        matrix = Matrix(cache.directory.name, outcomes, _array(groups))
        known = _check(matrix, protocol)
        if RECOMMENDED in protocol.methods and known < FEWEST:
            kind = "runs" if groups else "models"
            print(
                f"{cache.directory}: of {known} known {kind} recommended is the stratified mean;"
                " see --known."
            )
        path.unlink(missing_ok=True)  # the cache may have grown since
        frame = _run([matrix], protocol, path)
        written = summary.write(cache, frame, protocol.known, matrix.groups)
        size = f"{written['models']} models × {written['samples']:,} samples"
        by = "whole runs" if groups else "models"
        _show(
            frame,
            f"{cache.directory}: {size}; {protocol.known:.0%} of the {by} known, {protocol.seeds}"
            " splits",
        )
    print(f"next: python -m launch.report RUNS {directory} --out=report")


def _array(groups: Sequence[str] | None) -> np.ndarray | None:
    return None if groups is None else np.array(groups, str)


def _protocol(what: dict[str, Any]) -> Protocol:
    names = what["methods"] or MAIN
    for name in names:
        methods.get(name)
    return Protocol(tuple(names), tuple(what["budgets"]), what["known"], what["seeds"])


def _run(matrices: Sequence[Matrix], protocol: Protocol, path: Path) -> pd.DataFrame:
    """Runs what is missing of a study, with a bar, and returns its rows."""
    total = sum(
        protocol.seeds
        * len(protocol.methods)
        * sum(budget <= matrix.outcomes.shape[1] for budget in protocol.budgets)
        for matrix in matrices
    )
    there = len(studies.read(path))
    with progress_bars() as bars:
        task = bars.add_task("study", total=total, completed=there)
        for row in studies.run(matrices, protocol, path):
            bars.update(task, advance=1, description=f"study: {row['matrix']}, {row['method']}")
    frame = pd.DataFrame(studies.read(path))
    names = [matrix.name for matrix in matrices]
    return frame[frame["matrix"].isin(names) & frame["method"].isin(protocol.methods)]


def _show(frame: pd.DataFrame, title: str) -> None:
    table = Table(title=title)
    table.add_column("method")
    for column in ("budget", "matrices", *_SHOWN.values()):
        table.add_column(column, justify="right")
    means = (
        frame.groupby(["method", "budget", "matrix"], sort=False)[list(_SHOWN)].mean().reset_index()
    )
    for method, of in means.groupby("method", sort=False):
        for budget, rows in of.groupby("budget"):  # a budget above a matrix's n has no row of it
            values = (
                "–" if pd.isna(value) else f"{value:.4f}" for value in rows[list(_SHOWN)].mean()
            )
            table.add_row(method, str(budget), str(len(rows)), *values)
    console().print(table)


def _save(figure, path: Path) -> None:
    import io

    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:], dpi=160)
    write_file(path, buffer.getvalue())
