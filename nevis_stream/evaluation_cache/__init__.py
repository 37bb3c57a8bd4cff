"""The growing matrix of models × samples on disk: `EvaluationCache`."""

from nevis_stream.evaluation_cache.boards import make_cache_board
from nevis_stream.evaluation_cache.evaluation_cache import CELLS, INDEX, EvaluationCache

__all__ = ["CELLS", "INDEX", "EvaluationCache", "make_cache_board"]
