"""The item response model of six factors."""

from nevis_stream.dynamic_evaluation.item_response import ItemResponse

METHOD = ItemResponse("irt_multidimensional", factors=6)
