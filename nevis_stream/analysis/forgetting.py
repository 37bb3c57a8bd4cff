"""What a shared model forgets: the accuracy matrix of a run under the protocol all_seen."""

from dataclasses import dataclass

import numpy as np

from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import RecallRecord


@dataclass(frozen=True)
class Forgetting:
    """The measures of one run, over its tasks; accuracy is 1 - error.

    Attributes:
      tasks: their ids, in order.
      accuracy: float64[tasks, tasks]: on the task of a column after training on that of a row; NaN
        for tasks that had not been met.
      final: mean accuracy over all tasks after the last one (ACC).
      backward_transfer: mean over earlier tasks of the accuracy after the last task minus that when
        the task was new (BWT); negative where something was forgotten.
      forgetting: mean over earlier tasks of the best accuracy before the last task minus that after
        it (Chaudhry et al. 2018).
    """

    tasks: tuple[str, ...]
    accuracy: np.ndarray
    final: float
    backward_transfer: float
    forgetting: float


def measure_forgetting(ledger: Ledger) -> Forgetting | None:
    """Returns the measures of a complete run under the protocol all_seen; None of another run.

    Tasks whose error is undefined at one of two times are left out of the difference.

    Source: Lopez-Paz and Ranzato (2017), section 2.
    """
    if not ledger.complete or not ledger.of_kind(RecallRecord):
        return None
    matrix = ledger.accuracy_matrix()
    accuracy = matrix.to_numpy()
    last, new = accuracy[-1, :-1], np.diag(accuracy)[:-1]
    best = np.nanmax(np.where(np.isnan(accuracy[:-1, :-1]), -np.inf, accuracy[:-1, :-1]), axis=0)
    return Forgetting(
        tuple(matrix.columns),
        accuracy,
        float(np.nanmean(accuracy[-1])),
        float(np.nanmean(last - new)),
        float(np.nanmean(best - last)),
    )
