"""How a domain is drawn: colour and marker together, so that no figure relies on colour alone."""

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from nevis_stream.report.palette import SERIES

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "*", "h", "d")
# The same shapes for the legend of the page, in a box of 12 by 12.
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


@dataclass(frozen=True)
class DomainStyle:
    """Colour number (1 to 7) and matplotlib marker."""

    colour: int
    marker: str

    @property
    def swatch(self) -> Markup:
        """The marker in its colour, for a legend."""
        head = Markup(
            '<svg class="mark" viewBox="0 0 12 12" aria-hidden="true" style="fill:var(--s{})">'
        )
        return head.format(self.colour) + Markup(_SHAPES[self.marker] + "</svg>")


def domain_styles(domains: Iterable[str]) -> dict[str, DomainStyle]:
    """Returns a style by domain, the most frequent first; up to 91 domains have styles of their
    own.
    """
    counts: dict[str, int] = {}
    for domain in domains:
        counts[domain] = counts.get(domain, 0) + 1
    ranked = sorted(counts, key=lambda domain: (-counts[domain], domain))
    return {
        domain: DomainStyle(number % SERIES + 1, _MARKERS[number % len(_MARKERS)])
        for number, domain in enumerate(ranked)
    }
