"""The growing matrix of models × samples on disk: `EvaluationCache`."""

from nevis_stream.evaluation_cache.evaluation_cache import CELLS, INDEX, EvaluationCache

__all__ = ["CELLS", "INDEX", "EvaluationCache"]
