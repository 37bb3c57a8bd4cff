"""A random forest on features, retrained on the labels as they come."""

import warnings
from typing import TYPE_CHECKING

import numpy as np

from nevis_stream.active_testing.surrogate import SurrogateBuilder, SurrogateData, calibrate
from nevis_stream.active_testing.testing import EnsemblePredictions, Surrogate
from nevis_stream.array_types import Float, Int
from nevis_stream.queries.oracle import Cost, Responses
from nevis_stream.seeds import seed_for

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestClassifier

TREES, MEMBERS = 100, 10
_SMOOTHING = 0.01  # added to each class, since leaves with one sample are certain
_BLOCK = 20_000  # samples


class Forest(SurrogateBuilder):
    """A random forest of 100 trees; a member is the mean of ten trees.

    Without training examples and before the first label it is the tested model. FLOPs of trees are
    not counted.
    """

    about = "a random forest on features, retrained on the labels as they come, calibrated"
    needs = ("features",)

    def build(self, data: SurrogateData, seed: int) -> Surrogate:
        """Returns the surrogate."""

        def surrogate(answers: Responses) -> EnsemblePredictions:
            inputs, labels, _ = data.learned_from("features", answers)
            if not len(labels):
                return EnsemblePredictions(np.asarray(data.predictions)[None])
            forest = _fit(inputs, labels, seed)
            members = _predict_members(forest, data.features, data.shape[1])
            known = data.calibration
            if known is not None and known.features is not None:
                held_out = _predict_members(forest, known.features, members.shape[2])
                members = calibrate(members, held_out, known.labels)
            else:
                out_of_bag = np.nan_to_num(forest.oob_decision_function_, nan=0.0)
                seen = np.flatnonzero(out_of_bag.sum(axis=1) > 0)
                held_out = _add_absent_classes(out_of_bag[seen], forest.classes_, members.shape[2])[
                    None
                ]
                members = calibrate(members, held_out, labels[seen])
            return EnsemblePredictions(members, Cost(uncounted=frozenset({"random forest"})))

        return surrogate


def _fit(
    inputs: Float[np.ndarray, "examples features"], labels: Int[np.ndarray, " examples"], seed: int
) -> "RandomForestClassifier":
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(
        TREES, random_state=seed_for(seed, "forest") % 2**32, oob_score=True, n_jobs=1
    )
    with warnings.catch_warnings():  # a sample that every tree was trained on
        warnings.simplefilter("ignore")
        return forest.fit(inputs, labels)


def _predict_members(
    forest: "RandomForestClassifier", features: Float[np.ndarray, "samples features"], classes: int
) -> Float[np.ndarray, "members samples classes"]:
    members = np.zeros((MEMBERS, len(features), classes), np.float32)
    for start in range(0, len(features), _BLOCK):
        part = np.asarray(features[start : start + _BLOCK], np.float32)
        for number, tree in enumerate(forest.estimators_):
            fraction = tree.predict_proba(part) * (MEMBERS / TREES)
            members[number % MEMBERS, start : start + _BLOCK, forest.classes_] += fraction.T
    return _smooth(members)


def _add_absent_classes(
    probabilities: Float[np.ndarray, "samples present"],
    present: Int[np.ndarray, " present"],
    classes: int,
) -> Float[np.ndarray, "samples classes"]:
    every = np.zeros((len(probabilities), classes))
    every[:, present] = probabilities
    return _smooth(every)


def _smooth(probabilities: Float[np.ndarray, "... classes"]) -> Float[np.ndarray, "... classes"]:
    probabilities = probabilities + _SMOOTHING
    return probabilities / probabilities.sum(axis=-1, keepdims=True)
