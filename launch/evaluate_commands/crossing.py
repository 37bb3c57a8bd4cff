"""Which methods a study tries: named ones, and policies crossed with predictors."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.method_study import Matrix
from nevis_stream.errors import BadInput, unknown
from nevis_stream.queries.samples import SampleFacts

ALL = "all"
# policies and predictors that are bounds or reproduce defects: `all` leaves them out
SPECIAL = ("everything", "published", "oracle_accuracy_prefix", "single_order_floor")


def cross(
    policies: Sequence[str], predictors: Sequence[str], matrices: Sequence[Matrix]
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
            method = methods.pair(text)
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
