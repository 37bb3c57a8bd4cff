"""One sample of each cluster of samples, by their features (C-Embed)."""

from nevis_stream.dynamic_evaluation.clustering import Clusters, by_features

POLICY = Clusters(
    by_features, "one sample from each of K clusters; samples are clustered by their features"
)
