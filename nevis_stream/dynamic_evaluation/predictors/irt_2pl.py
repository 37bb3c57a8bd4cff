"""The two-parameter item response model."""

from nevis_stream.dynamic_evaluation.item_response import ItemResponse

PREDICTOR = ItemResponse("two-parameter item response model")
