"""Transfer matrices: what starting from each earlier task gains on each later one."""

import pandas as pd
from markupsafe import Markup

from nevis_stream.analysis.transfer_matrix import best_sources, sources
from nevis_stream.report import svg
from nevis_stream.report.across import Across
from nevis_stream.report.domains import domain_styles
from nevis_stream.report.heat_map import heat_map
from nevis_stream.report.names import to_letters
from nevis_stream.report.templates import render
from nevis_stream.terminal import as_text

TITLE = "Transfer matrix: gain from each earlier task"


def html(across: Across) -> Markup | None:
    """Returns each matrix as a heat map with its best sources; None where no directory of a matrix
    was given.
    """
    if not across.matrices:
        return None
    views = []
    for matrix, picture in zip(
        across.matrices, svg.pictures(figures(across)).values(), strict=True
    ):
        styles = domain_styles(matrix.domains.values())
        legend = [(style, domain) for domain, style in styles.items()]
        rows = best_sources(matrix).to_dict("records"), sources(matrix).to_dict("records")
        views.append((matrix, picture, legend, *rows))
    return render("parts/transfer_matrix.html", views=views)


def tables(across: Across) -> dict[str, pd.DataFrame]:
    """Returns `transfer_matrix` (the pairs), `transfer_targets` and `transfer_sources` of all
    matrices.
    """
    frames = {
        "transfer_matrix": lambda matrix: matrix.pairs,
        "transfer_targets": best_sources,
        "transfer_sources": sources,
    }
    return {name: _join(across, frame) for name, frame in frames.items() if across.matrices}


def figures(across: Across) -> dict[str, svg.Drawing]:
    """Returns `transfer_matrix_a`, `_b`, … one for each matrix."""
    return {
        f"transfer_matrix_{to_letters(i)}": svg.Drawing(
            f"Transfer matrix of {matrix.path}: gain over indep for each pair of tasks",
            lambda matrix=matrix: heat_map(matrix),
            "Cell: one run (n = 1); no bands.",
        )
        for i, matrix in enumerate(across.matrices)
    }


def _join(across: Across, frame) -> pd.DataFrame:
    names = ("stream", "stream_digest", "seed")
    heads = [
        {"matrix": as_text(str(matrix.path))} | {name: matrix.facts.get(name, "") for name in names}
        for matrix in across.matrices
    ]
    return pd.concat(
        [frame(matrix).assign(**head) for matrix, head in zip(across.matrices, heads, strict=True)]
    )
