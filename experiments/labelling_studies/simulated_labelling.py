"""Repetitions of the labelling loop on a pool with known labels, in a directory.

OUT/study.json identifies the study; OUT/study.jsonl is its record, a line for each finished
repetition. More of the same study can be added by a later call.
"""

import functools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from nevis_stream.active_testing.acquisition_functions import ProportionalSampling
from nevis_stream.active_testing.estimators import ESTIMATORS
from nevis_stream.active_testing.labelling.files import STUDY, show_path
from nevis_stream.active_testing.pool import Pool
from nevis_stream.active_testing.surrogate import PUBLISHED, SurrogateData
from nevis_stream.active_testing.surrogates import build_surrogate
from nevis_stream.errors import plural
from nevis_stream.executor import Executor
from nevis_stream.experiments.labelling_studies.simulation import (
    Acquisition,
    compare_squared_errors,
    simulate,
)
from nevis_stream.experiments.study_record import RecordWorkspace, StudyRecord
from nevis_stream.learner import Context
from nevis_stream.progress import Progress
from nevis_stream.report.study_page import Line, Picture, StudyChapter, write_study
from nevis_stream.storage import lock_exclusively

_MOST_LINES = 7  # of a figure


@dataclass(frozen=True)
class StudySettings:
    """What identifies a study.

    Attributes:
      pool, models, digest, loss, surrogate, uniform, seed: as of `settings.SessionSettings`.
      labels: number of labels of a repetition.
    """

    pool: str
    models: Sequence[str]
    digest: str
    loss: str
    surrogate: str
    uniform: float
    labels: int
    seed: int

    @property
    def steps(self) -> tuple[int, ...]:
        """Numbers of labels at which surrogates are retrained and estimates are made."""
        tenths = {round(self.labels * tenth / 10) for tenth in range(1, 11)}
        published = {step for step in PUBLISHED if step <= self.labels}
        return tuple(sorted(tenths | published))


@dataclass(frozen=True)
class _Repetition:
    """A trial: its result is {"estimates": float64[estimators, s, 3], "steps": int64[s]}."""

    data: SurrogateData
    labels: np.ndarray
    settings: StudySettings

    def __call__(self, ctx: Context, item: tuple[str, int]) -> dict:
        rule, repetition = item
        pool = Pool.of(self.data.predictions, self.settings.loss)
        seed = ctx.seed_for(rule, repetition)
        surrogate = build_surrogate(self.settings.surrogate, self.data, seed)
        path = simulate(
            pool,
            self.labels,
            surrogate,
            Acquisition.named(rule, ProportionalSampling(uniform=self.settings.uniform)),
            self.settings.labels,
            seed,
            steps=self.settings.steps,
        )
        return {"estimates": path.estimates, "steps": path.steps}


def run_study(
    settings: StudySettings,
    data: SurrogateData,
    labels: np.ndarray,
    rules: Sequence[str],
    repetitions: int,
    out: Path,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Runs repetitions, or continues them, and returns a row for each rule, estimator and step.

    The columns: `median ratio` and `mean ratio` of squared errors over those of random labels,
    `coverage` of the intervals and `width`, their mean width over that of random labels' true
    standard error times 3.92; NaN if there is no interval.

    Args:
      settings: of the study.
      data: of the tested model.
      labels: int64[n], the known ones.
      rules: names as of `simulation.Acquisition`.
      repetitions: of each rule; finished ones are read.
      out: directory; made if missing.
      executor: runs them; None: one after the other.
      progress: is shown how far they are.

    Raises:
      BadInput: the directory contains another study.
      RunLocked: another process works in the directory.
    """
    busy = "is working in this directory. Wait for it or stop it, or choose another --out."
    frames = []
    with lock_exclusively(out / "lock", busy):
        record = StudyRecord((out / STUDY).with_suffix(".jsonl"), asdict(settings))
        function = _Repetition(data, labels, settings)
        for rule in rules:
            cells = [{"rule": rule, "repetition": number} for number in range(repetitions)]
            former = out / "trials" / rule.replace("!", "-highest")  # of earlier versions
            workspace = RecordWorkspace(record, cells, former)
            ctx = Context(
                path=(f"seed {settings.seed}", "label study", rule),
                phase="train",
                workspace=workspace,
                progress=progress,
                executor=executor,
            )
            items = [(rule, number) for number in range(repetitions)]
            frames.append(_table(rule, ctx.map(function, items), function))
            if progress is not None:
                progress.result(f"{rule}: {plural(repetitions, 'repetition')} done")
    return pd.concat(frames, ignore_index=True)


def _table(rule, trees, function) -> pd.DataFrame:
    pool = Pool.of(function.data.predictions, function.settings.loss)
    risk, n = pool.risk(function.labels), pool.n
    variance = pool.losses[np.arange(n), function.labels].var(ddof=1)
    estimates = np.stack([np.asarray(tree["estimates"]) for tree in trees])
    rows = []
    for place, estimator in enumerate(ESTIMATORS):
        for column, asked in enumerate(np.asarray(trees[0]["steps"]).tolist()):
            value, low, high = estimates[:, place, column].T
            if not np.isfinite(value).all() or asked >= n:
                continue
            truth = np.full(len(value), risk)
            ratio = functools.partial(compare_squared_errors, asked=asked, n=n)
            median, mean = ratio(value, truth, np.full(len(value), variance))
            known = np.isfinite(low)
            plain = 3.92 * np.sqrt(variance * (1 / asked - 1 / n))
            rows.append(
                {
                    "rule": rule,
                    "estimator": estimator,
                    "labels": asked,
                    "repetitions": len(value),
                    "median ratio": median,
                    "mean ratio": mean,
                    "coverage": ((low <= risk) & (risk <= high))[known].mean()
                    if known.any()
                    else np.nan,
                    "width": (high - low)[known].mean() / plain if known.any() else np.nan,
                }
            )
    return pd.DataFrame(rows)


def write_page(out: Path, settings: StudySettings, table: pd.DataFrame) -> Path:
    """Writes OUT/report.html with its csv file and returns its path."""
    named = table.assign(name=table["rule"] + ", " + table["estimator"])
    last = named[named["labels"] == named["labels"].max()].sort_values("mean ratio")
    best = last["name"].tolist()[:_MOST_LINES]
    lines = [
        Line(
            name,
            named[named["name"] == name]["labels"].to_numpy(float),
            named[named["name"] == name]["mean ratio"].to_numpy(),
            marked=True,
        )
        for name in best
    ]
    title = "Mean squared error over that of random labels, by labels: the best at the end"
    picture = Picture("ratios", title, lines, "labels", "ratio to random labels", "xy")
    note = (
        "A ratio of 0.5 means that random labels need about twice as many. Medians and means are"
        " over repetitions, which differ in the draws alone. Coverage is the share of 95% intervals"
        " that contain the true loss; width is relative to random labels'."
    )
    chapter = StudyChapter("Ratios to random labels", note, [picture], table, "ratios")
    introduction = (
        f"{show_path(settings.pool)}: {', '.join(map(show_path, settings.models))};"
        f" loss {settings.loss},"
        f" surrogate {settings.surrogate}, {settings.uniform:.0%} of draws uniform."
    )
    return write_study(out, "Simulated label-efficient tests", introduction, [chapter])
