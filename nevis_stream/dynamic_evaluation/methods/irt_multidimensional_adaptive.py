"""The item response model of six factors; half of the samples are those that spare most errors."""

from nevis_stream.dynamic_evaluation.item_response import ItemResponse

METHOD = ItemResponse("irt_multidimensional_adaptive", factors=6, rule="error")
