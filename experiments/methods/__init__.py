"""Policies, predictors and methods of papers, bounds, with which others are compared, and the
guarded methods that were the default once: tables that `dynamic_evaluation.methods` finds by entry
points.
"""

from collections.abc import Mapping

from nevis_stream.dynamic_evaluation.method import ScorePredictor
from nevis_stream.dynamic_evaluation.methods import Pair, make_pair
from nevis_stream.dynamic_evaluation.policy import Policy
from nevis_stream.experiments.methods import anchors
from nevis_stream.experiments.methods.anchor_weights import AnchorWeights
from nevis_stream.experiments.methods.anchors import Clusters, Combinatorial, SparseAnchors
from nevis_stream.experiments.methods.bounds import (
    Everything,
    OracleAccuracyPrefix,
    PublishedPolicy,
    PublishedPredictor,
    SingleOrderFloor,
)
from nevis_stream.experiments.methods.gp_irt import GeneralizedItemResponse
from nevis_stream.experiments.methods.guarded import GuardedPredictor
from nevis_stream.experiments.methods.nearest import Nearest
from nevis_stream.experiments.methods.neural_process.prediction import NeuralProcess
from nevis_stream.experiments.methods.part_first import Guard, PartFirst
from nevis_stream.experiments.methods.reinforcement import Reinforcement

_GUARDED = {
    "recommended": make_pair("error+combination"),
    "adaptive_testing": make_pair("fisher+irt_gaussian"),
    "quadrature": make_pair("quadrature_local+combination"),
    "linear_gaussian": make_pair("quadrature_local+linear_gaussian"),
}

POLICIES: Mapping[str, Policy] = {
    "clusters_features": Clusters(
        anchors.describe_by_features,
        "one sample from each of K clusters; samples are clustered by their features",
    ),
    "clusters_items": Clusters(
        anchors.describe_by_items,
        "one sample from each of K clusters; samples are clustered by item response parameters",
    ),
    "clusters_values": Clusters(
        anchors.describe_by_values,
        "one sample from each of K clusters; samples are clustered by the known models' values",
    ),
    "combinatorial": Combinatorial(),
    "published": PublishedPolicy(),
    "reinforcement": Reinforcement(
        True, "proximal policy optimisation on the known models, rewarded for smaller errors"
    ),
    "reinforcement_terminal": Reinforcement(
        False, "as reinforcement, but rewarded at the end of an episode alone"
    ),
    "sparse_anchors": SparseAnchors(),
    "everything": Everything(),
} | {f"guard_{name}": Guard(method.policy) for name, method in _GUARDED.items()}

PREDICTORS: Mapping[str, ScorePredictor] = {
    "anchor_weights": AnchorWeights(),
    "gp_irt": GeneralizedItemResponse(),
    "nearest": Nearest(),
    "neural_process": NeuralProcess(),
    "published": PublishedPredictor(),
    "oracle_accuracy_prefix": OracleAccuracyPrefix(),
    "single_order_floor": SingleOrderFloor(),
} | {
    f"guarded_{name}": GuardedPredictor(method.predictor, PartFirst(method.policy))
    for name, method in _GUARDED.items()
}

METHODS: Mapping[str, Pair] = {
    "copy_nearest": Pair("random_shared+nearest", "the values of the known model that agrees best"),
    "anchor_points": Pair(
        "clusters_values+mean",
        "tinyBenchmarks: one sample from each cluster by the known models' values, weighted",
    ),
    "gp_irt": Pair(
        "clusters_items+gp_irt",
        "tinyBenchmarks: one sample from each cluster by item response parameters; their weighted"
        " mean averaged with the item response model's",
    ),
    "sparse_eval": Pair(
        "sparse_anchors+anchor_weights",
        "SparseEval: optimised anchors and linear weights of them",
    ),
    "published": Pair(
        "published+published", "the rule of the published script, with its defects", False
    ),
    "single_order_floor": Pair(
        "everything+single_order_floor",
        "the best threshold, chosen with all answers known (a bound)",
        False,
    ),
    "oracle_accuracy_prefix": Pair(
        "everything+oracle_accuracy_prefix",
        "the true number of correct answers, in the unsorted order (a bound)",
        False,
    ),
} | {
    f"guarded_{name}": Pair(
        f"guard_{name}+guarded_{name}",
        f"{name}; of models unlike the known ones, an estimate for any model",
    )
    for name in _GUARDED
}
