"""The page of rollouts: risk by round and by label, z_T, and designs side by side."""

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from nevis_stream.cost.meter import format_engineering
from nevis_stream.experiments.rollouts.statistics import (
    average_known,
    compute_plurality_z,
    compute_z,
    correlate,
    find_risk,
)
from nevis_stream.experiments.rollouts.study import Rollouts, RolloutSettings
from nevis_stream.report.study_page import Line, Picture, StudyChapter, write_study

EARLY = 4
"""T of the statistic z_T; the paper's for CIFAR-10."""
LATE = 9
"""Many rollouts still have a risk at this round, or at the last vote before it."""
TITLE = "Dynamic benchmarks: rollouts"
INTRODUCTION = (
    "A base classifier is trained on all images; those that it gets right are the population, so"
    " the problem is realizable. Each rollout then collects where its classifiers err and trains a"
    " new network on the mixture, round after round; rollouts differ in their random numbers alone."
    " Risk is that of the majority vote on the population."
)


def name_of(settings: RolloutSettings) -> str:
    """Returns a design in words, for example "path, 25 rounds"."""
    if settings.depth == 1:
        return f"path, {settings.width} rounds"
    return f"depth {settings.depth}, width {settings.width}"


def summarise_rounds(rollouts: Rollouts) -> pd.DataFrame:
    """Returns a row for each round at which the design has a vote: mean risk with its 95% interval,
    standard deviation, best and worst rollout at the end, weighted vote, vote on classes, and
    labels.

    An interval ends at 0 and 1, as risks do.
    """
    every = rollouts.curves
    risks = np.stack([each.risks for each in every])
    # of rollouts that end alike, the one with the smaller risk on the way is better
    best, worst = np.lexsort((np.nanmean(risks, axis=1), risks[:, -1]))[[0, -1]]
    rows = []
    for number in np.flatnonzero(np.isfinite(risks[0])):
        at = average_known(risks[:, number])
        rows.append(
            {"design": name_of(rollouts.settings), "round": int(number) + 1, "n": at.n}
            | {"mean_risk": at.mean, "low": np.clip(at.low, 0, 1), "high": np.clip(at.high, 0, 1)}
            | {"std": at.std}
            | {"best": risks[best, number], "worst": risks[worst, number]}
            | {"weighted_vote": float(np.mean([each.weighted[number] for each in every]))}
            | {"plurality_risk": average_known(rollouts.plurality_risks[:, number]).mean}
            | {"labels": float(np.mean([each.labels[number] for each in every]))}
        )
    return pd.DataFrame(rows)


def correlate_early_statistic(rollouts: Rollouts, first: int = EARLY) -> pd.DataFrame:
    """Returns the correlations of z_T, and of the vote's risk at T, with the risk of later votes.

    Columns: design, vote, early (what was measured at T), round (of the later vote), correlation,
    low, high, p, n, and mean, smallest and largest of what was measured. Both, early and late, are
    of the same vote: "errors", which errs where enough members do, or "plurality", on classes.
    Without a rollout that differs from the others there is no correlation. Rollouts of fewer
    classifiers than T have no rows.
    """
    if len(rollouts.errors[0]) < first:
        return pd.DataFrame()
    risks = {
        "errors": np.stack([each.risks for each in rollouts.curves]),
        "plurality": rollouts.plurality_risks,
    }
    z = {
        "errors": [compute_z(errors, first) for errors in rollouts.errors],
        "plurality": [
            compute_plurality_z(each, rollouts.labels, first) for each in rollouts.predicted
        ],
    }
    rows = []
    # a hierarchy has a vote after each block only
    voted = np.flatnonzero(np.isfinite(risks["errors"][0])) + 1
    last = int(voted[-1])
    rounds = sorted({int(max((late for late in voted if late <= LATE), default=last)), last})
    for vote, late_risks in risks.items():
        early = {f"z_{first}": np.array(z[vote])}
        if rollouts.settings.depth == 1:
            early[f"risk after {first} rounds"] = late_risks[:, first - 1]
        for (what, values), late in itertools.product(early.items(), rounds):
            fit = correlate(values, late_risks[:, late - 1])
            known = values[np.isfinite(values)]
            ends = (known.min(), known.max()) if len(known) else (math.nan, math.nan)
            rows.append(
                {"design": name_of(rollouts.settings), "vote": vote, "early": what, "round": late}
                | {"correlation": fit.r}
                | {"low": fit.low, "high": fit.high, "p": fit.p, "n": fit.n}
                | {"mean": average_known(values).mean, "smallest": ends[0], "largest": ends[1]}
            )
    return pd.DataFrame(rows)


def compare(path: Rollouts, other: Rollouts) -> pd.DataFrame:
    """Returns the risk of another design minus that of the path, in pairs of rollouts: after as
    many rounds, and for as many labels (the smaller of the two totals, see `find_risk`).

    Columns: design, at, difference, low, high, n, risk, path_risk, labels.
    """
    rows: dict[str, list[tuple[float, float, int]]] = {"equal rounds": [], "equal labels": []}
    for ours, theirs in zip(other.curves, path.curves, strict=False):
        last = len(ours.risks)
        if last <= len(theirs.risks):
            rows["equal rounds"].append((ours.risks[-1], theirs.risks[last - 1], ours.labels[-1]))
        labels = int(min(ours.labels[-1], theirs.labels[-1]))
        rows["equal labels"].append((find_risk(ours, labels), find_risk(theirs, labels), labels))
    table = []
    for at, pairs in rows.items():
        if not pairs:  # the path has fewer rounds
            continue
        values = np.array(pairs, float).reshape(-1, 3)
        values = values[np.isfinite(values).all(axis=1)]
        difference = average_known(values[:, 0] - values[:, 1])
        table.append(
            {"design": name_of(other.settings), "at": at, "difference": difference.mean}
            | {"low": difference.low, "high": difference.high, "n": difference.n}
            | {
                "risk": average_known(values[:, 0]).mean,
                "path_risk": average_known(values[:, 1]).mean,
            }
            | {"labels": average_known(values[:, 2]).mean}
        )
    return pd.DataFrame(table)


def state_stall(rollouts: Rollouts) -> str:
    """Returns in a sentence whether the risk stalls above zero: the mean at the end, and the change
    over about the last fifth of the votes. It is an even number of votes back: ties count as
    errors, so votes of an even number of members are worse.
    """
    risks = np.stack([each.risks for each in rollouts.curves])
    risks = risks[:, np.isfinite(risks[0])]
    back = 2 * max(1, round(risks.shape[1] / 10))
    before = risks[:, max(0, risks.shape[1] - 1 - back)]
    end, change = average_known(risks[:, -1]), average_known(risks[:, -1] - before)
    zero = int((risks[:, -1] == 0).sum())
    ties = ""
    if rollouts.settings.width % 2 == 0:
        ties = " The last vote has an even number of members, and its ties count as errors."
    return (
        f"{name_of(rollouts.settings)}: final risk {_interval(end)}, change over the last {back}"
        f" votes {_interval(change)}; {zero} of {len(risks)} rollouts end with risk 0.{ties}"
    )


def _interval(value) -> str:
    ends = "" if math.isnan(value.low) else f" ({value.low:.4f} to {value.high:.4f})"
    return f"{value.mean:.4f}{ends}, n = {value.n}"


def write(out: Path, studies: Sequence[Rollouts]) -> Path:
    """Writes OUT/report.html and its tables from one or more studies of the same data.

    Args:
      out: directory.
      studies: see `make_chapters`.
    """
    settings = studies[0].settings
    title = f"{TITLE} on {settings.images:,} images of {settings.data}"
    return write_study(out, title, INTRODUCTION, make_chapters(studies))


def make_chapters(studies: Sequence[Rollouts]) -> list[StudyChapter]:
    """Returns the parts of the page; the first path among the studies is what the others are
    compared with.
    """
    rounds = pd.concat([summarise_rounds(each) for each in studies], ignore_index=True)
    early = pd.concat([correlate_early_statistic(each) for each in studies], ignore_index=True)
    smallest = 1 / min(int(each.base.right.sum()) for each in studies)
    parts = [_facts(studies), _rounds(rounds, smallest), _labels(rounds, smallest)]
    if len(early):
        parts.append(
            StudyChapter(
                "Early signs: z_T against the final risk",
                "z_T is the share of the common errors of two early classifiers on which the vote"
                " of the T errs too: the vote on classes (plurality: the most frequent class, of"
                " ties that of the earliest classifier), as in the paper, and that on error sets"
                " (more than half of them err). The paper has a correlation of 0.46 with the risk"
                " after 25 rounds (100 rollouts, z_4, CIFAR-10 with 50,000 images). Intervals are"
                " 95% (Fisher's z). Where all rollouts have the same risk there is no correlation;"
                " rollouts of an earlier version kept no classes.",
                [_scatter(studies)],
                early,
                "early-signs",
            )
        )
    paths = [each for each in studies if each.settings.depth == 1]
    others = [each for each in studies if each.settings.depth > 1]
    if paths and others:
        table = pd.concat([compare(paths[0], each) for each in others], ignore_index=True)
        parts.append(
            StudyChapter(
                "Designs: a hierarchy against the path",
                "Risk of the hierarchy minus that of the path, in pairs of rollouts with the same"
                " random numbers; below zero the hierarchy is better. Labels are collected errors;"
                " at equal labels each design has its last vote of an odd number of members (ties"
                " are errors) that the smaller total allows.",
                table=table,
                name="designs",
            )
        )
    return parts


def _facts(studies: Sequence[Rollouts]) -> StudyChapter:
    rows = []
    for each in studies:
        every = each.curves
        rows.append(
            {"design": name_of(each.settings), "rollouts": len(each.errors)}
            | {"images": each.settings.images, "base_accuracy": each.base.accuracy}
            | {"population": int(each.base.right.sum()), "epochs": each.base.epochs}
            | {"labels_per_rollout": float(np.mean([c.labels[-1] for c in every]))}
            | {"flops_per_rollout": format_engineering(float(np.mean(each.flops)))}
            | {"total_labels": int(sum(c.labels[-1] for c in every))}
            | {"total_flops": format_engineering(float(sum(each.flops)))}
        )
    return StudyChapter(
        "Answer: does the risk stall",
        " ".join(state_stall(each) for each in studies),
        table=pd.DataFrame(rows),
        name="rollouts",
    )


def _lines(rounds: pd.DataFrame, x: str) -> list[Line]:
    lines = []
    for design, rows in rounds.groupby("design", sort=False):
        places, middle = rows[x].to_numpy(float), rows["mean_risk"].to_numpy()
        band = (
            middle - rows["std"].fillna(0).to_numpy(),
            middle + rows["std"].fillna(0).to_numpy(),
        )
        lines.append(Line(f"{design}: mean ± std", places, middle, band, marked=True))
        if x == "round":
            for extreme in ("best", "worst"):
                lines.append(Line(f"{design}: {extreme}", places, rows[extreme].to_numpy()))
    return lines


def _risk_axis(smallest: float) -> Callable[[Axes], object]:
    """Returns what makes the axis of risks logarithmic down to the smallest risk above 0."""

    def finish(axes: Axes) -> None:
        axes.set_yscale("symlog", linthresh=smallest)
        axes.set_ylim(bottom=0)

    return finish


def _rounds(rounds: pd.DataFrame, smallest: float) -> StudyChapter:
    lines, finish = _lines(rounds, "round"), _risk_axis(smallest)
    return StudyChapter(
        "Risk by round",
        "Mean over rollouts of the majority vote's risk after each round (in a hierarchy, after"
        " each finished inner vote), with one standard deviation, and the rollouts that end best"
        " and worst. Intervals in the table are 95% of the mean (Student's t). The weighted vote"
        " weighs a classifier by log((1 - r) / r), r being its risk on what it was trained on."
        " Ties are errors, so the vote of an even number is worse than its neighbours. The"
        " plurality is the vote on classes; a hierarchy collects the errors of the other vote.",
        [Picture("rounds", "Risk by round", lines, "round", "risk of the vote", finish=finish)],
        rounds,
    )


def _labels(rounds: pd.DataFrame, smallest: float) -> StudyChapter:
    lines, finish = _lines(rounds, "labels"), _risk_axis(smallest)
    axes = "labels collected", "risk of the vote"
    return StudyChapter(
        "Risk by labels",
        "The same means against the number of errors that were collected.",
        [Picture("labels", "Risk by labels", lines, *axes, finish=finish)],
    )


def _scatter(studies: Sequence[Rollouts]) -> Picture:
    lines = [
        Line(
            name_of(each.settings),
            np.array(
                [compute_plurality_z(predicted, each.labels, EARLY) for predicted in each.predicted]
            ),
            each.plurality_risks[:, -1],
            marked=True,
            joined=False,
        )
        for each in studies
        if len(each.errors[0]) >= EARLY
    ]
    axes = f"z_{EARLY} (plurality)", "final risk (plurality)"
    return Picture("early", f"z_{EARLY} and final risk", lines, *axes)
