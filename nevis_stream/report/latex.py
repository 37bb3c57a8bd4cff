"""Tables for a paper: LaTeX by pandas' Styler, with the rules of the package booktabs."""

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real

import pandas as pd

from nevis_stream.analysis.seeds import shorten_name
from nevis_stream.cost.meter import format_engineering
from nevis_stream.report.names import shorten
from nevis_stream.terminal import strip_control_characters

PREAMBLE = "\\usepackage[T1]{fontenc}\n\\usepackage{booktabs,longtable}"
MOST_ROWS = 400  # about ten pages; longer tables are not printed
_ROWS_OF_A_PAGE = 40
_LETTERS_OF_LINE = 60  # of a line, in small letters on a page of the class article
_FEWEST_LETTERS = 8  # letters of a column of text
_MOST_COLUMNS = 5
_ENGINEERING_FROM = 1_000_000  # larger numbers are written in engineering notation
_IDENTITY = ("stream_digest", "protocol")  # columns that are never printed

# columns that are printed of tables that are too wide for a page; the csv files have all
PRINTED_COLUMNS: Mapping[str, Sequence[str]] = {
    "points": ("label", "n", "error", "paper_total", "full_total"),
    "flops_to_reach": ("learner_a", "learner_b", "error", "bound", "ratio"),
    "regret": ("run", "part", "task_id", "difference", "regret"),
    "regret_at_equal_compute": ("run", "part", "task_id", "difference", "regret"),
    "regret_in_flops": ("run", "task_id", "flops", "full_flops"),
    "slices": ("label", "slice", "tasks", "error", "difference"),
    "per_task": ("run", "task_id", "split", "n", "error"),
    "beside_published": ("label", "task_id", "error", "published_error", "difference"),
    "pairs": ("label_a", "label_b", "difference", "cost_ratio"),
    "costs": ("run", "part", "flops", "share"),
    "costs_by_task": ("run", "task_id", "total"),
    "forward_transfer": ("run", "first", "later", "fwt"),
    "finetuning": ("run", "task_id", "source", "children", "depth"),
    "mistakes": ("run", "task_id", "rank", "true", "predicted"),
    "curves": ("run", "task_id", "step", "dev_error"),
    "runs": ("label", "seed", "run", "status"),
    "ablations": ("method", "variant", "runs", "error", "difference"),
    "transfer_matrix": ("source", "target", "error", "indep_error", "gain"),
    "transfer_targets": ("target", "best_source", "best_gain", "mean_gain", "helped"),
    "evaluation_methods": ("method", "budget", "mae", "accuracy_error", "coverage95"),
}

_LATEX = str.maketrans(
    {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {letter: f"\\{letter}" for letter in "&%$#_{}"}
    # after a row's end they would be its argument; two hyphens become a dash
    | {"[": "{[}", "*": "{*}", "-": "-{}", "<": "{<}", ">": "{>}"}
    | {"≥": r"$\geq$", "≤": r"$\leq$", "−": "$-$", "→": r"$\to$", "†": r"\dag{}"}
    | {"…": r"\ldots{}", "–": r"\textendash{}", "±": r"$\pm$"}
)


def format_table(frame: pd.DataFrame, name: str, notes: Iterable[str] = ()) -> str:
    """Returns a table for \\input: a float, or a `longtable` where it has more rows than a page.

    At most five columns are printed, `x` and `x_std` as one; long texts are shortened. Of methods
    and their runs, the methods are.

    Args:
      frame: one row or more.
      name: of the table, for its columns and its label.
      notes: on the names of learners with a mark (`list_notes`); the caption has those of the names
        that are printed.
    """
    if "row" in frame and (frame["row"] == "method").any():
        frame = frame[frame["row"] == "method"]
    columns = _choose_columns(frame, name)
    cells = pd.DataFrame({column: _format_cells(frame, column) for column in columns}, dtype=object)
    numeric = [_is_numeric(frame[column]) for column in columns]
    printed = _fit(cells, numeric)
    printed.columns = [_escape(column.replace("_", " ")) for column in columns]
    texts = "\n".join(cells.to_numpy(str).ravel())
    marks = [note for note in dict.fromkeys(notes) if note.partition(":")[0] in texts]
    title = name.replace("_", " ").capitalize()
    words = "; ".join([f"{title}, rounded: {name}.csv has all rows, columns and digits", *marks])
    long = len(frame) > _ROWS_OF_A_PAGE
    text = (
        printed.style.hide(axis="index")
        .set_table_styles([] if long else [{"selector": "footnotesize", "props": ":;"}])
        .to_latex(
            column_format="".join("r" if number else "l" for number in numeric),
            hrules=True,
            caption=(f"{_escape(words)}.", _escape(title)),
            label=f"tab:{name}",
            environment="longtable" if long else "table",
            position_float=None if long else "centering",
        )
    )
    return "% needs " + PREAMBLE.replace("\n", " ") + f"\n{{\\footnotesize\n{text}}}\n"


def format_document(names: Sequence[str]) -> str:
    """Returns a document of all these tables, which are in its directory."""
    inputs = "".join(f"\\input{{{name}}}\\clearpage\n" for name in names)
    begin = f"\\documentclass{{article}}\n{PREAMBLE}\n\\begin{{document}}\n"
    return f"{begin}{inputs}\\end{{document}}\n"


def _choose_columns(frame: pd.DataFrame, name: str) -> list[str]:
    """Returns the printed columns: those listed for the table, else the first five with a value."""
    named = [column for column in PRINTED_COLUMNS.get(name, ()) if column in frame]
    left_out = {*_IDENTITY, "stream", *(f"{column}_std" for column in frame)}
    known = [column for column in frame if column not in left_out and frame[column].notna().any()]
    streams = ["stream"] if "stream" in frame and frame["stream"].nunique() > 1 else []
    columns = streams + (named or known)
    return columns[:_MOST_COLUMNS] or list(frame.columns[:1])


def _format_cells(frame: pd.DataFrame, column: str) -> list[str]:
    values = [shorten_name(value) if isinstance(value, str) else value for value in frame[column]]
    deviations = frame.get(f"{column}_std", [math.nan] * len(frame))
    return [
        _format_cell(value)
        + (f" ± {_format_cell(std)}" if _format_cell(value) and _format_cell(std) else "")
        for value, std in zip(values, deviations, strict=True)
    ]


def _format_cell(value: object) -> str:
    """Returns a value for print: four decimals, large numbers in engineering notation, "" for NaN.

    >>> [_format_cell(value) for value in (0.123456, 12_300_000, float("nan"), True)]
    ['0.1235', '12.3e6', '', 'yes']
    """
    if isinstance(value, str):
        return _simplify(value)
    if pd.isna(value):
        return ""
    if type(value).__name__ in ("bool", "bool_"):
        return "yes" if value else "no"
    if not isinstance(value, Real):
        return str(value)
    if abs(value) >= _ENGINEERING_FROM and math.isfinite(value):
        return format_engineering(float(value))
    text = str(value) if float(value).is_integer() else f"{value:.4f}"
    return text.replace("-", "−")


def _is_numeric(values: pd.Series) -> bool:
    return all(isinstance(value, Real) or pd.isna(value) for value in values)


def _fit(cells: pd.DataFrame, numeric: Sequence[bool]) -> pd.DataFrame:
    """Returns the cells, escaped, with texts shortened so that a row fits on a line; `numeric` says
    which columns are numbers.
    """
    widths = [
        max(len(str(column)), *map(len, cells[column])) if number else 0
        for column, number in zip(cells, numeric, strict=True)
    ]
    room = _LETTERS_OF_LINE - 2 * len(widths) - sum(widths)
    needs = {
        column: max(len(str(column)), *map(len, cells[column]))
        for column, number in zip(cells, numeric, strict=True)
        if not number
    }
    fitted = {
        column: [_escape(text) for text in cells[column]] for column in cells if column not in needs
    }
    for place, (column, need) in enumerate(sorted(needs.items(), key=lambda each: each[1])):
        # what shorter texts do not need is left to longer ones
        most = max(_FEWEST_LETTERS, room // (len(needs) - place))
        room -= min(need, most)
        fitted[column] = [_escape(shorten(text, most)) for text in cells[column]]
    return pd.DataFrame(fitted, dtype=object)[list(cells)]


def _simplify(text: str) -> str:
    """Returns a text in letters that pdfLaTeX has: others lose their accents, or become "?"."""
    letters = [letter if letter.isprintable() else " " for letter in text]
    return " ".join("".join(map(_simplify_letter, letters)).split())


def _simplify_letter(letter: str) -> str:
    if ord(letter) < 256 or ord(letter) in _LATEX:
        return letter
    return unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode() or "?"


def _escape(text: str) -> str:
    return _simplify(strip_control_characters(text)).translate(_LATEX)
