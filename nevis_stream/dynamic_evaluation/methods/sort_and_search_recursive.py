"""Sort & Search on the order by recursive sum, of two stages as in the paper."""

from nevis_stream.dynamic_evaluation.methods.sort_and_search import SortAndSearch

METHOD = SortAndSearch("sort_and_search_recursive", by="recursive")
