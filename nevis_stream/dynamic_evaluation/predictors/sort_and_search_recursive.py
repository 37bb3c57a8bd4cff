"""Sort & Search on the order by recursive sum, with two stages as in the paper."""

from nevis_stream.dynamic_evaluation.predictors.sort_and_search import SortAndSearch

PREDICTOR = SortAndSearch("recursive")
