"""`launch.evaluate board`: the models of a cache, ranked."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
from absl.flags import FlagValues
from rich.table import Table

from nevis_stream.additions.standings import Leaderboard, Standing, rank_models
from nevis_stream.errors import plural
from nevis_stream.launch.command_line import make_console
from nevis_stream.launch.evaluate_commands.flags import open_one_cache
from nevis_stream.report.study_page import StudyChapter, write_study
from nevis_stream.storage import write_file
from nevis_stream.storage.tables import encode_csv

_MOST_ROWS = 50
_FIXED = 70  # characters of the columns before those of data sets
_TIE = (
    "rank a–b: a − 1 models are better beyond a tie; two models are tied if the 95% interval of"
    " their paired difference on the samples of both contains 0, or if these are fewer than 10"
)
_ESTIMATED = (
    "~ estimated from chosen samples by the method of its addition; tied where intervals overlap"
)
_OUTDATED = (
    "! cells were removed or amended, or samples came, since this estimate: add the model again"
)


def show_board(words: Sequence[str], values: FlagValues) -> None:
    """Prints a table of the models in a cache, and writes all of it to --csv, and as a page to
    --out.
    """
    cache = open_one_cache(Path(words[0]))
    leaderboards = rank_models(cache)
    for each in leaderboards:
        _print(str(cache.directory), each)
    if leaderboards:
        print(_TIE)
    if any(row.outdated for each in leaderboards for row in each.standings):
        print(_OUTDATED)
    if any(row.method for each in leaderboards for row in each.standings):
        print(_ESTIMATED)
    if values.csv:
        rows = [row for each in leaderboards for row in _rows(each)]
        write_file(Path(values.csv), encode_csv(pd.DataFrame(rows)))
        print(f"written: {values.csv}")
    if values.out:
        chapters = [
            StudyChapter(_title(each), _TIE, table=pd.DataFrame(_rows(each)), name=f"part-{place}")
            for place, each in enumerate(leaderboards, start=1)
        ]
        about = f"Models of {cache.directory}, ranked; {_ESTIMATED}. {_OUTDATED}."
        print(f"written: {write_study(Path(values.out), 'Leaderboard', about, chapters)}")


def _title(leaderboard: Leaderboard) -> str:
    part = leaderboard.part
    better = "lower" if part.lower else "higher"
    name = f"{part.name}: " if part.name else ""
    return f"{name}{better} is better, {part.low:g} to {part.high:g}"


def _print(directory: str, leaderboard: Leaderboard) -> None:
    part, standings = leaderboard.part, leaderboard.standings
    table = Table(title=f"{directory}: {_title(leaderboard)}")
    for column in ("rank", "model", "score", "95% interval", "observed"):
        table.add_column(column, justify="left" if column == "model" else "right")
    terminal = make_console()
    shown, width = [], terminal.width - _FIXED
    for dataset in leaderboard.datasets if len(leaderboard.datasets) > 1 else ():
        width -= max(len(dataset), 6) + 3
        if width < 0:
            break
        shown.append(dataset)
    for dataset in shown:
        table.add_column(dataset, justify="right")
    for row in standings[:_MOST_ROWS]:
        means = (_number(row.means[dataset][0]) for dataset in shown)
        mark = ("~" if row.method else "") + ("!" if row.outdated else "")
        observed = f"{row.observed:,} of {len(part.columns):,}"
        cells = _rank(row), row.model, mark + _number(row.score), _interval(row), observed
        table.add_row(*cells, *means)
    terminal.print(table)
    if (others := len(standings) - _MOST_ROWS) > 0:
        print(f"and {plural(others, 'more model')}; --csv=FILE has all")
    if len(leaderboard.datasets) > 1 and (others := len(leaderboard.datasets) - len(shown)):
        print(f"and {plural(others, 'more data set')}; --csv=FILE has all")


def _rank(row: Standing) -> str:
    if not row.rank:
        return "–"
    return f"{row.rank}–{row.last}" if row.tied else str(row.rank)


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4f}"


def _interval(row: Standing) -> str:
    return "–" if math.isnan(row.low) else f"{row.low:.4f} to {row.high:.4f}"


def _rows(leaderboard: Leaderboard) -> Iterator[dict[str, object]]:
    """Yields a row of the csv file for each model."""
    for row in leaderboard.standings:
        cells = {
            "part": leaderboard.part.name,
            "rank": row.rank or None,
            "rank_last": row.last or None,
            "model": row.model,
            "score": row.score,
            "low": row.low,
            "high": row.high,
            "observed": row.observed,
            "samples": len(leaderboard.part.columns),
            "estimated_by": row.method,
            "holds_for": row.holds_for,
            "outdated": row.outdated,
        }
        for dataset, (mean, low, high, observed) in row.means.items():
            cells |= {
                dataset: mean,
                f"{dataset} low": low,
                f"{dataset} high": high,
                f"{dataset} observed": observed,
            }
        yield cells
