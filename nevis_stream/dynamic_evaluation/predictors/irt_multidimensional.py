"""The item response model of six factors."""

from nevis_stream.dynamic_evaluation.item_response import ItemResponse

PREDICTOR = ItemResponse("item response model of six factors", factors=6)
