"""One sample of each cluster of samples, by the known models' values (C-Score)."""

from nevis_stream.dynamic_evaluation.clustering import Clusters, by_values

POLICY = Clusters(
    by_values,
    "one sample from each of K clusters; samples are clustered by the known models' values",
)
