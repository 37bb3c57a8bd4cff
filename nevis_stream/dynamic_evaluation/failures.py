"""The samples on which a new model most likely fails, of those that it was not asked."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nevis_stream.queries.oracle import Query

if TYPE_CHECKING:
    import pandas as pd

    from nevis_stream.dynamic_evaluation.session import Session


def rank_failures(
    samples: Sequence[str | int], values: np.ndarray, observed: np.ndarray
) -> "pd.DataFrame":
    """Returns the samples without an answer, the most probable failure first, with the columns
    `sample` and `probability` of a failure.

    The probabilities are the method's, from the known models and the answers; they are as good as
    its fit, which the line of a misfit speaks of.

    Args:
      samples: n ids.
      values: float[n], the expected outcome of each, P(right).
      observed: bool[n], which have an answer.
    """
    import pandas as pd  # takes a third of a second

    left = np.flatnonzero(~np.asarray(observed, bool))
    failing = 1 - np.asarray(values, np.float64)[left]
    order = np.argsort(-failing, kind="stable")
    ids = [samples[column] for column in left[order].tolist()]
    return pd.DataFrame({"sample": ids, "probability": failing[order].round(4)})


def likely_failures(session: "Session", model: str | None = None) -> "pd.DataFrame":
    """Returns the samples on which a model of a session most likely fails (see `rank_failures`),
    without a row before the first answer or where the board has scores.

    Args:
      session: the session.
      model: its name; None: the only one.
    """
    track, samples = session.track(model), session.samples
    observed = np.zeros(len(samples), bool)
    values = np.ones(len(samples))
    if session.cache.scores or not track.answered.any():
        return rank_failures(samples, values, ~observed)
    query: Query = track.answered_query
    observed[query.samples[0]] = True
    values = session.fitted.expected(query, track.values[track.answered])
    return rank_failures(samples, values, observed)
