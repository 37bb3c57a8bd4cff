"""Known models' outcomes as the surrogate of difficulty."""

from nevis_stream.active_testing.difficulty import UNINFORMED, DifficultySurrogate
from nevis_stream.active_testing.surrogate import SurrogateKind
from nevis_stream.active_testing.surrogates import tested_model


class KnownModels(SurrogateKind):
    """The tested model's own probabilities of errors, corrected by known models' outcomes as far as
    the bought labels support them: a sample that many known models got wrong is likely wrong.
    """

    about = "known models' outcomes (an evaluation cache) as difficulty; weighted by the labels"
    needs = ("outcomes",)

    def build(self, material, seed):
        """Returns the surrogate."""
        base = tested_model.SURROGATE.build(material, seed)
        return DifficultySurrogate(material, base, UNINFORMED, seed)


SURROGATE = KnownModels()
