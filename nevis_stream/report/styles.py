"""How a method is drawn: colour, marker and dash, the same in every figure of a section.

A learner has one colour; its budgets differ by marker and dash, so that no figure relies on colour
alone. Colours are CSS variables of the page (`--s1` …), chosen for light and dark and for
colour-blind readers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from nevis_stream.analysis.seeds import SeedGroup
from nevis_stream.report.palette import SERIES

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_GLYPHS = "●■▲◆▼✚✖"
DASHES = ((), (6, 2), (2, 2), (8, 2, 2, 2), (4, 1), (1, 1), (10, 3))


@dataclass(frozen=True)
class Style:
    """Colour number (1 to 7), matplotlib marker and dash pattern in points (empty: solid)."""

    colour: int
    marker: str
    dash: tuple[int, ...]

    @property
    def dash_array(self) -> str:
        """The dash pattern as SVG writes it."""
        return " ".join(map(str, self.dash)) or "none"

    @property
    def glyph(self) -> str:
        """The marker as a letter, for a legend of a figure without lines."""
        return _GLYPHS[MARKERS.index(self.marker)]

    @property
    def swatch(self) -> Markup:
        """A short line in this style, for a legend."""
        return Markup(
            '<svg class="swatch" viewBox="0 0 34 10" aria-hidden="true"><path d="M1 5H33" '
            'style="stroke:var(--s{})" stroke-dasharray="{}"/></svg>'
        ).format(self.colour, self.dash_array)


def assign(groups: Sequence[SeedGroup]) -> dict[str, Style]:
    """Returns a style for every group, by label, in the groups' order."""
    learners = list(dict.fromkeys(group.learner for group in groups))
    seen: dict[int, int] = {}
    styles = {}
    for group in groups:
        colour = learners.index(group.learner) % SERIES
        variant = seen.get(colour, 0)
        seen[colour] = variant + 1
        variant %= len(MARKERS)
        styles[group.label] = Style(colour + 1, MARKERS[variant], DASHES[variant])
    return styles
