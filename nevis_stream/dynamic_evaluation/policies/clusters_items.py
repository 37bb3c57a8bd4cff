"""One sample of each cluster of samples, by item response parameters (C-IRT)."""

from nevis_stream.dynamic_evaluation.clustering import Clusters, by_items

POLICY = Clusters(
    by_items,
    "one sample from each of K clusters; samples are clustered by item response parameters",
)
