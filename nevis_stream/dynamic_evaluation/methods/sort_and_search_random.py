"""Sort & Search on positions drawn at random for each model."""

from nevis_stream.dynamic_evaluation.methods.sort_and_search import SortAndSearch

METHOD = SortAndSearch("sort_and_search_random", sampling="random")
