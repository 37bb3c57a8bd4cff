"""Known models' outcomes joined with heads on features."""

from nevis_stream.active_testing.difficulty import INFORMED, DifficultySurrogate
from nevis_stream.active_testing.outcome_patterns import OutcomePatterns
from nevis_stream.active_testing.surrogate import SurrogateKind
from nevis_stream.active_testing.surrogates import heads


class KnownModelsHeads(SurrogateKind):
    """The heads' probabilities, updated by the patterns of known models' outcomes, and corrected by
    them as far as the bought labels support that. It trains the heads three times: on all labels,
    and on each half of them.
    """

    about = "heads on features, with the patterns of known models' outcomes (an evaluation cache)"
    needs = ("features", "outcomes")

    def build(self, material, seed):
        """Returns the surrogate."""
        base = OutcomePatterns(heads.SURROGATE.build(material, seed), material.outcomes)
        return DifficultySurrogate(material, base, INFORMED, seed)


SURROGATE = KnownModelsHeads()
