"""The one-parameter item response model."""

from nevis_stream.dynamic_evaluation.item_response import ItemResponse

PREDICTOR = ItemResponse("one-parameter item response model", common=True)
