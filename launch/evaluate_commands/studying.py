"""`launch.evaluate study` and `metrics`: how well methods evaluate models that they have not
seen.
"""

import dataclasses
import hashlib
import io
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from absl.flags import FlagValues, IllegalFlagValueError
from rich.table import Table

from launch import entry
from launch.evaluate_commands.caches import caches_in, print_groups
from launch.evaluate_commands.crossing import crossed
from launch.terminal import console, progress_bars
from nevis_stream.dynamic_evaluation import (
    evaluation_summary,
    method_study,
    methods,
    study_summary,
)
from nevis_stream.dynamic_evaluation.additions import read_additions
from nevis_stream.dynamic_evaluation.cache.entries import repeated
from nevis_stream.dynamic_evaluation.cache.files import (
    ValueTable,
    features_remark,
    read_features,
    read_model_facts,
    read_values,
)
from nevis_stream.dynamic_evaluation.groups import kind_of_groups
from nevis_stream.dynamic_evaluation.intervals import FEWEST
from nevis_stream.dynamic_evaluation.known import InMemory
from nevis_stream.dynamic_evaluation.method_study import Matrix, StudyDesign
from nevis_stream.dynamic_evaluation.model_splits import GROUP, ModelSplit, hidden_samples
from nevis_stream.dynamic_evaluation.sample_groups import means_by_group
from nevis_stream.dynamic_evaluation.samples import SampleFacts, checked_weights
from nevis_stream.errors import BadInput, unknown
from nevis_stream.report import palette
from nevis_stream.report.evaluation_plots import budget_plot, styles_of
from nevis_stream.report.names import add_legend
from nevis_stream.storage import write_file

SETTINGS = "study.json"  # in the folder of a study: what it is a study of
MAIN = (
    "published",
    "sort_and_search",
    "random_mean",
    "stratified_mean",
    "single_order_floor",
    "quadrature",
    "recommended",
)
RECOMMENDED = MAIN[-1]
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
covered: share of 95% intervals that contain the true mean; – if the method gives none"""
_GROUPS = {
    "runs": "the models of a run, or of runs with copies of each other's models, are all known or"
    " all new",
    "groups": "models with the same `group` in their file, or copies of each other, are all known"
    " or all new",
}


def study(words: Sequence[str], values: FlagValues) -> None:
    """Tries methods on files of values; writes OUT/study.csv, and a figure for each file."""
    if values.config:
        _apply(Path(values.config), values)
    entry.use_compilation_cache()
    paths, folder = [Path(word) for word in words], Path(values.out)
    if (name := repeated([path.stem for path in paths])) is not None:
        raise BadInput(
            f"two files are named {name!r}, and results are stored by name: rename one of them."
        )
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"--out={folder}: is a file; a folder is expected.")
    matrices = []
    for path in paths:
        table = read_values(path, values.threshold, values.range, values.metrics)
        if values.features:
            features = read_features(values.features, table.samples)
            table = dataclasses.replace(
                table, features=features, remarks=(*table.remarks, *features_remark(features))
            )
        for remark in table.remarks:
            print(f"{path}: {remark}")
        matrices.append(_matrix(path.stem, table, values))
    design = _design(values, matrices)
    for matrix in matrices:
        known = _check(matrix, design)
        remarks = [*_fallbacks(matrix, design, known), *_left_out(matrix, design)]
        for remark in remarks:
            print(f"{matrix.name}: {remark}")
    for remark in _too_small(matrices, design):
        print(remark)
    _check_same_study(folder / SETTINGS, matrices, design)
    frame = _run(matrices, design, folder / "study.csv")
    summary = study_summary.summarise(matrices, design, frame)
    study_summary.write(folder, summary)
    for matrix in matrices:
        _write_figure(folder, matrix, design, frame[frame["matrix"] == matrix.name])
    split = summary["split"] + (f"; hidden data sets: {design.hide}" if design.hide else "")
    count = _count(len(matrices), "matrix", "matrices")
    _show(frame, f"means over {_seeds(design)} of {count}, {split}")
    print(summary["advice"])
    figures = ", ".join(f"{matrix.name}.png" for matrix in matrices)
    print(f"written to {folder}: study.csv, {figures} (and as pdf)")
    print(entry.as_typed(f"next: python -m launch.report {folder} --out=report"))


def _apply(path: Path, values: FlagValues) -> None:
    """Sets the flags that a toml file names, except those that the command has."""
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
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


def _write_figure(folder: Path, matrix: Matrix, design: StudyDesign, rows: pd.DataFrame) -> None:
    """Writes the curves of one matrix as png and pdf."""
    curves = {
        method: evaluation_summary.curve(part)
        for method, part in rows.groupby("method", sort=False)
    }
    summary = {
        "methods": curves,
        "samples": matrix.values.shape[1],
        "scores": matrix.values.dtype != np.uint8,
    }
    with palette.printed():
        figure = budget_plot(summary, styles_of(curves), wide=True)
        figure.axes[0].set_title(f"n = {_seeds(design)}", size=9, color=palette.ink())
        add_legend(figure)
        for form in ("png", "pdf"):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=form, dpi=160)
            write_file(folder / f"{matrix.name}.{form}", buffer.getvalue())


def _matrix(name: str, table: ValueTable, values: FlagValues) -> Matrix:
    facts, weights = table.facts, values.dataset_weights
    if weights:
        datasets = set() if facts.dataset is None else set(facts.dataset.tolist())
        facts = dataclasses.replace(facts, dataset_weights=checked_weights(weights, datasets))
    groups = None if table.groups is None else np.array(table.groups, str)
    columns = {}
    if values.model_facts:
        columns = read_model_facts(Path(values.model_facts), table.models)
        groups = columns.pop(GROUP, groups)
    return Matrix(name, table.values, groups, facts, columns)


def _check(matrix: Matrix, design: StudyDesign) -> int:
    """Returns how many models or groups of a matrix will be known; refuses a matrix that leaves
    nothing to study.
    """
    if min(design.budgets) > (n := matrix.values.shape[1]):
        raise BadInput(f"{matrix.name}: has {n} samples, fewer than the smallest of --budgets.")
    try:
        known, _ = design.model_split.divide(matrix.models, design.known, seed=0)
        if design.hide:
            dataset = None if matrix.facts is None else matrix.facts.dataset
            hidden_samples(dataset, design.hide, seed=0)
    except BadInput as error:
        raise BadInput(f"{matrix.name}: {error}") from None
    groups = design.model_split.keeps_groups and matrix.groups is not None
    return len(set(matrix.groups[known]) if groups else known)


def _fallbacks(matrix: Matrix, design: StudyDesign, known: int) -> list[str]:
    """Returns a line if methods cannot learn from so few known models or groups of models, and
    others are used in their place.
    """
    lacking = [name for name in design.methods if methods.get(name).fallback]
    if known >= FEWEST or not lacking:
        return []
    facts = matrix.facts or SampleFacts(matrix.values.shape[1])
    instead = methods.stratified(InMemory(matrix.values, None, facts)).name
    groups = design.model_split.keeps_groups and matrix.groups is not None
    kind = "known groups of models" if groups else "known models"
    return [
        f"{known} {kind}, fewer than {FEWEST}: instead of {', '.join(lacking)}, {instead} is used."
        " See --known and --model_split."
    ]


def _left_out(matrix: Matrix, design: StudyDesign) -> list[str]:
    """Returns lines that say what of a matrix is not studied: models without a place in the order,
    and, because of holes, samples and budgets.
    """
    lines, parts = [], method_study.measured(matrix, design)
    models, samples = (sorted({part[k] for part in parts}) for k in (0, 1))
    if not design.model_split.draws:
        there = int((matrix.models.column(design.model_split.name) != "").sum())
        if there < len(matrix.values):
            lines.append(
                f"{len(matrix.values) - there} of {len(matrix.values)} models have no"
                f" {design.model_split.name} and are left out."
            )
    if samples[0] < matrix.values.shape[1]:
        lines.append(
            f"only cells without holes can be asked, so errors are those of {_span(models)} new"
            f" models on the {_span(samples)} samples that all of them have, of"
            f" {matrix.values.shape[1]:,}."
        )
        if large := [budget for budget in design.budgets if budget > samples[0]]:
            lines.append(
                f"left out: budgets of {', '.join(map(str, large))}, above {samples[0]:,}."
            )
    return lines


def _span(numbers: Sequence[int]) -> str:
    return " to ".join(f"{number:,}" for number in dict.fromkeys((numbers[0], numbers[-1])))


def _seeds(design: StudyDesign) -> str:
    """Returns how many results are averaged, in words."""
    if design.model_split.draws:
        return _count(design.seeds, "split", "splits")
    return f"{_count(design.seeds, 'repetition', 'repetitions')} on one split"


def _too_small(matrices: Sequence[Matrix], design: StudyDesign) -> list[str]:
    """Returns a line for each method whose policy cannot be used with some of the budgets.

    Raises:
      BadInput: no method can be used with any budget.
    """
    remarks, usable = [], False
    for matrix in matrices:
        for name in design.methods:
            least = methods.get(name).policy.least(matrix.facts)
            small = [budget for budget in design.budgets if budget < least]
            usable |= len(small) < len(design.budgets)
            if small:
                remarks.append(
                    f"left out: {name} on {matrix.name} with a budget of"
                    f" {', '.join(map(str, small))}: at least {least} are needed, one sample of"
                    " each data set"
                )
    if not usable:
        raise BadInput(f"--budgets: {remarks[0].removeprefix('left out: ')}.")
    return remarks


def _check_same_study(path: Path, matrices: Sequence[Matrix], design: StudyDesign) -> None:
    """Records what a folder's study is about; refuses to continue a study of something else, whose
    rows would be taken for rows of this one.
    """
    settings = {"known": design.known, "matrices": {}}
    ways = {"model_split": str(design.model_split), "hide": design.hide}
    if path.is_file():
        try:
            settings |= json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, TypeError) as error:
            raise BadInput(
                f"{path}: cannot be read ({error}), so it does not say what was studied in this"
                " folder. Give another --out, or delete the folder."
            ) from None
    advice = "Give another --out, or delete it."
    if settings["known"] != design.known:
        raise BadInput(
            f"{path.parent}: already contains a study with --known={settings['known']}. {advice}"
        )
    for name, way in ways.items():
        if (earlier := settings.setdefault(name, way)) != way:
            raise BadInput(
                f"{path.parent}: already contains a study with --{name}={earlier}. {advice}"
            )
    for matrix in matrices:
        fingerprint = _fingerprint(matrix)
        if settings["matrices"].setdefault(matrix.name, fingerprint) != fingerprint:
            raise BadInput(
                f"{path.parent}: already contains a study of a different {matrix.name!r}. {advice}"
            )
    write_file(path, json.dumps(settings, indent=1, sort_keys=True).encode())


def _fingerprint(matrix: Matrix) -> str:
    groups = b"" if matrix.groups is None else "\n".join(matrix.groups).encode()
    content = repr(matrix.values.shape).encode() + matrix.values.tobytes() + groups
    if matrix.facts.features is not None:
        content += matrix.facts.features.tobytes()
    if matrix.facts.dataset is not None:
        content += repr((matrix.facts.dataset.tolist(), matrix.facts.dataset_weights)).encode()
    for name, column in sorted(matrix.columns.items()):
        content += repr((name, column.tolist())).encode()
    return hashlib.sha256(content).hexdigest()


def metrics(_: Sequence[str], values: FlagValues) -> None:
    """Tries methods on each cache of --cache, prints how well they do and the means of its data
    sets and groups of samples, and writes into the cache what a report shows.
    """
    entry.use_compilation_cache()
    for cache in caches_in(Path(values.cache)):
        read_additions(cache.directory)  # a damaged line is an error before the work, not after it
        matrix = evaluation_summary.studied_part(cache)
        design = _design(values, [matrix])
        path = cache.directory / "study.csv"
        for remark in _fallbacks(matrix, design, _check(matrix, design)):
            print(f"{cache.directory}: {remark}")
        path.unlink(missing_ok=True)  # the cache may have grown since
        frame = _run([matrix], design, path)
        summary = evaluation_summary.write(cache, matrix, frame, design.known)
        size = f"{summary['models']} models × {summary['samples']:,} samples"
        by = "models" if matrix.groups is None else f"whole {kind_of_groups(cache)}"
        splits = _count(design.seeds, "split", "splits")
        _show(
            frame,
            f"{cache.directory}: {size}; {design.known:.0%} of the {by} known, {splits}",
        )
        if matrix.groups is not None:
            print(f"{by}: {_GROUPS[kind_of_groups(cache)]}")
        print_groups(
            f"{cache.directory}: means of the models' values, in their own ranges",
            means_by_group(matrix.facts, matrix.values),
        )
    print(_LEGEND)
    print(entry.as_typed(f"next: python -m launch.report {values.cache} --out=report"))


def _design(values: FlagValues, matrices: Sequence[Matrix]) -> StudyDesign:
    """The methods are those of --methods and the pairs of --policies and --predictors; without
    them, the main ones that can read the matrices.
    """
    pairs, refused = crossed(values.policies, values.predictors, matrices)
    for reason in dict.fromkeys(refused):
        print(f"left out: {reason}")
    # only `study` has these flags
    split, hide = getattr(values, "model_split", ""), getattr(values, "hide", "")
    scores = any(matrix.values.dtype != np.uint8 for matrix in matrices)
    names = [*values.methods, *pairs] or [
        name for name in MAIN if methods.get(name).takes_scores or not scores
    ]
    _check_scores(names, matrices)
    names = tuple(dict.fromkeys(names))
    way = ModelSplit.parse(split)
    return StudyDesign(
        names, tuple(values.budgets), values.known, values.seeds, model_split=way, hide=hide
    )


def _check_scores(names: Sequence[str], matrices: Sequence[Matrix]) -> None:
    """Raises BadInput if a method is unknown, or takes outcomes only and a matrix has scores."""
    refused = [name for name in dict.fromkeys(names) if not methods.get(name).takes_scores]
    scored = [matrix.name for matrix in matrices if matrix.values.dtype != np.uint8]
    if refused and scored:
        every = methods.registry().items()
        valid = [name for name, method in every if method.takes_scores]
        predictors = [
            name for name, each in methods.predictor_registry().items() if each.takes_scores
        ]
        raise BadInput(
            f"{', '.join(scored)}: has real scores, but {', '.join(refused)} takes outcomes (0 or"
            f" 1) only. Methods that take scores: {', '.join(valid)}; or any policy with one of"
            f" the predictors {', '.join(predictors)}, for example random+mean."
        )


def _run(matrices: Sequence[Matrix], design: StudyDesign, path: Path) -> pd.DataFrame:
    """Computes the missing rows of a study, with a progress bar, and returns all of them."""
    most = {
        matrix.name: min(samples for _, samples in method_study.measured(matrix, design))
        for matrix in matrices
    }
    total = sum(
        design.seeds
        * len(design.methods)
        * sum(budget <= most[matrix.name] for budget in design.budgets)
        for matrix in matrices
    )
    done = len(method_study.read(path))
    with progress_bars() as bars:
        task = bars.add_task("study", total=total, completed=done)
        for row in method_study.run(matrices, design, path):
            bars.update(task, advance=1, description=f"study: {row['matrix']}, {row['method']}")
    frame = pd.DataFrame(method_study.read(path), columns=method_study.COLUMNS)
    names = [matrix.name for matrix in matrices]
    frame = frame[frame["matrix"].isin(names) & frame["method"].isin(design.methods)]
    for name in names:
        if not (frame["matrix"] == name).any():
            raise BadInput(
                f"{name}: no budget is small enough: too few samples are observed for all new"
                " models. Give smaller --budgets."
            )
    return frame


def _count(number: int, singular: str, plural: str) -> str:
    return f"{number} {singular if number == 1 else plural}"


def _show(frame: pd.DataFrame, title: str) -> None:
    table = Table(title=title)
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
    console().print(table)
