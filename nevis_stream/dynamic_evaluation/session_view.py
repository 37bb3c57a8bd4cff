"""How a session is shown: in a notebook where each model stands, and how its interval has shrunk;
and the samples on which a new model most likely fails, of those that it was not asked.
"""

import html
import importlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nevis_stream.queries.oracle import Query

if TYPE_CHECKING:
    import pandas as pd

    from nevis_stream.dynamic_evaluation.session import Session


_WIDE, _HIGH = 300, 60  # pixels of a figure
_REFRESH = 1.0  # seconds


def as_html(session: "Session") -> str:
    """Returns a list of the models; with a figure of the intervals so far, those that hold at every
    number of answers, where the method draws samples one by one with equal probabilities.
    """
    rows = []
    for each in session.status():
        low, high = session.stopping.intervals(session.track(each.model))
        rows.append(f"<li>{html.escape(str(each))}{_band(low, high) if len(low) else ''}</li>")
    title = f"{html.escape(repr(session))}; {html.escape(session.rule)}"
    marks = "".join(f"<p>{html.escape(line)}</p>" for line in session.corrections())
    return f"<p>{title}.</p>{marks}<ul>{''.join(rows)}</ul>"


def show_live(session: "Session") -> Callable[[bool], None]:
    """Shows a session in a notebook, and returns what shows it anew in the same place: at once if
    its argument is true, else if `_REFRESH` seconds have passed. Outside of notebooks nothing is
    shown.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if not hasattr(shell, "kernel"):  # a terminal
        return lambda now: None
    display = importlib.import_module("IPython.display").display
    handle, last = display(session, display_id=True), time.monotonic()

    def refresh(now: bool) -> None:
        nonlocal last
        if now or time.monotonic() - last > _REFRESH:
            handle.update(session)
            last = time.monotonic()

    return refresh


def _band(low: np.ndarray, high: np.ndarray) -> str:
    """Returns a figure of intervals, float64[k] twice, over the number of answers; the whole range
    of the values is its height.
    """
    label = f"95% interval after 1 to {len(low):,} answers"
    x = np.linspace(0, _WIDE, len(low)) if len(low) > 1 else np.array([0.0, _WIDE])
    low, high = (np.broadcast_to(end, x.shape) for end in (low, high))
    upper = [f"{a:.1f},{_HIGH * (1 - b):.1f}" for a, b in zip(x, high, strict=True)]
    lower = [f"{a:.1f},{_HIGH * (1 - b):.1f}" for a, b in zip(x, low, strict=True)]
    return (
        f'<br><svg width="{_WIDE}" height="{_HIGH}" role="img" aria-label="{label}"'
        ' style="border: 1px solid #999"><polygon fill="#2c5f8a"'
        f' points="{" ".join(upper + lower[::-1])}"/></svg>'
    )


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


def find_likely_failures(session: "Session", model: str | None = None) -> "pd.DataFrame":
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
    values = session.fitted.predict(query, track.values[track.answered])
    return rank_failures(samples, values, observed)
