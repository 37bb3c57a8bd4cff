"""`launch.evaluate study` and `metrics`: how well methods evaluate models that they have not
seen.
"""

import dataclasses
import io
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from absl.flags import FlagValues, IllegalFlagValueError
from rich.table import Table

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.estimates import compute_group_means
from nevis_stream.errors import BadInput, plural, unknown
from nevis_stream.evaluation_cache.additions import read_additions
from nevis_stream.evaluation_cache.facts import (
    find_repeat,
    name_groups,
    read_features,
)
from nevis_stream.evaluation_cache.files import ValueTable, read_values
from nevis_stream.evaluation_cache.records import Imported
from nevis_stream.experiments.commands import study_checks
from nevis_stream.experiments.commands.study_checks import cross
from nevis_stream.experiments.evaluation_studies import (
    evaluation_summary,
    method_study,
    study_summary,
)
from nevis_stream.experiments.evaluation_studies.method_study import StudiedMatrix, StudyDesign
from nevis_stream.experiments.evaluation_studies.model_splits import (
    GROUP,
    ModelSplit,
    read_model_facts,
)
from nevis_stream.experiments.evaluation_studies.plots import plot_budgets
from nevis_stream.experiments.study_record import StudyRecord
from nevis_stream.launch import entry
from nevis_stream.launch.command_line import make_console, print_groups, print_import
from nevis_stream.launch.evaluate_commands.flags import get_reading_choices, open_caches
from nevis_stream.queries.samples import check_one_mean, check_weights
from nevis_stream.report import palette
from nevis_stream.report.names import add_legend
from nevis_stream.report.styles import assign_styles
from nevis_stream.storage import write_file
from nevis_stream.storage.reading import read_bytes
from nevis_stream.storage.tables import name_files
from nevis_stream.terminal import make_progress_bars

RECORD, TABLE = "study.jsonl", "study.csv"  # in the folder of a study, with its study.json
MAIN = (
    "published",
    "sort_and_search",
    "random_mean",
    "stratified_mean",
    "single_order_floor",
    "adaptive_testing",
    "quadrature",
    "recommended",
)
_SHOWN = {
    "mae": "MAE",
    "accuracy_error": "error of the mean",
    "spearman": "Spearman",
    "kendall": "Kendall",
    "coverage95": "covered",
}
_LEGEND = """\
MAE: mean absolute error of all values of a new model, observed ones counting 0
error of the mean: absolute error of a new model's estimated mean
Spearman, Kendall: rank correlation of the new models' estimated means with the true ones
covered: fraction of 95% intervals that contain the true mean; – if the method gives none"""
_GROUPS = {
    "runs": "the models of a run, or of runs with copies of each other's models, are all known or"
    " all new",
    "groups": "models with the same `group` in their file, or copies of each other, are all known"
    " or all new",
}

_PARTS = (
    "its {} data sets differ in direction or range, so that there is no mean of all: the methods"
    " are measured on each of them"
)


def run_study(words: Sequence[str], values: FlagValues) -> None:
    """Tries methods on files of values; writes OUT/study.csv, and a figure for each file."""
    if values.config:
        _apply(Path(values.config), values)
    entry.use_compilation_cache()
    paths, folder = [Path(word) for word in words], Path(values.out)
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"--out={folder}: is a file; a folder is expected.")
    matrices = []
    for path in paths:
        table = read_values(path, values.threshold, **get_reading_choices(values))
        if values.features:
            features, lines = read_features(values.features, table.samples)
            remarks = (*table.remarks, *lines)
            table = dataclasses.replace(table, features=features, remarks=remarks)
        print_import(str(path), Imported(path.name, table.remarks, table.left_out))
        parts = _matrix(path.stem, table, values).parts
        if len(parts) > 1:
            print(f"{path}: {_PARTS.format(len(parts))}")
        matrices += parts
    if (name := find_repeat([matrix.name for matrix in matrices])) is not None:
        raise BadInput(
            f"two files are named {name!r}, or one and a data set of another. Results are stored by"
            " name: rename one of them."
        )
    design = _design(values, matrices)
    for matrix in matrices:
        for remark in study_checks.list_remarks(matrix, design):
            print(f"{matrix.name}: {remark}")
    for remark in study_checks.list_too_small_budgets(matrices, design):
        print(remark)
    record = method_study.open_record(folder / RECORD, study_checks.list_settings(matrices, design))
    frame = _run(matrices, design, record, folder / TABLE)
    summary = study_summary.summarise(matrices, design, frame)
    study_summary.write(folder, summary)
    files = name_files(matrix.name for matrix in matrices)
    for matrix in matrices:
        rows = frame[frame["matrix"] == matrix.name]
        _write_figure(folder / files[matrix.name], matrix, design, rows)
    split = summary["split"] + (f"; hidden data sets: {design.hide}" if design.hide else "")
    count = "1 matrix" if len(matrices) == 1 else f"{len(matrices)} matrices"
    _show(frame, f"means over {_seeds(design)} of {count}, {split}")
    print(summary["advice"])
    figures = ", ".join(f"{file}.png" for file in files.values())
    print(f"written to {folder}: study.csv, {figures} (and as pdf)")
    print(entry.as_typed(f"next: python -m launch.report {folder} --out=report"))


def _apply(path: Path, values: FlagValues) -> None:
    """Sets the flags that a toml file names, except those that the command has."""
    try:
        settings = tomllib.loads(read_bytes(path).decode())
    except FileNotFoundError:
        raise BadInput(f"--config={path}: no such file.") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"--config={path}: cannot be read as toml ({error}).") from None
    for name, value in settings.items():
        valid = [flag for flag in values if flag != "config"]
        if name not in valid:
            raise BadInput(f"--config={path}: {unknown('flag', name, valid)}")
        if values[name].present:
            continue
        flag, words = values[name], value if isinstance(value, list) else [value]
        if any(isinstance(word, bool) for word in words) and flag.flag_type() != "bool":
            raise BadInput(f"--config={path}: {name} = {str(value).lower()}: not true or false.")
        text = ",".join(map(str, words))
        try:
            values[name].parse(text)
        except IllegalFlagValueError as error:
            raise BadInput(f"--config={path}: {error}") from None


def _write_figure(
    beginning: Path, matrix: StudiedMatrix, design: StudyDesign, rows: pd.DataFrame
) -> None:
    """Writes the curves of one matrix as png and pdf, whose paths begin with `beginning`."""
    curves = {
        method: evaluation_summary.summarise_method(part)
        for method, part in rows.groupby("method", sort=False)
    }
    summary = {
        "methods": curves,
        "samples": matrix.values.shape[1],
        "scores": matrix.values.dtype != np.uint8,
    }
    with palette.use_print_colours():
        figure = plot_budgets(summary, assign_styles(curves))
        figure.axes[0].set_title(f"n = {_seeds(design)}", size=9, color=palette.ink())
        add_legend(figure)
        for form, metadata in (("png", {}), ("pdf", {"CreationDate": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=form, dpi=160, metadata=metadata)
            write_file(beginning.with_name(f"{beginning.name}.{form}"), buffer.getvalue())


def _matrix(name: str, table: ValueTable, values: FlagValues) -> StudiedMatrix:
    facts, weights = table.facts, values.dataset_weights
    if weights:
        datasets = Counter([] if facts.dataset is None else facts.dataset.tolist())
        check_one_mean(facts)
        facts = dataclasses.replace(facts, dataset_weights=check_weights(weights, datasets))
    groups = None if table.groups is None else np.array(table.groups, str)
    columns = {}
    if values.model_facts:
        columns = read_model_facts(Path(values.model_facts), table.models)
        groups = columns.pop(GROUP, groups)
    return StudiedMatrix(name, table.values, groups, facts, columns)


def _seeds(design: StudyDesign) -> str:
    """Returns how many results are averaged, in words."""
    if design.model_split.is_drawn:
        return plural(design.seeds, "split")
    return f"{plural(design.seeds, 'repetition')} on one split"


def measure_methods(_: Sequence[str], values: FlagValues) -> None:
    """Tries methods on each cache of --cache, prints how well they do and the means of its data
    sets and groups of samples, and writes into the cache what a report shows.
    """
    entry.use_compilation_cache()
    left_out: list[evaluation_summary.TooSmall] = []
    caches = open_caches(Path(values.cache))
    for cache in caches:
        read_additions(cache.directory)  # a damaged line is an error before the work, not after it
        try:
            matrix = evaluation_summary.find_studied_part(cache)
        except evaluation_summary.TooSmall as error:
            left_out.append(error)
            if len(left_out) == len(caches):
                raise
            print(f"left out: {error}")
            continue
        parts = matrix.parts
        if len(parts) > 1:
            print(f"{cache.directory}: {_PARTS.format(len(parts))}")
        design = _design(values, parts)
        for remark in (line for each in parts for line in study_checks.list_remarks(each, design)):
            print(f"{cache.directory}: {remark}")
        for name in (RECORD, TABLE):  # the cache may have grown since
            (cache.directory / name).unlink(missing_ok=True)
        record = method_study.open_record(cache.directory / RECORD)
        frame = _run(parts, design, record, cache.directory / TABLE)
        if len(parts) > 1:
            frame["method"] += " on " + frame["matrix"].str.removeprefix(f"{matrix.name}-")
        summary = evaluation_summary.write(cache, matrix, frame, design.known)
        size = f"{summary['models']} models × {summary['samples']:,} samples"
        by = "models" if matrix.groups is None else f"whole {name_groups(cache)}"
        splits = plural(design.seeds, "split")
        _show(
            frame,
            f"{cache.directory}: {size}; {design.known:.0%} of the {by} known, {splits}",
        )
        if matrix.groups is not None:
            print(f"{by}: {_GROUPS[name_groups(cache)]}")
        print_groups(
            f"{cache.directory}: means of the models' values, in their own ranges",
            compute_group_means(matrix.facts, matrix.values),
        )
    print(_LEGEND)
    print(entry.as_typed(f"next: python -m launch.report {values.cache} --out=report"))


def _design(values: FlagValues, matrices: Sequence[StudiedMatrix]) -> StudyDesign:
    """Returns a study's design, with the methods of --methods and the pairs of --policies and
    --predictors; without them, with the main methods that can read the matrices.
    """
    pairs, refused = cross(values.policies, values.predictors, matrices)
    for reason in dict.fromkeys(refused):
        print(f"left out: {reason}")
    # only `study` has these flags
    split, hide = getattr(values, "model_split", ""), getattr(values, "hide", "")
    scores = any(matrix.values.dtype != np.uint8 for matrix in matrices)
    names = [*values.methods, *pairs] or [
        name for name in MAIN if methods.get(name).takes_scores or not scores
    ]
    study_checks.check_score_methods(names, matrices)
    names = tuple(dict.fromkeys(names))
    way = ModelSplit.parse(split)
    return StudyDesign(
        names, tuple(values.budgets), values.known, values.seeds, model_split=way, hide=hide
    )


def _run(
    matrices: Sequence[StudiedMatrix], design: StudyDesign, record: StudyRecord, table: Path
) -> pd.DataFrame:
    """Computes what a study lacks, with a progress bar; writes the table and returns it."""
    most = {
        matrix.name: min(samples for _, samples in method_study.count_evaluated(matrix, design))
        for matrix in matrices
    }
    total = sum(
        design.seeds
        * len(design.methods)
        * sum(budget <= most[matrix.name] for budget in design.budgets)
        for matrix in matrices
    )
    with make_progress_bars() as bars:
        task = bars.add_task("study", total=total, completed=len(record.rows()))
        for row in method_study.run(matrices, design, record):
            bars.update(task, advance=1, description=f"study: {row['matrix']}, {row['method']}")
    method_study.write_table(table, record)
    frame = pd.DataFrame(method_study.read(record), columns=method_study.COLUMNS)
    names = [matrix.name for matrix in matrices]
    frame = frame[frame["matrix"].isin(names) & frame["method"].isin(design.methods)]
    for name in names:
        if not (frame["matrix"] == name).any():
            raise BadInput(
                f"{name}: no budget is small enough: too few samples are observed for all new"
                " models. Give smaller --budgets."
            )
    return frame


def _show(frame: pd.DataFrame, title: str) -> None:
    names = dict.fromkeys(name.split(" on ")[0] for name in frame["method"])
    bounds = ", ".join(name for name in names if methods.get(name).is_bound)
    caption = f"{bounds}: a bound, computed from every value of the new models" if bounds else None
    table = Table(title=title, caption=caption)
    table.add_column("method")
    for column in ("budget", "matrices", *_SHOWN.values()):
        table.add_column(column, justify="right")
    means = (
        frame.groupby(["method", "budget", "matrix"], sort=False)[list(_SHOWN)].mean().reset_index()
    )
    for method, of_method in means.groupby("method", sort=False):
        # a matrix has no row for a budget above its number of samples
        for budget, rows in of_method.groupby("budget"):
            values = (
                "–" if pd.isna(value) else f"{value:.4f}" for value in rows[list(_SHOWN)].mean()
            )
            table.add_row(method, str(budget), str(len(rows)), *values)
    make_console().print(table)
