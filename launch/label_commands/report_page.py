"""The page of a session: what the labels say, and how good the surrogate was."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from nevis_stream.active_testing.labelling.estimates import (
    count_plain_labels,
    estimate_along,
    estimate_models,
    gather_draws,
)
from nevis_stream.active_testing.labelling.session import Session
from nevis_stream.active_testing.testing import expect_losses
from nevis_stream.datasets.images import Images
from nevis_stream.errors import BadInput
from nevis_stream.launch.label_commands.forms import draw_contact_sheet
from nevis_stream.queries.oracle import NO_LABEL
from nevis_stream.report.study_page import Line, Picture, StudyChapter, write_study
from nevis_stream.storage import write_file

HARDEST = 30
HARDEST_SHEET = "hardest.png"
_BINS = 8


def write(
    session: Session,
    estimator: str,
    images: Callable[[Session, Sequence[int]], Images],
) -> Path:
    """Writes DIR/report/report.html with csv files and hardest.png; returns the page's path.

    Args:
      session: with at least one label.
      estimator: a name of `estimators.ESTIMATORS`.
      images: returns the images of samples, by position.

    Raises:
      BadInput: no label that can be used yet.
    """
    if not any(part.known.any() for part in gather_draws(session, 0)):
        raise BadInput(
            f"{session.directory}: no usable label yet. To get some: python -m launch.label next"
            f" {session.directory}"
        )
    out = session.directory / "report"
    chapters = [
        _estimates(session, estimator),
        _hardest(session, out, images),
        _calibration(session),
    ]
    settings = session.settings
    introduction = (
        f"Session {settings.name}: {session.counts()}. Loss {settings.loss}, rule"
        f" {settings.rule}, {settings.uniform:.0%} of draws uniform, surrogate"
        f" {settings.surrogate}, estimator {estimator}."
    )
    return write_study(out, "Label-efficient test", introduction, chapters)


def _estimates(session, estimator) -> StudyChapter:
    rows = []
    singles = len(session.model_names)
    for number, model in enumerate(estimate_models(session, estimator)):
        estimate = model.estimate
        row = {
            "model": model.name,
            "estimate": estimate.value,
            "low": estimate.low,
            "high": estimate.high,
            "labels": estimate.observed,
            "without a label": estimate.failed,
            "plain random labels": np.nan,
            "surrogate's expectation": np.nan,
        }
        if number < singles:
            parts = gather_draws(session, number)
            row["plain random labels"] = count_plain_labels(parts, model.width / 2)
            row["surrogate's expectation"] = _surrogate_alone(session, number)
        rows.append(row)
    pictures = []
    for number, name in enumerate(session.model_names):
        points = estimate_along(session, number, estimator)
        counts = np.array([count for count, _ in points], float)
        value, low, high = (
            np.array([getattr(estimate, key) for _, estimate in points])
            for key in ("value", "low", "high")
        )
        line = Line(name, counts, value, (low, high), marked=True)
        title = f"{name}: estimate and 95% interval by number of labels"
        pictures.append(
            Picture(f"estimate-{number}", title, [line], "labels", session.settings.loss)
        )
    note = (
        "The intervals hold for the number of labels at which you look, not for all numbers"
        " together. “Plain random labels” is the number of random labels that would have given an"
        " interval of the same width. The surrogate's expectation uses its predictions for every"
        " sample; its error is unknown."
    )
    return StudyChapter("Estimates", note, pictures, pd.DataFrame(rows), "estimates")


def _surrogate_alone(session, model) -> float:
    labels, draws = session.labels(), session.draws()
    total = 0.0
    for place, pools in enumerate(session.pools):
        members = session.members(place, labels, draws)
        total += expect_losses(pools[model], members).sum()
    return total / len(session.ids)


def _hardest(session, out, images) -> StudyChapter:
    labels, settings = session.labels(), session.settings
    rows = []
    for pool_part, pools in zip(session.pool_parts, session.pools, strict=True):
        for row in pool_part.rows:
            if labels.get(int(row), NO_LABEL) != NO_LABEL:
                place = row - pool_part.first
                losses = [pool.losses[place, labels[int(row)]] for pool in pools]
                rows.append((float(np.mean(losses)), int(row), pool_part.predictions[:, place]))
    rows.sort(key=lambda row: (-row[0], row[1]))
    shown = rows[:HARDEST]
    pictures = images(session, [row for _, row, _ in shown])
    captions = [f"{n}: {settings.classes[labels[row]]}" for n, (_, row, _) in enumerate(shown, 1)]
    sheet = draw_contact_sheet([pictures[i] for i in range(len(pictures))], captions)
    write_file(out / HARDEST_SHEET, sheet)
    table = [
        {
            "number": number,
            "sample": session.ids[row],
            "label": settings.classes[labels[row]],
            "mean loss": loss,
        }
        | {
            f"answer of {name}": settings.classes[int(predicted.argmax())]
            for name, predicted in zip(session.model_names, predictions, strict=True)
        }
        for number, (loss, row, predictions) in enumerate(shown, start=1)
    ]
    note = f"The labelled samples with the largest losses. Their pictures are in {HARDEST_SHEET}."
    return StudyChapter("Hardest samples", note, (), pd.DataFrame(table), "hardest")


def _calibration(session) -> StudyChapter:
    parts = gather_draws(session, 0)
    predicted = np.concatenate([part.predicted[part.known] for part in parts])
    observed = np.concatenate([part.losses[part.known] for part in parts])
    order = np.argsort(predicted, kind="stable")
    bins = [each for each in np.array_split(order, min(_BINS, len(order))) if len(each)]
    table = pd.DataFrame(
        [
            {
                "expected loss": predicted[rows].mean(),
                "observed loss": observed[rows].mean(),
                "labels": len(rows),
            }
            for rows in bins
        ]
    )
    ends = np.array([0, max(table["expected loss"].max(), table["observed loss"].max())])
    lines = [
        Line(
            "labels of this session",
            table["expected loss"].to_numpy(),
            table["observed loss"].to_numpy(),
            marked=True,
        ),
        Line("calibrated", ends, ends),
    ]
    picture = Picture(
        "calibration",
        "Observed by expected loss",
        lines,
        "loss that the surrogate expected",
        "observed loss",
    )
    note = (
        "Each point is a group of labelled samples with similar expected losses, as the surrogate"
        " expected them before it saw their labels. Where the points are above the line, it"
        " expects too little. Estimates with an interval are unbiased all the same."
    )
    return StudyChapter("Calibration of the surrogate", note, [picture], table, "calibration")
