"""The page of the theory: claims, figures and tables."""

from pathlib import Path

import numpy as np
import pandas as pd

from nevis_stream.errors import plural
from nevis_stream.experiments.theory import results
from nevis_stream.experiments.theory.claims import Claim, Tables
from nevis_stream.report import palette
from nevis_stream.report.study_page import Line, Picture, StudyChapter, write_study

TITLE = "Dynamic benchmarks: what each round buys, on exact populations"
INTRODUCTION = (
    "A dynamic benchmark collects samples on which today's model errs, and trains the next one on"
    " the mixture. Here every distribution is a finite vector of probabilities and every classifier"
    " an error set that a minimiser may choose freely, up to risk eps on what it is trained on, so"
    " the numbers are exact. eps: risk above the least possible one; d: distance of the starting"
    " distribution from the target."
)


def write(out: Path, tables: Tables, claims: list[Claim]) -> Path:
    """Writes OUT/report.html and its tables; returns the path of the page."""
    chapters = [
        _claims(claims),
        _exponents(tables.worst_cases),
        _rounds(tables.stalled),
        _bound(tables.instances),
        _depths(tables.depths),
        _noise(tables.noise),
        _updates(tables.updates),
    ]
    return write_study(out, TITLE, INTRODUCTION, chapters)


def _claims(claims: list[Claim]) -> StudyChapter:
    return StudyChapter(
        "Claims: what the paper says, and what was measured",
        "Where the constant of a statement is missing from the available text, it was measured, and"
        " the cell says so.",
        table=pd.DataFrame(
            [(each.claim, each.source, each.measured, each.verdict) for each in claims],
            columns=["claim", "source", "measured", "holds"],
        ),
    )


def _exponents(cases: pd.DataFrame) -> StudyChapter:
    fitted = results.fit_exponents(cases)
    rows = [
        {"case": case, "claimed exponent": int(rows["exponent"].iloc[0])}
        | {"exponent": fitted[case].exponent, "low": fitted[case].low, "high": fitted[case].high}
        | {"constant at largest eps": rows["constant"].iloc[0]}
        | {"constant at smallest eps": rows["constant"].iloc[-1]}
        for case, rows in cases.groupby("case", sort=False)
    ]
    lines = [
        Line(case, rows["eps"].to_numpy(), rows["risk"].to_numpy(), marked=True)
        for case, rows in cases.groupby("case", sort=False)
    ]
    return StudyChapter(
        "Exponents: risk against eps",
        "D0 = D, uniform atoms. Constructions are the lower bounds of the theorems; adversaries"
        " choose error sets so that the vote errs as much as possible. The worst case of three"
        " rounds is 6 eps² / (1 + 2 eps) exactly. At depth 2 the adversary's constant still grows"
        " as eps falls, so its exponent is below 3 on this range. Intervals are of the straight"
        " line, since the risks have no noise.",
        [Picture("exponents", "Risk against eps", lines, "eps", "risk of the vote", "xy")],
        pd.DataFrame(rows),
    )


def _rounds(stalled: pd.DataFrame) -> StudyChapter:
    lines = [
        Line(f"{name} weights", rows["rounds"].to_numpy(), rows["constant"].to_numpy(), marked=True)
        for name, rows in stalled.groupby("weights", sort=False)
    ]
    return StudyChapter(
        "Rounds: a path that stalls",
        "The construction of Theorem 3.5 at eps = 1/16: the vote errs on one of 8 / eps² atoms,"
        " however many rounds there are. With random weights of the mixtures and of the vote it"
        " errs on at least that atom; where one classifier has most of the votes, on its whole"
        " error set.",
        [Picture("rounds", "Risk by rounds", lines, "rounds", "risk / eps²", "xy")],
        stalled,
    )


def _bound(instances: pd.DataFrame) -> StudyChapter:
    chosen = instances.groupby("minimiser", sort=False).head(150)
    lines = [
        Line(name, rows["bound"].to_numpy(), rows["risk"].to_numpy(), marked=True, joined=False)
        for name, rows in chosen.groupby("minimiser", sort=False)
    ]
    largest = float(instances["bound"].max())

    def diagonal(axes) -> None:
        axes.plot([1e-2, largest], [1e-2, largest], color=palette.muted(), linewidth=1)
        axes.set_ylim(bottom=1e-4)

    summary = (
        instances.assign(
            ratio=instances["risk"] / instances["bound"],
            constant=instances["risk"] / instances["eps"] ** 2,
        )
        .groupby(["minimiser", "shift"], sort=False)
        .agg(
            instances=("risk", "size"),
            largest_distance=("distance", "max"),
            largest_risk_by_bound=("ratio", "max"),
            mean_risk_by_bound=("ratio", "mean"),
            largest_risk_by_eps_squared=("constant", "max"),
        )
        .reset_index()
    )
    summary["largest_distance"] = summary["largest_distance"].round(12)
    return StudyChapter(
        "Bound: three rounds of a path, random and adversarial instances",
        "Each instance has its own uneven target, starting distribution and eps (0.05 to 0.25)."
        " Below the diagonal the bound 11 eps² + 8 eps d holds; up to 150 instances of each"
        " minimiser are shown.",
        [
            Picture(
                "bound",
                "Risk against its bound",
                lines,
                "bound",
                "risk of the vote",
                "xy",
                diagonal,
            )
        ],
        summary,
    )


def _depths(depths: pd.DataFrame) -> StudyChapter:
    lines = [
        Line(
            f"depth {depth} ({plural(int(rows['rounds'].iloc[0]), 'round')})",
            rows["distance"].to_numpy(),
            rows["risk"].to_numpy(),
            marked=True,
        )
        for depth, rows in depths.groupby("depth")
    ]
    return StudyChapter(
        "Depth: what a deeper design buys",
        "The largest risk that our adversaries reached at eps = 1/48, where D0 lacks a part of D of"
        " probability d. They are lower bounds of the worst case; at depth 2 and d > 0 a better"
        " adversary may exist. A level of depth costs three times as many rounds of annotation.",
        [Picture("depth", "Risk by distance", lines, "d", "risk of the vote", "y")],
        depths,
    )


def _noise(noise: pd.DataFrame) -> StudyChapter:
    lines = [
        Line(
            f"delta = {delta:g}, eps = {eps:g}",
            rows["round"].to_numpy(),
            rows["share"].to_numpy(),
        )
        for (delta, eps), rows in noise.groupby(["delta", "eps"])
        if np.isclose(delta / eps, 20) or np.isclose(delta / eps, 5)
    ]
    worst = (noise["clean_risk"] / noise["eps"]).max()
    after = noise[noise["round"] > 0]
    return StudyChapter(
        "Label noise: where the collected samples are",
        "A part delta of D has random labels. From the first collection on, a constant share of D_t"
        f" lies on it ({after['share'].min():.2f} to {after['share'].max():.2f}), which is lost for"
        " the clean part. clean_risk is the risk of h_t"
        f" on the part of D without noise; at most {worst:.0f} eps here, and it changes from round"
        " to round.",
        [Picture("noise", "Noisy share", lines, "round", "share of D_t on the noisy part")],
        noise,
    )


def _updates(updates: pd.DataFrame) -> StudyChapter:
    shown = updates[(updates["eps"] == updates["eps"].min()) & ~(updates["step"] < 1)]
    lines = [
        Line(f"{loss}, {minimiser}", rows["round"].to_numpy(), rows["surrogate"].to_numpy())
        for (loss, minimiser), rows in shown.groupby(["loss", "minimiser"], sort=False)
    ]
    return StudyChapter(
        "Updating the model: the alternative of Appendix A",
        f"The loss that is minimised, at eps = {updates['eps'].min():g}; it bounds the risk."
        " With exponential updates it falls below every level. Hinge updates converge with random"
        " minimisers, but a minimiser that errs outside of the margin set, where it is not trained,"
        " stops them, also with smaller steps (table).",
        [Picture("updates", "Loss by update", lines, "update", "loss", "y")],
        updates[updates["round"] % 10 == 0],
    )
