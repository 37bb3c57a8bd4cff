"""The two-parameter model; half of the samples are those of most Fisher information."""

from nevis_stream.dynamic_evaluation.item_response import ItemResponse

METHOD = ItemResponse("irt_2pl_adaptive", rule="information")
