"""One sample of each cluster of samples, by the known models' values (C-Score)."""

from nevis_stream.dynamic_evaluation.clustering import Clusters, by_values

POLICY = Clusters(
    by_values, "one sample of each of K clusters of the samples by the known models' values"
)
