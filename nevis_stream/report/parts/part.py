"""What a part of the page is."""

from typing import Protocol

import pandas as pd
from markupsafe import Markup

from nevis_stream.report.section import Section
from nevis_stream.report.svg import Drawing


class Part(Protocol):
    """A heading of the page with its text, tables and figures; a module with these names is one.

    The functions of a part across streams take an `Across` in the place of a section.

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
