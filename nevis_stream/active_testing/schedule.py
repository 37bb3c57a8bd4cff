"""When surrogates are retrained: after these numbers of labels."""

from collections.abc import Sequence
from dataclasses import dataclass

from nevis_stream.active_testing.testing import EnsemblePredictions, Surrogate
from nevis_stream.queries.oracle import Cost, Responses

PUBLISHED = (
    *(0, 5, 10, 20, 30, 40, 50, 70, 100, 125, 150, 200),
    *range(250, 1001, 50),
    *range(1250, 2001, 250),
    *range(2500, 4501, 500),
    4900,
)
"""Labels after which the ASE paper's code retrains."""


@dataclass(frozen=True)
class Schedule:
    """Numbers of labels at which something is done.

    Attributes:
      steps: increasing numbers of labels, from 0.

    >>> schedule = Schedule((0, 5, 20))
    >>> [schedule.batch(asked) for asked in (0, 5, 7)]
    [5, 15, 13]
    """

    steps: Sequence[int] = PUBLISHED

    def batch(self, asked: int) -> int:
        """Returns how many labels can be asked at once: up to the next step."""
        later = [step for step in self.steps if step > asked]
        return (later[0] if later else 2 * max(asked, 1)) - asked

    def applied(self, surrogate: Surrogate) -> Surrogate:
        """Returns a surrogate that is called again only when a step has been passed."""
        last: list[tuple[int, EnsemblePredictions]] = []

        def follow_schedule(answers: Responses) -> EnsemblePredictions:
            passed = sum(step <= answers.values.size for step in self.steps)
            if not last or last[0][0] != passed:
                last[:] = [(passed, surrogate(answers))]
                return last[0][1]
            return EnsemblePredictions(last[0][1].probabilities, Cost())

        return follow_schedule
