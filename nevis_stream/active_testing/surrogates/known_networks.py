"""Known models' outcomes as the surrogate of difficulty, alone or joined with heads on features."""

from nevis_stream.active_testing.difficulty import INFORMED, UNINFORMED, DifficultySurrogate
from nevis_stream.active_testing.outcome_patterns import OutcomePatterns
from nevis_stream.active_testing.surrogate import SurrogateBuilder, SurrogateData
from nevis_stream.active_testing.surrogates.fixed_models import CalibratedModel
from nevis_stream.active_testing.surrogates.heads import Heads
from nevis_stream.active_testing.testing import Surrogate


class KnownNetworks(SurrogateBuilder):
    """The tested model's own probabilities of errors, corrected by known models' outcomes as far as
    the bought labels support them: a sample that many known models got wrong is likely wrong.
    """

    about = "known models' outcomes (an evaluation cache) as difficulty; weighted by the labels"
    needs = ("outcomes",)

    def build(self, data: SurrogateData, seed: int) -> Surrogate:
        """Returns the surrogate."""
        base = CalibratedModel().build(data, seed)
        return DifficultySurrogate(data, base, UNINFORMED, seed)


class KnownNetworksHeads(SurrogateBuilder):
    """The heads' probabilities, updated by the patterns of known models' outcomes, and corrected by
    them as far as the bought labels support that. It trains the heads three times: on all labels,
    and on each half of them.
    """

    about = "heads on features, with the patterns of known models' outcomes (an evaluation cache)"
    needs = ("features", "outcomes")

    def build(self, data: SurrogateData, seed: int) -> Surrogate:
        """Returns the surrogate."""
        base = OutcomePatterns(Heads().build(data, seed), data.outcomes)
        return DifficultySurrogate(data, base, INFORMED, seed)
