"""The parts of the page, in its order. A new part: a module here with the names of `Part`, and its
place in PARTS; or one of another package, with an entry point (see `nevis_stream.extensions`).
"""

from typing import Protocol

import pandas as pd
from markupsafe import Markup

from nevis_stream import extensions
from nevis_stream.extensions import REPORT_PARTS
from nevis_stream.report.parts import (
    ablations,
    answer,
    answering,
    costs,
    differences,
    finetuning_graph,
    forgetting,
    forward_transfer,
    learning_curves,
    per_task,
    points,
    regret,
    runs,
    samples,
    slices,
    transfer_matrix,
)
from nevis_stream.report.section import Section
from nevis_stream.report.svg import Drawing


class Part(Protocol):
    """A heading of the page with its text, tables and figures; a module with these names is one.

    The functions of a part across streams take a `PageContents` in the place of a section.

    Attributes:
      TITLE: the heading.
    """

    TITLE: str

    def html(self, section: Section) -> Markup | None:
        """Returns the part's markup below its heading; None leaves the part out: these runs have
        nothing for it.
        """

    def tables(self, section: Section) -> dict[str, pd.DataFrame]:
        """Returns the part's numbers by file stem (unique among parts), exported as csv and
        LaTeX.
        """

    def figures(self, section: Section) -> dict[str, Drawing]:
        """Returns the part's figures by file stem (unique among parts), drawn with the colours of
        `palette`; the page and the files show the same ones.
        """


PARTS: tuple[Part, ...] = (
    answer,
    differences,
    points,
    regret,
    slices,
    per_task,
    costs,
    forward_transfer,
    forgetting,
    finetuning_graph,
    learning_curves,
    samples,
    runs,
)

PARTS_ACROSS: tuple[Part, ...] = (
    ablations,
    answering,
    transfer_matrix,
    *(extensions.load(REPORT_PARTS, name) for name in extensions.list_offered(REPORT_PARTS)),
)
"""Parts whose functions take all sections together, as `PageContents`; they come last, at the end
those of other packages."""
