"""What is said and refused before `launch.evaluate study` and `metrics` compute anything, and which
methods a study tries.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.errors import BadInput, unknown
from nevis_stream.estimation.intervals import FEWEST
from nevis_stream.experiments.evaluation_studies import method_study
from nevis_stream.experiments.evaluation_studies.method_study import StudiedMatrix, StudyDesign
from nevis_stream.experiments.evaluation_studies.model_splits import hide_samples
from nevis_stream.queries.matrix import ArrayMatrix
from nevis_stream.queries.samples import SampleFacts


def list_remarks(matrix: StudiedMatrix, design: StudyDesign) -> list[str]:
    """Returns lines that say what of a study a matrix does not allow.

    Raises:
      BadInput: it leaves nothing to study.
    """
    if min(design.budgets) > (n := matrix.values.shape[1]):
        raise BadInput(f"{matrix.name}: has {n} samples, fewer than the smallest of --budgets.")
    try:
        known, _ = design.model_split.divide(matrix.models, design.known, seed=0)
        if design.hide:
            dataset = None if matrix.facts is None else matrix.facts.dataset
            hide_samples(dataset, design.hide, seed=0)
    except BadInput as error:
        raise BadInput(f"{matrix.name}: {error}") from None
    return [*_fallbacks(matrix, design, known), *_left_out(matrix, design)]


def _fallbacks(matrix: StudiedMatrix, design: StudyDesign, known: np.ndarray) -> list[str]:
    """Returns a line if methods cannot learn from so few known models or groups of models, and
    others are used in their place.
    """
    groups = design.model_split.choose_groups(matrix.models)
    count = len(known if groups is None else set(groups[known]))
    lacking = [name for name in design.methods if methods.get(name).fallback]
    if count >= FEWEST or not lacking:
        return []
    facts = matrix.facts or SampleFacts(matrix.values.shape[1])
    instead = methods.choose_stratified(ArrayMatrix(matrix.values, None, facts)).name
    kind = "known models" if groups is None else "known groups of models"
    return [
        f"{count} {kind}, fewer than {FEWEST}: instead of {', '.join(lacking)}, {instead} is used."
        " See --known and --model_split."
    ]


def _left_out(matrix: StudiedMatrix, design: StudyDesign) -> list[str]:
    """Returns lines that say what of a matrix is not studied: models without a place in the order,
    and, because of holes, samples and budgets.
    """
    lines, parts = [], method_study.count_evaluated(matrix, design)
    models, samples = (sorted({part[k] for part in parts}) for k in (0, 1))
    if not design.model_split.is_drawn:
        placed = int((matrix.models.find_column(design.model_split.name) != "").sum())
        if placed < len(matrix.values):
            lines.append(
                f"{len(matrix.values) - placed} of {len(matrix.values)} models have no"
                f" {design.model_split.name} and are left out."
            )
    if samples[0] < matrix.values.shape[1]:
        lines.append(
            f"only cells with a value can be asked, so errors are those of {_span(models)} new"
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


def list_too_small_budgets(matrices: Sequence[StudiedMatrix], design: StudyDesign) -> list[str]:
    """Returns a line for each method whose policy cannot be used with some of the budgets.

    Raises:
      BadInput: no method can be used with any budget.
    """
    remarks, usable = [], False
    for matrix in matrices:
        for name in design.methods:
            least = methods.get(name).policy.find_least_budget(matrix.facts)
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


def list_settings(matrices: Sequence[StudiedMatrix], design: StudyDesign) -> dict[str, Any]:
    """Returns what identifies a study: rows of another one would be taken for rows of this one.
    Further matrices, methods, budgets and splits may be added to a study.
    """
    return {
        "known": design.known,
        "model_split": str(design.model_split),
        "hide": design.hide,
        "matrices": {matrix.name: _fingerprint(matrix) for matrix in matrices},
    }


def _fingerprint(matrix: StudiedMatrix) -> str:
    groups = b"" if matrix.groups is None else "\n".join(matrix.groups).encode()
    content = repr(matrix.values.shape).encode() + matrix.values.tobytes() + groups
    if matrix.facts.features is not None:
        content += matrix.facts.features.tobytes()
    if matrix.facts.dataset is not None:
        content += repr((matrix.facts.dataset.tolist(), matrix.facts.dataset_weights)).encode()
    for name, column in sorted(matrix.columns.items()):
        content += repr((name, column.tolist())).encode()
    return hashlib.sha256(content).hexdigest()


def check_score_methods(names: Sequence[str], matrices: Sequence[StudiedMatrix]) -> None:
    """Raises BadInput if a method is unknown, or takes outcomes only and a matrix has scores."""
    refused = [name for name in dict.fromkeys(names) if not methods.get(name).takes_scores]
    scored = [matrix.name for matrix in matrices if matrix.values.dtype != np.uint8]
    if refused and scored:
        every = methods.list_methods().items()
        valid = [name for name, method in every if method.takes_scores]
        predictors = [name for name, each in methods.PREDICTORS.items() if each.takes_scores]
        raise BadInput(
            f"{', '.join(scored)}: has real scores, but {', '.join(refused)} takes outcomes (0 or"
            f" 1) only. Methods that take scores: {', '.join(valid)}; or any policy with one of"
            f" the predictors {', '.join(predictors)}, for example random+mean."
        )


ALL = "all"
# policies and predictors that are bounds or reproduce defects: `all` leaves them out
SPECIAL = ("everything", "published", "oracle_accuracy_prefix", "single_order_floor")


def cross(
    policies: Sequence[str], predictors: Sequence[str], matrices: Sequence[StudiedMatrix]
) -> tuple[list[str], list[str]]:
    """Returns the pairs POLICY+PREDICTOR that can be tried on all matrices, and a reason for each
    that cannot.

    Args:
      policies, predictors: names, or "all".
      matrices: what is studied.

    Raises:
      BadInput: a name is unknown, one of both is missing, or no pair can be tried.
    """
    if not policies and not predictors:
        return [], []
    if not policies or not predictors:
        present, missing = ("--policies", "--predictors")[:: 1 if policies else -1]
        raise BadInput(f"{present} needs {missing} too: each policy is tried with each predictor.")
    rows = _names("policy", policies, methods.POLICIES)
    columns = _names("predictor", predictors, methods.PREDICTORS)
    pairs, refused = [], []
    for text in (f"{policy}+{predictor}" for policy in rows for predictor in columns):
        try:
            method = methods.make_pair(text)
            for matrix in matrices:
                method.policy.check(matrix.facts or SampleFacts(matrix.values.shape[1]))
                if matrix.values.dtype != np.uint8 and not method.takes_scores:
                    raise BadInput(f"{text}: takes outcomes only, and {matrix.name} has scores.")
        except BadInput as error:
            refused.append(str(error))
        else:
            pairs.append(text)
    if not pairs:
        raise BadInput(f"no pair of these can be tried: {refused[0]}")
    return pairs, refused


def _names(kind: str, names: Sequence[str], registry: Mapping[str, Any]) -> list[str]:
    if list(names) == [ALL]:
        return [name for name in registry if name not in SPECIAL]
    for name in names:
        if name not in registry:
            raise BadInput(unknown(kind, name, [*registry, ALL]))
    return list(dict.fromkeys(names))
