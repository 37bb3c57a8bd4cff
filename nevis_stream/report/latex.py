"""Tables for a paper: LaTeX with the rules of the package booktabs, rounded and escaped."""

import math
from collections.abc import Hashable
from numbers import Integral, Real

import pandas as pd

from nevis_stream.report.notation import engineering

_LONG = 45  # rows that still fit on a page
_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {c: "\\" + c for c in "&%$#_{}"}
_LARGE = 1_000_000


def latex_table(frame: pd.DataFrame, name: str) -> str:
    """Returns a `table` (a `longtable` where it has more rows than a page) that \\input takes.

    Columns with one value in all rows are told in the caption, columns without any value are left out.

    Args:
      frame: one row or more.
      name: of the table, for its label.
    """
    varying, constant = _split(frame)
    numeric = [frame[column].map(_is_number).all() for column in varying]
    head = " & ".join(escape(str(column).replace("_", " ")) for column in varying) + r" \\"
    rows = [" & ".join(cell(value) for value in row) + r" \\" for row in frame[varying].itertuples(index=False)]
    told = [f"{escape(str(column).replace('_', ' '))}: {cell(value)}" for column, value in constant.items()]
    title = escape(name.replace("_", " ").capitalize())
    caption = f"\\caption{{{'. '.join([title, '; '.join(told)] if told else [title])}.}}\\label{{tab:{name}}}"
    layout = "".join("r" if number else "l" for number in numeric)
    begin, end = _frame(caption, layout, head, long=len(rows) > _LONG)
    return "\n".join([*begin, *rows, *end]) + "\n"


def escape(text: str) -> str:
    """Returns a text that LaTeX sets as it is; letters that cannot be printed become spaces.

    >>> print(escape("ft_d & 50%"))
    ft\\_d \\& 50\\%
    """
    shown = "".join(letter if letter.isprintable() else " " for letter in text)
    return "".join(_SPECIAL.get(letter, letter) for letter in " ".join(shown.split()))


def cell(value: object) -> str:
    """Returns a value for print: four decimals, large numbers in engineering notation, nothing for NaN.

    >>> cell(0.123456), cell(12_300_000), cell(float("nan")), cell(True)
    ('0.1235', '$12.3 \\\\times 10^{6}$', '', 'yes')
    """
    if value is None or value is pd.NA or value is pd.NaT or (isinstance(value, Real) and math.isnan(value)):
        return ""
    if isinstance(value, bool) or type(value).__name__ == "bool":
        return "yes" if value else "no"
    if not isinstance(value, Real):
        return escape(str(value))
    if math.isinf(value):
        return r"$\infty$" if value > 0 else r"$-\infty$"
    if abs(value) >= _LARGE:
        mantissa, _, power = engineering(abs(float(value))).partition("e")
        return f"${'-' if value < 0 else ''}{mantissa} \\times 10^{{{power}}}$"
    if isinstance(value, Integral) or (float(value).is_integer() and abs(value) >= 1000):
        return f"${int(value)}$" if value < 0 else str(int(value))
    rounded = f"{value:.4f}" if abs(value) < 1000 else f"{value:.1f}"
    return f"${rounded}$" if value < 0 else rounded


def _frame(caption: str, layout: str, head: str, long: bool) -> tuple[list[str], list[str]]:
    top, middle, bottom = r"\toprule", r"\midrule", r"\bottomrule"
    if long:
        begin = [r"% needs \usepackage{booktabs,longtable}", r"\begingroup\small", f"\\begin{{longtable}}{{{layout}}}"]
        begin += [caption + r" \\", top, head, middle, r"\endfirsthead", top, head, middle, r"\endhead"]
        return [*begin, bottom, r"\endfoot"], [r"\end{longtable}", r"\endgroup"]
    begin = [r"% needs \usepackage{booktabs}", r"\begin{table}", r"\centering\small", caption]
    return [*begin, f"\\begin{{tabular}}{{{layout}}}", top, head, middle], [bottom, r"\end{tabular}", r"\end{table}"]


def _split(frame: pd.DataFrame) -> tuple[list[Hashable], dict[Hashable, object]]:
    """The columns to be set, and the value of each column that has only one."""
    varying, constant = [], {}
    for column in frame:
        printed = frame[column].map(cell)
        if (printed == "").all():
            continue
        if len(frame) > 1 and printed.nunique() == 1:
            constant[column] = frame[column].iloc[0]
        else:
            varying.append(column)
    return varying or list(frame.columns[:1]), constant


def _is_number(value: object) -> bool:
    return cell(value) == "" or (isinstance(value, Real) and not isinstance(value, bool))
