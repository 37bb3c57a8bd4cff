"""The two-parameter model."""

from nevis_stream.dynamic_evaluation.item_response import ItemResponse

METHOD = ItemResponse("irt_2pl")
