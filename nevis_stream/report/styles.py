"""How a method is drawn: colour, marker and dash, the same in every figure of a section.

A learner has one colour; its budgets differ by marker and dash, so that no figure relies on colour
alone. Colours are CSS variables of the page (`--s1` …), chosen for light and dark and for
colour-blind readers.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from nevis_stream.analysis.seeds import SeedGroup
from nevis_stream.report.palette import SERIES

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
# the same shapes for a legend of the page, in a box of 12 by 12; the last six are used for domains
# alone
_SHAPES = {
    "o": '<circle cx="6" cy="6" r="4.5"/>',
    "s": '<path d="M2 2H10V10H2Z"/>',
    "^": '<path d="M6 1L11 10.5H1Z"/>',
    "D": '<path d="M6 .5L11.5 6L6 11.5L.5 6Z"/>',
    "v": '<path d="M6 11L11 1.5H1Z"/>',
    "P": '<path d="M4 1H8V4H11V8H8V11H4V8H1V4H4Z"/>',
    "X": '<path d="M3 .8L6 3.7L9 .8L11.2 3L8.3 6L11.2 9L9 11.2L6 8.3L3 11.2L.8 9L3.7 6L.8 3Z"/>',
    "<": '<path d="M1 6L10.5 1V11Z"/>',
    ">": '<path d="M11 6L1.5 1V11Z"/>',
    "p": '<path d="M6 .8L11.2 4.6L9.2 10.8H2.8L.8 4.6Z"/>',
    "*": '<path d="M6 .3L7.4 4.3H11.6L8.2 6.8L9.5 10.9L6 8.4L2.5 10.9L3.8 6.8L.4 4.3H4.6Z"/>',
    "h": '<path d="M6 .5L10.8 3.2V8.8L6 11.5L1.2 8.8V3.2Z"/>',
    "d": '<path d="M6 .5L9.3 6L6 11.5L2.7 6Z"/>',
}
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
    def swatch(self) -> Markup:
        """A short line in this style, for a legend."""
        return Markup(
            '<svg class="swatch" viewBox="0 0 34 10" aria-hidden="true"><path d="M1 5H33" '
            'style="stroke:var(--s{})" stroke-dasharray="{}"/></svg>'
        ).format(self.colour, self.dash_array)

    @property
    def mark(self) -> Markup:
        """The marker in this style, for a legend of a figure without lines."""
        head = Markup(
            '<svg class="mark" viewBox="0 0 12 12" aria-hidden="true" style="fill:var(--s{})">'
        )
        return head.format(self.colour) + Markup(_SHAPES[self.marker] + "</svg>")


def assign_styles(names: Collection[str]) -> dict[str, Style]:
    """Returns a style for every name, in their order."""
    return dict(zip(names, list_series_styles(len(names)), strict=True))


def list_series_styles(count: int) -> list[Style]:
    """Returns a style for each of several series."""
    return [
        Style(i % SERIES + 1, MARKERS[i % len(MARKERS)], DASHES[i % len(DASHES)])
        for i in range(count)
    ]


def assign_method_styles(groups: Sequence[SeedGroup]) -> dict[str, Style]:
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


_DOMAIN_MARKERS = (*MARKERS, "<", ">", "p", "*", "h", "d")


def assign_domain_styles(domains: Iterable[str]) -> dict[str, Style]:
    """Returns a style by domain, the most frequent domain first; styles repeat from the 92nd on."""
    counts = Counter(domains)
    ranked = sorted(counts, key=lambda domain: (-counts[domain], domain))
    return {
        domain: Style(number % SERIES + 1, _DOMAIN_MARKERS[number % len(_DOMAIN_MARKERS)], ())
        for number, domain in enumerate(ranked)
    }
